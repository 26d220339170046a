//! What a late runtime does to the limit: a cut below what was in flight, then a look at what it did.

use std::time::Duration;

use crate::law::{Decision, Inputs, Reason};
use crate::window::{Pace, Window};

/// What a cut leaves of what was in flight.
const KEEP: f64 = 0.9;

/// The process itself is overloaded: at most one cut for each piece of news, and no growth in between.
#[derive(Debug, Default)]
pub(super) struct Local {
    late: Option<(Duration, u64)>,
    acted_on: Option<u64>,
}

impl Local {
    /// Tells how late the runtime is, and the number of that piece of news; `None` when it is not.
    pub(super) fn set(&mut self, late: Option<(Duration, u64)>) {
        self.late = late;
    }

    /// The decision while the runtime is late; `None` leaves it to the law.
    pub(super) fn decide(&mut self, limit: f64, window: &Window<'_>) -> Option<Decision> {
        let (by, news) = self.late?;
        let timed = window.samples.iter().map(|s| s.in_flight).max().unwrap_or(0);
        let peak = timed.max(window.in_flight_open).max(window.in_flight_close);
        let inputs = Inputs::default().with("runtime_delay_s", by.as_secs_f64()).with("in_flight", f64::from(peak));
        let (limit, reason) = if self.acted_on == Some(news) || peak == 0 {
            (limit, Reason::HoldLocal)
        } else {
            self.acted_on = Some(news);
            (KEEP * limit.min(f64::from(peak)), Reason::ShrinkLocal)
        };
        Some(Decision { limit, reason, inputs, pace: Pace::default() })
    }
}
