//! When a receiver may be asked again. Pure.
//!
//! After a failure the wait doubles, with jitter so that many instances do not come back together.
//! What the receiver asks for is kept to, up to an hour: nobody is asked sooner.

use std::time::Duration;

use crate::time::Nanos;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(300);
/// The longest that a receiver may ask for.
const MOST_ASKED: Duration = Duration::from_secs(3600);

/// Attempts at one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    failures: u32,
    not_before: Nanos,
}

impl Retry {
    /// When the next attempt may be made.
    pub fn not_before(&self) -> Nanos {
        self.not_before
    }

    /// Failures in a row.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// The receiver took it.
    pub fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// It did not. `asked` is its Retry-After; `jitter` lies in `0.0..1.0`.
    pub fn failed(&mut self, now: Nanos, asked: Option<Duration>, jitter: f64) {
        let doubled = SHORTEST.saturating_mul(1 << self.failures.min(16)).min(LONGEST);
        let wait = doubled.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
        self.failures = self.failures.saturating_add(1);
        self.not_before = now + wait.max(asked.unwrap_or_default().min(MOST_ASKED));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waits_double_up_to_five_minutes_and_begin_anew_after_success() {
        let mut retry = Retry::default();
        for secs in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            retry.failed(Nanos(0), None, 1.0);
            assert_eq!(retry.not_before(), Nanos(secs * SECOND));
        }
        retry.succeeded();
        assert_eq!(retry.not_before(), Nanos(0));
        retry.failed(Nanos(0), None, 0.0);
        assert_eq!(retry.not_before(), Nanos(SECOND / 2));
    }

    #[test]
    fn nobody_is_asked_sooner_than_they_said_and_nothing_is_frozen_for_a_day() {
        let mut retry = Retry::default();
        retry.failed(Nanos(SECOND), Some(Duration::from_secs(30)), 0.3);
        assert_eq!(retry.not_before(), Nanos(31 * SECOND));
        retry.failed(Nanos(0), Some(Duration::from_secs(86_400)), 0.3);
        assert_eq!(retry.not_before(), Nanos(3600 * SECOND));
    }
}
