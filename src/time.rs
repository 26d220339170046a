//! Time as the pure code sees it: nanoseconds since a limiter was made. Nobody reads a clock here.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time: nanoseconds since its limiter (or simulation) began. Never goes back by itself;
/// differences saturate at zero, so a clock that stands still or steps back is harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// A point so late that nothing reaches it.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// The time from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the beginning.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// The point `secs` seconds after the beginning; negative and NaN count as zero.
    pub fn from_secs_f64(secs: f64) -> Nanos {
        Nanos((secs * 1e9) as u64)
    }
}

impl Add<Duration> for Nanos {
    type Output = Nanos;

    fn add(self, rhs: Duration) -> Nanos {
        Nanos(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Nanos {
    type Output = Nanos;

    fn sub(self, rhs: Duration) -> Nanos {
        Nanos(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_gives_zero() {
        assert_eq!(Nanos(5).since(Nanos(9)), Duration::ZERO);
        assert_eq!(Nanos(9).since(Nanos(9)), Duration::ZERO);
        assert_eq!(Nanos(5) - Duration::from_secs(1), Nanos(0));
        assert_eq!(Nanos::NEVER + Duration::from_secs(1), Nanos::NEVER);
    }
}
