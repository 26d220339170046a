//! `aimd`: additive increase, multiplicative decrease, once a window.
//!
//! After Chiu and Jain, "Analysis of the Increase and Decrease Algorithms for Congestion Avoidance"
//! (1989), with the increase of TCP Reno: one unit for each limit's worth of good answers, so that
//! the limit grows by one in a round trip. It hears only pressure (throttles, overloads): where a
//! deep queue hides the overload, it sits at the client's time-out.

use std::time::Duration;

use super::{Decision, Inputs, Law, Reason, loss};
use crate::outcome::Outcome;
use crate::window::{Pace, Window};

/// Additive increase, multiplicative decrease.
#[derive(Clone, Copy, Debug)]
pub struct Aimd {
    /// What a decrease multiplies the limit by, within `0.1..=0.99`.
    backoff: f64,
    /// Served requests that take longer count as overload.
    latency_target: Option<Duration>,
}

/// The limit bound when at least this share of arrivals met it reached.
const BOUND_SHARE: f64 = 0.01;
/// The longest growth in one window, as a share of the limit: a long window is one round trip's worth.
const MOST_GROWTH: f64 = 0.5;

impl Default for Aimd {
    fn default() -> Self {
        Self { backoff: 0.9, latency_target: None }
    }
}

impl Aimd {
    /// What a decrease multiplies the limit by; held within `0.1..=0.99`. Default 0.9.
    #[must_use]
    pub fn backoff(mut self, backoff: f64) -> Self {
        self.backoff = if backoff.is_nan() { 0.9 } else { backoff.clamp(0.1, 0.99) };
        self
    }

    /// Served requests that take longer than this count as overload. Default: none do.
    #[must_use]
    pub fn latency_target(mut self, target: Duration) -> Self {
        self.latency_target = Some(target);
        self
    }

    /// Share of the served samples that missed the target, times the served requests.
    fn late(&self, window: &Window<'_>) -> f64 {
        let Some(target) = self.latency_target else { return 0.0 };
        let (served, late) =
            window.latencies().fold((0_u32, 0_u32), |(n, late), x| (n + 1, late + u32::from(x > target.as_secs_f64())));
        let served_all = window.finished.of(Outcome::Success) + window.finished.of(Outcome::Caller);
        served_all as f64 * f64::from(late) / f64::from(served.max(1))
    }
}

impl Law for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        let of = |outcome| window.finished.of(outcome) as f64;
        let (throttled, overloaded) = (of(Outcome::Throttled), of(Outcome::Overloaded) + self.late(window));
        let answers = loss::answers(window);
        let bound = window.bound_share();
        let inputs = Inputs::default()
            .with("throttled", throttled)
            .with("overloaded", overloaded)
            .with("answers", answers)
            .with("bound_share", bound);

        let (limit, reason) = if loss::tolerate(throttled + overloaded, answers) > 0.0 {
            let reason = if throttled > overloaded { Reason::ShrinkThrottle } else { Reason::ShrinkOverload };
            (limit * self.backoff, reason)
        } else if window.stalled {
            (limit, Reason::HoldStalled)
        } else if bound < BOUND_SHARE {
            (limit, Reason::HoldAppLimited)
        } else {
            let good = of(Outcome::Success) + of(Outcome::Caller);
            (
                limit + (good / limit).min(MOST_GROWTH * limit),
                if good > 0.0 { Reason::Grow } else { Reason::HoldUncertain },
            )
        };
        Decision { limit, reason, inputs, pace: Pace { max: Duration::from_millis(500), ..Pace::default() } }
    }
}
