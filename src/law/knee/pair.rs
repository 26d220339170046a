//! Paired steps: the same service at two in-flight levels tells what no stored baseline can.
//!
//! Before a dip the latency at the limit is known; in the dip, requests meet fewer in flight. If
//! latency falls in proportion, a queue stood; if it stays, the service itself takes that long.
//! The evidence of several dips adds up (a sequential probability ratio test) until it is enough.

use crate::time::Nanos;

/// Enough evidence, in log odds: nine to one.
const ENOUGH: f64 = 2.2;
/// A queue of our own makes latency rise in proportion to the level. One that others share, who do not
/// dip, rises less: so this share of it already counts as a queue.
const RISE: f64 = 0.3;
/// A pair further apart than this (log) in the wrong direction is no pair: the world changed meanwhile.
const WRONG_WAY: f64 = 0.4;

/// What the dips say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Latency does not depend on the level: it is the service's own. ln of it.
    Own(f64),
    /// A queue stands at both levels.
    Queue,
}

/// Mean latency and level of some requests.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    weight: f64,
    latency: f64,
    ln_units: f64,
}

impl Mean {
    fn add(&mut self, latency: f64, ln_units: f64, weight: f64) {
        self.weight += weight;
        self.latency += weight * latency;
        self.ln_units += weight * ln_units;
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pair {
    /// At the limit, slowly forgotten; frozen in a dip.
    high: Mean,
    low: Mean,
    /// Only requests that began after the last step count.
    since: Nanos,
    open: bool,
    evidence: f64,
}

impl Pair {
    /// A served request.
    pub(super) fn add(&mut self, start: Nanos, latency: f64, ln_units: f64, weight: f64) {
        if start < self.since {
            return;
        }
        if self.open {
            self.low.add(latency, ln_units, weight);
        } else {
            self.high.add(latency, ln_units, weight);
        }
    }

    pub(super) fn forget(&mut self, kept: f64) {
        if !self.open {
            self.high.weight *= kept;
            self.high.latency *= kept;
            self.high.ln_units *= kept;
        }
    }

    /// The limit moved or the downstream changed: what came before is no reference.
    pub(super) fn restart(&mut self, now: Nanos) {
        *self = Self { since: now, evidence: self.evidence, ..Self::default() };
    }

    /// A dip begins.
    pub(super) fn open(&mut self, now: Nanos) {
        self.open = true;
        self.low = Mean::default();
        self.since = now;
    }

    /// A dip ends. `waited` is the time that unfinished requests of the dip have waited so far,
    /// `noise` the relative variance of latency.
    pub(super) fn close(&mut self, now: Nanos, waited: f64, noise: f64) -> Option<Verdict> {
        if !self.open {
            return None;
        }
        let (high, low) = (self.high, self.low);
        self.restart(now);
        if high.weight < 3.0 || low.weight < 3.0 {
            return None;
        }
        let ln_low = ((low.latency + waited) / low.weight).ln();
        let rise = (high.latency / high.weight).ln() - ln_low;
        let step = high.ln_units / high.weight - low.ln_units / low.weight;
        if step < 0.1 || rise < -WRONG_WAY {
            return None;
        }
        let error = noise / high.weight + noise / low.weight + 0.005;
        // Log odds of "no rise" against "a rise by a share of the step".
        let step = RISE * step;
        self.evidence += (step * step - 2.0 * rise * step) / (2.0 * error);
        if self.evidence.abs() < ENOUGH {
            return None;
        }
        let own = self.evidence > 0.0;
        self.evidence = 0.0;
        Some(if own { Verdict::Own(ln_low) } else { Verdict::Queue })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dips(low: f64) -> Option<Verdict> {
        let mut pair = Pair::default();
        (0..60_u64).find_map(|i| {
            let at = |ms: u64| Nanos((i * 10_000 + ms) * 1_000_000);
            pair.restart(at(0));
            (0..60).for_each(|_| pair.add(at(1), 0.2, 40.0_f64.ln(), 1.0));
            pair.open(at(5000));
            pair.add(at(4999), 9.9, 40.0_f64.ln(), 1.0);
            (0..60).for_each(|_| pair.add(at(5001), low, 28.0_f64.ln(), 1.0));
            pair.close(at(8000), 0.0, 1.0)
        })
    }

    #[test]
    fn latency_that_falls_with_the_level_is_a_queue_and_latency_that_stays_is_not() {
        assert_eq!(dips(0.14), Some(Verdict::Queue));
        assert!(matches!(dips(0.2), Some(Verdict::Own(s)) if (s - 0.2_f64.ln()).abs() < 1e-9));
        assert_eq!(dips(0.6), None, "slower with fewer in flight: something else changed");
    }
}
