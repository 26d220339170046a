//! The one place that reads a clock.
//!
//! tokio's clock, so that a test that pauses tokio's time stops ours with it.

use std::time::Instant;

use crate::time::Nanos;

/// A monotonic clock that counts from when it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
}

/// Now, as an instant: for deadlines, which outlive a limiter.
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { origin: now() }
    }

    /// Now.
    pub(crate) fn now(&self) -> Nanos {
        self.at(now())
    }

    /// A caller's instant on this clock; what lies before the beginning is the beginning.
    pub(crate) fn at(&self, instant: Instant) -> Nanos {
        Nanos(u64::try_from(instant.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX))
    }

    /// A point of this clock as an instant to sleep until; a point too far away is a year away.
    pub(crate) fn instant_of(&self, at: Nanos) -> tokio::time::Instant {
        const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;
        let at = at.0.min(self.now().0.saturating_add(YEAR));
        tokio::time::Instant::from_std(self.origin + std::time::Duration::from_nanos(at))
    }
}

/// Wall time, for records that people read. Never used to measure.
#[cfg_attr(
    not(any(feature = "audit", feature = "alerts", feature = "tower")),
    expect(dead_code, reason = "only records tell wall time")
)]
#[expect(clippy::disallowed_methods, reason = "this is the place")]
pub(crate) fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
