//! `gradient`: the limit follows the ratio of long-term to short-term latency.
//!
//! The formula of `Gradient2Limit` in Netflix' concurrency-limits (2018), with its names:
//! `gradient = max(0.5, min(1, tolerance * long_rtt / short_rtt))`,
//! `limit = (1 - smoothing) * limit + smoothing * (limit * gradient + queue_size)`.
//! Two differences: `short_rtt` is the mean of a window rather than one sample, and losses count.
//! Its long average adopts a queue that stands for long enough, and it grows by less than one
//! unit a window.

use std::time::Duration;

use super::{Decision, Inputs, Law, Reason, loss};
use crate::window::{Pace, Window};

/// Limit by latency gradient.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    tolerance: f64,
    smoothing: f64,
    queue_size: f64,
    long_rtt: LongRtt,
}

/// `long_rtt`: an exponential average over so many windows; the plain mean of the first few.
const LONG_WINDOW: f64 = 600.0;
const WARMUP: u32 = 10;
/// The average falls faster when it lies so far above the short one.
const DRIFT: (f64, f64) = (2.0, 0.95);
const LEAST_GRADIENT: f64 = 0.5;
/// The limit bound when at least this share of arrivals met it reached.
const BOUND_SHARE: f64 = 0.01;

#[derive(Clone, Copy, Debug, Default)]
struct LongRtt {
    mean: f64,
    seen: u32,
}

impl LongRtt {
    fn add(&mut self, rtt: f64) -> f64 {
        self.seen = self.seen.saturating_add(1);
        let share = if self.seen <= WARMUP { 1.0 / f64::from(self.seen) } else { 2.0 / (LONG_WINDOW + 1.0) };
        self.mean += share * (rtt - self.mean);
        if self.mean > DRIFT.0 * rtt {
            self.mean *= DRIFT.1;
        }
        self.mean
    }
}

impl Default for Gradient {
    fn default() -> Self {
        Self { tolerance: 1.5, smoothing: 0.2, queue_size: 4.0, long_rtt: LongRtt::default() }
    }
}

impl Gradient {
    /// How far latency may rise above its long-term mean before the limit falls, `1.0..=10.0`. Default 1.5.
    #[must_use]
    pub fn tolerance(mut self, tolerance: f64) -> Self {
        self.tolerance = if tolerance.is_nan() { 1.5 } else { tolerance.clamp(1.0, 10.0) };
        self
    }

    /// Share of the newest answer in the limit, `0.01..=1.0`. Default 0.2.
    #[must_use]
    pub fn smoothing(mut self, smoothing: f64) -> Self {
        self.smoothing = if smoothing.is_nan() { 0.2 } else { smoothing.clamp(0.01, 1.0) };
        self
    }

    /// Units that may queue downstream, `1.0..=1000.0`. Default 4.
    #[must_use]
    pub fn queue_size(mut self, queue_size: f64) -> Self {
        self.queue_size = if queue_size.is_nan() { 4.0 } else { queue_size.clamp(1.0, 1000.0) };
        self
    }
}

impl Law for Gradient {
    fn name(&self) -> &'static str {
        "gradient"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        let lost = loss::share(window);
        let bound = window.bound_share();
        let inputs = Inputs::default().with("loss_share", lost).with("bound_share", bound);
        let answer = |limit, reason, inputs| Decision { limit, reason, inputs, pace: pace() };
        if lost > 0.0 {
            return answer(limit * (1.0 - lost).max(LEAST_GRADIENT), loss::reason(window), inputs);
        }
        let Some(short_rtt) = window.mean_latency().filter(|rtt| *rtt > 0.0) else {
            let reason = if window.stalled { Reason::HoldStalled } else { Reason::HoldUncertain };
            return answer(limit, reason, inputs);
        };
        let long_rtt = self.long_rtt.add(short_rtt);
        let gradient = (self.tolerance * long_rtt / short_rtt).clamp(LEAST_GRADIENT, 1.0);
        let inputs = inputs.with("long_rtt_s", long_rtt).with("short_rtt_s", short_rtt).with("gradient", gradient);
        if f64::from(window.peak_in_flight()) < limit / 2.0 {
            return answer(limit, Reason::HoldAppLimited, inputs);
        }
        let new = (1.0 - self.smoothing) * limit + self.smoothing * (limit * gradient + self.queue_size);
        if new <= limit {
            return answer(new, Reason::ShrinkLatency, inputs);
        }
        if bound < BOUND_SHARE {
            return answer(limit, Reason::HoldAppLimited, inputs);
        }
        answer(new, Reason::Grow, inputs)
    }

    fn learned(&self) -> super::Learned {
        let known = self.long_rtt.seen > 0;
        super::Learned { unloaded_latency_s: known.then_some(self.long_rtt.mean), ..Default::default() }
    }
}

/// The original's windows: one second, ten samples.
fn pace() -> Pace {
    Pace { min: Duration::from_secs(1), max: Duration::from_secs(5), samples: 10 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_average_starts_as_a_mean_and_then_hardly_moves() {
        let mut long = LongRtt::default();
        assert_eq!([1.0, 3.0].map(|rtt| long.add(rtt)), [1.0, 2.0]);
        for _ in 0..8 {
            long.add(2.0);
        }
        assert!(long.add(3.0) < 2.01);
        assert!(long.add(0.5) < 1.95, "drifts down quickly");
    }
}
