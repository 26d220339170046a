//! When the next request arrives: Poisson at a rate that may move, or a recorded trace.

use crate::sim::rng::Rng;
use crate::sim::scenario::{PhaseSpec, Trace};

/// Open arrivals.
pub(super) struct Arrivals {
    rng: Rng,
    next: f64,
    phase: PhaseSpec,
    start: f64,
    end: f64,
    fastest: f64,
    trace: Vec<(f64, f64)>,
    recorded: usize,
}

impl Arrivals {
    pub(super) fn new(rng: Rng) -> Self {
        Self {
            rng,
            next: f64::INFINITY,
            phase: PhaseSpec::default(),
            start: 0.0,
            end: 0.0,
            fastest: 0.0,
            trace: Vec::new(),
            recorded: 0,
        }
    }

    /// Another phase begins. Poisson arrivals have no memory: what was next is drawn anew.
    pub(super) fn begin_phase(&mut self, now: f64, phase: &PhaseSpec, trace: Option<&Trace>) {
        self.phase = phase.clone();
        self.start = now;
        self.end = now + phase.seconds;
        if let Some(trace) = trace {
            if self.trace.is_empty() {
                self.trace.clone_from(&trace.requests);
            }
            self.next = self.trace.get(self.recorded).map_or(f64::INFINITY, |r| r.0);
            return;
        }
        let rate = phase.rate.unwrap_or(0.0);
        let burst = phase.burst.map_or(1.0, |burst| burst.factor);
        self.fastest = rate.max(phase.rate_end.unwrap_or(0.0)) * burst.max(1.0);
        self.draw(now);
    }

    pub(super) fn next(&self) -> f64 {
        self.next
    }

    /// The arrival has come; gives its work in seconds when it was recorded.
    pub(super) fn advance(&mut self) -> Option<f64> {
        if self.trace.is_empty() {
            self.draw(self.next);
            return None;
        }
        let work = self.trace[self.recorded].1;
        self.recorded += 1;
        self.next = self.trace.get(self.recorded).map_or(f64::INFINITY, |r| r.0);
        Some(work)
    }

    /// By thinning: candidates at the fastest rate, kept with the share of the rate at their time.
    fn draw(&mut self, from: f64) {
        let mut at = from;
        self.next = f64::INFINITY;
        while self.fastest > 0.0 {
            at += self.rng.exp() / self.fastest;
            if at >= self.end {
                return;
            }
            let rate = self.rate(at);
            if rate >= self.fastest || self.rng.unit() * self.fastest < rate {
                self.next = at;
                return;
            }
        }
    }

    fn rate(&self, at: f64) -> f64 {
        let rate = self.phase.rate.unwrap_or(0.0);
        let into = at - self.start;
        let rate = match self.phase.rate_end {
            Some(end) => rate + (end - rate) * into / self.phase.seconds,
            None => rate,
        };
        match self.phase.burst {
            Some(burst) if (into / burst.every_s).fract() >= 1.0 - burst.share => rate * burst.factor,
            _ => rate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(phase: &PhaseSpec) -> Vec<f64> {
        let mut arrivals = Arrivals::new(Rng::new(3, 1));
        arrivals.begin_phase(0.0, phase, None);
        let mut times = Vec::new();
        while arrivals.next().is_finite() {
            times.push(arrivals.next());
            arrivals.advance();
        }
        times
    }

    #[test]
    fn a_ramp_brings_its_mean_and_a_burst_its_share() {
        let ramp = PhaseSpec { seconds: 100.0, rate: Some(50.0), rate_end: Some(150.0), ..PhaseSpec::default() };
        let n = times(&ramp).len();
        assert!((9_600..10_400).contains(&n), "{n}");
        let burst = crate::sim::scenario::Burst { every_s: 4.0, share: 0.5, factor: 0.1 };
        let on_off = PhaseSpec { seconds: 100.0, rate: Some(100.0), burst: Some(burst), ..PhaseSpec::default() };
        let times = times(&on_off);
        let off = times.iter().filter(|t| (*t / 4.0).fract() >= 0.5).count();
        assert!((400..600).contains(&off) && (4_700..5_300).contains(&(times.len() - off)), "{off}");
    }
}
