//! `vegas`: keeps a small number of requests in the downstream's queue.
//!
//! After Brakmo and Peterson, "TCP Vegas: End to End Congestion Avoidance" (1995), in the form of
//! `VegasLimit` in Netflix' concurrency-limits, with its names: `queue_size = limit * (1 -
//! rtt_noload / rtt)` is held between `alpha = 3 log10(limit)` and `beta = 6 log10(limit)`.
//! The latencies are means of windows rather than single samples, and losses cut by their share. Variance of the work looks like
//! a queue to it: it suits services whose work is nearly constant.

use std::time::Duration;

use super::{Decision, Inputs, Law, Learned, Reason, loss};
use crate::window::{Pace, Window};

/// Limit by estimated queue.
#[derive(Clone, Copy, Debug)]
pub struct Vegas {
    alpha: f64,
    beta: f64,
    rtt_noload: f64,
    /// Windows since `rtt_noload` was taken anew.
    age: u32,
}

/// `rtt_noload` is taken anew after so many windows: the downstream may have become slower.
const PROBE: u32 = 300;
/// Losses keep at least this share of the limit.
const LEAST_KEPT: f64 = 0.5;
/// The limit bound when at least this share of arrivals met it reached.
const BOUND_SHARE: f64 = 0.01;

impl Default for Vegas {
    fn default() -> Self {
        Self { alpha: 3.0, beta: 6.0, rtt_noload: f64::INFINITY, age: 0 }
    }
}

impl Vegas {
    /// The queue is held between `alpha` and `beta`, times log10 of the limit; at least 1 and
    /// `alpha`. Default 3 and 6.
    #[must_use]
    pub fn queue(mut self, alpha: f64, beta: f64) -> Self {
        self.alpha = if alpha.is_nan() { 3.0 } else { alpha.clamp(1.0, 1000.0) };
        self.beta = if beta.is_nan() { 6.0 } else { beta.clamp(self.alpha, 1000.0) };
        self
    }
}

impl Law for Vegas {
    fn name(&self) -> &'static str {
        "vegas"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        let log = limit.log10().max(1.0);
        let (lost, bound) = (loss::share(window), window.bound_share());
        let inputs = Inputs::default().with("loss_share", lost).with("bound_share", bound);
        let answer = |limit, reason, inputs| Decision { limit, reason, inputs, pace: pace(window) };
        if lost > 0.0 {
            return answer(limit * (1.0 - lost).max(LEAST_KEPT), loss::reason(window), inputs);
        }
        let Some(rtt) = window.mean_latency().filter(|rtt| *rtt > 0.0) else {
            let reason = if window.stalled { Reason::HoldStalled } else { Reason::HoldUncertain };
            return answer(limit, reason, inputs);
        };
        self.age += 1;
        if self.age > PROBE || rtt < self.rtt_noload {
            (self.rtt_noload, self.age) = (rtt, 0);
        }
        let queue_size = (limit * (1.0 - self.rtt_noload / rtt)).ceil();
        let inputs = inputs.with("rtt_s", rtt).with("rtt_noload_s", self.rtt_noload).with("queue_size", queue_size);
        if f64::from(window.peak_in_flight()) * 2.0 < limit {
            return answer(limit, Reason::HoldAppLimited, inputs);
        }
        if queue_size > self.beta * log {
            return answer((limit - log).max(1.0), Reason::ShrinkLatency, inputs);
        }
        if queue_size >= self.alpha * log {
            return answer(limit, Reason::Hold, inputs);
        }
        if bound < BOUND_SHARE {
            return answer(limit, Reason::HoldAppLimited, inputs);
        }
        let more = if queue_size <= log { self.beta * log } else { log };
        answer(limit + more, Reason::Grow, inputs)
    }

    fn learned(&self) -> Learned {
        let known = self.rtt_noload.is_finite();
        Learned { unloaded_latency_s: known.then_some(self.rtt_noload), ..Default::default() }
    }
}

/// About a round trip.
fn pace(window: &Window<'_>) -> Pace {
    let rtt = window.mean_latency().unwrap_or(0.1).clamp(0.01, 10.0);
    Pace { min: Duration::from_secs_f64(rtt), max: Duration::from_secs_f64(4.0 * rtt), samples: 32 }
}
