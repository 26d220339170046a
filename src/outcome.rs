//! How a request ended, as the law sees it.
//!
//! One classification drives separate levers: the concurrency limit, rate
//! ceilings, breakers and the latency estimate. This module only names the
//! outcomes and says which lever each one moves; reading an HTTP answer is
//! [`crate::classify`]'s job.

use std::fmt;

/// How an admitted request ended.
///
/// | outcome | concurrency limit | latency sample |
/// |---|---|---|
/// | `Success` | may grow | yes |
/// | `Throttled` | at most one decrease a window | never |
/// | `Overloaded` | at most one decrease a window | as a lower bound |
/// | `Fault` | unchanged | never |
/// | `Exhausted` | unchanged | never |
/// | `Caller` | unchanged | never |
/// | `Cancelled` | unchanged | as a lower bound, when already above the baseline |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// A good answer.
    Success,
    /// "Too fast": a quota per time was exceeded (429, SlowDown).
    Throttled,
    /// "Too many": the downstream refuses or times out because it carries too much.
    Overloaded,
    /// "Broken": another server error, a refused or reset connection.
    Fault,
    /// Nothing more until someone acts: an account's quota is used up.
    Exhausted,
    /// The caller's own mistake (other 4xx): it was served.
    Caller,
    /// The permit ended without an outcome: the caller went away.
    Cancelled,
}

impl Outcome {
    /// Every outcome, in the order of [`Outcome::index`].
    pub const ALL: [Outcome; 7] = [
        Outcome::Success,
        Outcome::Throttled,
        Outcome::Overloaded,
        Outcome::Fault,
        Outcome::Exhausted,
        Outcome::Caller,
        Outcome::Cancelled,
    ];

    /// The label used in metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Outcome::Success => "success",
            Outcome::Throttled => "throttled",
            Outcome::Overloaded => "overloaded",
            Outcome::Fault => "fault",
            Outcome::Exhausted => "exhausted",
            Outcome::Caller => "caller",
            Outcome::Cancelled => "cancelled",
        }
    }

    /// Position in [`Outcome::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the request was really served.
    pub const fn is_served(self) -> bool {
        matches!(self, Outcome::Success | Outcome::Caller)
    }

    /// Whether its duration teaches a law what work takes. A caller's mistake is answered without the
    /// work, in a moment as a rule: as a latency it would make the downstream look faster than it is.
    pub const fn is_latency(self) -> bool {
        matches!(self, Outcome::Success)
    }

    /// Whether the outcome says that the downstream was asked for too much.
    pub const fn is_pressure(self) -> bool {
        matches!(self, Outcome::Throttled | Outcome::Overloaded)
    }

    /// Whether the duration is only a lower bound of the latency.
    pub const fn is_lower_bound(self) -> bool {
        matches!(self, Outcome::Overloaded | Outcome::Cancelled)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A count for each outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; Outcome::ALL.len()]);

impl OutcomeCounts {
    /// The count of one outcome.
    pub const fn of(&self, outcome: Outcome) -> u64 {
        self.0[outcome.index()]
    }

    /// Adds `n` to one outcome.
    pub fn add(&mut self, outcome: Outcome, n: u64) {
        self.0[outcome.index()] += n;
    }

    /// All outcomes together: how many requests finished.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// What was added since `earlier`, an older reading of the same counters.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut out = Self::default();
        for (i, n) in out.0.iter_mut().enumerate() {
            *n = self.0[i].saturating_sub(earlier.0[i]);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_position_in_all() {
        for (i, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.index(), i);
        }
    }

    #[test]
    fn counts_since_an_earlier_reading() {
        let mut before = OutcomeCounts::default();
        before.add(Outcome::Success, 3);
        let mut after = before;
        after.add(Outcome::Success, 2);
        after.add(Outcome::Fault, 1);
        let delta = after.since(&before);
        assert_eq!((delta.of(Outcome::Success), delta.of(Outcome::Fault), delta.total()), (2, 1, 3));
    }
}
