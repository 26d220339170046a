//! Whether a request is sent again, and when. Pure: dice and times are arguments.
//!
//! It asks what the verdict says (may it be sent again, how long to wait), what its caller says (is
//! doing it twice harmless), and what the [`RetryBudget`] has left. It never waits less than it was
//! told to, and rather gives up than waits longer than it may. A refusal of tidegate's own is not
//! asked about: sending it again would only come back to the same limiter.

mod budget;

use std::time::Duration;

pub use budget::RetryBudget;

use crate::classify::{Retry, Verdict};

/// When requests are sent again.
///
/// ```
/// use std::time::Duration;
/// use tidegate::retry::RetryPolicy;
/// use tidegate::classify::Verdict;
/// use tidegate::Outcome;
///
/// let policy = RetryPolicy::default().attempts(3);
/// let throttled = Verdict::of(Outcome::Throttled);
/// // The first attempt of a harmless request was throttled; the dice show the middle.
/// let again = policy.decide(1, &throttled, true, None, 0.5);
/// assert_eq!(again, Ok(Duration::from_millis(50)));
/// assert!(policy.decide(3, &throttled, true, None, 0.5).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryPolicy {
    attempts: u32,
    base: Duration,
    most: Duration,
    longest_told: Duration,
    repeat: Repeat,
}

/// Which requests may be sent again though doing them twice may do harm: those with a method that is
/// not idempotent, and without an idempotency key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeat {
    /// None of them.
    #[default]
    Safe,
    /// Those that the other side says it has not done: throttles, for one.
    Undone,
    /// All.
    Everything,
}

/// Why a request is not sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GiveUp {
    /// It succeeded, or it would fail in the same way.
    Final,
    /// Doing it twice may do harm.
    Unsafe,
    /// All attempts are made.
    Attempts,
    /// The wait that it was told is longer than the policy allows.
    TooLong,
    /// The wait would end after the deadline.
    Deadline,
    /// Too many others are being sent again.
    Budget,
}

impl GiveUp {
    /// The word used in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            GiveUp::Final => "final",
            GiveUp::Unsafe => "unsafe",
            GiveUp::Attempts => "attempts",
            GiveUp::TooLong => "too_long",
            GiveUp::Deadline => "deadline",
            GiveUp::Budget => "budget",
        }
    }
}

impl Default for RetryPolicy {
    /// Three attempts in all; waits of up to 100 ms, 200 ms and so on, at most 10 s; told waits of up
    /// to 60 s; only what is safe.
    fn default() -> Self {
        Self {
            attempts: 3,
            base: Duration::from_millis(100),
            most: Duration::from_secs(10),
            longest_told: Duration::from_secs(60),
            repeat: Repeat::Safe,
        }
    }
}

impl RetryPolicy {
    /// Attempts in all, the first included; at least 1, which sends nothing again.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// The wait after attempt `n` is drawn evenly from zero to `base * 2^(n-1)`, and at most `most`.
    #[must_use]
    pub fn backoff(mut self, base: Duration, most: Duration) -> Self {
        (self.base, self.most) = (base, most);
        self
    }

    /// The longest wait that an answer may ask for; it is handed on when it asks for more.
    #[must_use]
    pub fn longest_told(mut self, longest: Duration) -> Self {
        self.longest_told = longest;
        self
    }

    /// Which requests may be sent again though doing them twice may do harm.
    #[must_use]
    pub fn repeat(mut self, repeat: Repeat) -> Self {
        self.repeat = repeat;
        self
    }

    /// Whether a request that may do harm twice can ever be sent again: if not, it need not be kept.
    pub fn may_repeat(&self, safe: bool) -> bool {
        self.attempts > 1 && (safe || self.repeat != Repeat::Safe)
    }

    /// How long to wait before the next attempt, counted from now.
    ///
    /// `made` attempts were made, and the last ended as `verdict` says. `safe` says whether doing it
    /// twice does no harm; `left` is what its deadline leaves; `dice` lies in `0.0..1.0`. The budget is
    /// asked by the caller, last.
    ///
    /// # Errors
    /// [`GiveUp`] with the reason when it is not sent again.
    pub fn decide(
        &self,
        made: u32,
        verdict: &Verdict<'_>,
        safe: bool,
        left: Option<Duration>,
        dice: f64,
    ) -> Result<Duration, GiveUp> {
        let harmless = match self.repeat {
            Repeat::Safe => safe,
            Repeat::Undone => safe || verdict.retry == Retry::Yes,
            Repeat::Everything => true,
        };
        if !verdict.may_retry(true) {
            return Err(GiveUp::Final);
        }
        if !harmless {
            return Err(GiveUp::Unsafe);
        }
        if made >= self.attempts {
            return Err(GiveUp::Attempts);
        }
        let told = verdict.wait.map_or(Duration::ZERO, |wait| wait.length);
        if told > self.longest_told {
            return Err(GiveUp::TooLong);
        }
        let wait = self.wait(made, told, dice);
        if left.is_some_and(|left| wait >= left) { Err(GiveUp::Deadline) } else { Ok(wait) }
    }

    /// Full jitter; what was told is the least, and lengthened by up to a tenth so that those who were
    /// told the same come back spread.
    fn wait(&self, made: u32, told: Duration, dice: f64) -> Duration {
        let doubled = 1_u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX);
        let most = self.base.saturating_mul(doubled).min(self.most);
        most.mul_f64(dice).max(told.mul_f64(1.0 + 0.1 * dice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Wait, WaitSource};
    use crate::outcome::Outcome;

    const MS: Duration = Duration::from_millis(1);

    fn told(length: Duration) -> Verdict<'static> {
        Verdict::of(Outcome::Throttled).with_wait(Wait { length, source: WaitSource::RetryAfter })
    }

    #[test]
    fn waits_double_are_drawn_in_full_and_have_a_top() {
        let policy = RetryPolicy::default().attempts(100).backoff(100 * MS, 1000 * MS);
        let wait = |made, dice| policy.decide(made, &Verdict::of(Outcome::Overloaded), true, None, dice);
        assert_eq!([wait(1, 0.0), wait(1, 0.5), wait(2, 0.5), wait(3, 0.5)], [0, 50, 100, 200].map(|ms| Ok(ms * MS)));
        assert_eq!([wait(10, 0.5), wait(64, 0.5)], [500, 500].map(|ms| Ok(ms * MS)));
    }

    #[test]
    fn what_is_told_is_the_least_and_spread_a_little() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.decide(1, &told(3000 * MS), true, None, 0.0), Ok(3000 * MS));
        assert_eq!(policy.decide(1, &told(3000 * MS), true, None, 0.5), Ok(3150 * MS));
        assert_eq!(policy.decide(1, &told(61_000 * MS), true, None, 0.5), Err(GiveUp::TooLong));
    }

    #[test]
    fn a_wait_that_ends_after_the_deadline_is_not_begun() {
        let policy = RetryPolicy::default();
        assert_eq!(policy.decide(1, &told(3000 * MS), true, Some(3000 * MS), 0.0), Err(GiveUp::Deadline));
        assert_eq!(policy.decide(1, &told(3000 * MS), true, Some(3001 * MS), 0.0), Ok(3000 * MS));
    }

    #[test]
    fn what_may_do_harm_twice_is_sent_again_only_when_told() {
        let (throttled, fault) = (Verdict::of(Outcome::Throttled), Verdict::of(Outcome::Fault));
        let (safe, undone) = (RetryPolicy::default(), RetryPolicy::default().repeat(Repeat::Undone));
        let all = RetryPolicy::default().repeat(Repeat::Everything);
        let may = |policy: RetryPolicy, verdict| policy.decide(1, verdict, false, None, 0.0).map(|_| ());
        assert_eq!([may(safe, &throttled), may(safe, &fault)], [Err(GiveUp::Unsafe); 2]);
        assert_eq!([may(undone, &throttled), may(undone, &fault)], [Ok(()), Err(GiveUp::Unsafe)]);
        assert_eq!([may(all, &throttled), may(all, &fault)], [Ok(()); 2]);
        assert_eq!(all.decide(1, &Verdict::of(Outcome::Caller), true, None, 0.0), Err(GiveUp::Final));
        assert!(!safe.may_repeat(false) && safe.may_repeat(true) && undone.may_repeat(false));
        assert!(!all.attempts(1).may_repeat(true));
    }
}
