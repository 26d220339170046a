//! What an answer means, as answers to four questions that have nothing to do with each other: is it
//! pressure, may the request be sent again, how long to wait, and whom does it concern.

use std::fmt;
use std::time::Duration;

use crate::outcome::Outcome;

/// What an answer means, and the rule that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict<'a> {
    /// How the request ended. [`Outcome::is_pressure`] says whether the downstream was asked for too
    /// much.
    pub outcome: Outcome,
    /// Whether the request may be sent again.
    pub retry: Retry,
    /// How long to stay away, when the answer or the rule says so. Neither capped nor jittered: that
    /// is [`HoldOff`](crate::HoldOff)'s part.
    pub wait: Option<Wait>,
    /// Whom the answer concerns besides the request itself.
    pub scope: Scope,
    /// The name of the rule that matched; `"unmatched"` when none did.
    pub rule: &'a str,
}

impl Verdict<'_> {
    /// Whether the downstream said that it was asked for too much. Neither a reason to trip a breaker
    /// nor one to delete anything.
    pub const fn is_pressure(&self) -> bool {
        self.outcome.is_pressure()
    }

    /// Whether the request may be sent again; `safe` says whether doing it twice does no harm.
    pub const fn may_retry(&self, safe: bool) -> bool {
        match self.retry {
            Retry::Never => false,
            Retry::IfSafe => safe,
            Retry::Yes => true,
        }
    }
}

impl Verdict<'static> {
    /// The verdict of a caller that knows the outcome and nothing else.
    pub const fn of(outcome: Outcome) -> Self {
        Self { outcome, retry: Retry::of(outcome), wait: None, scope: Scope::Key, rule: "unmatched" }
    }

    /// The same, with a wait that was told some other way.
    #[must_use]
    pub const fn with_wait(mut self, wait: Wait) -> Self {
        self.wait = Some(wait);
        self
    }
}

/// Whether a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Retry {
    /// No: it succeeded, or it would fail in the same way.
    Never,
    /// Only when doing it twice does no harm: it may have been done already.
    IfSafe,
    /// Yes: the downstream did not do it.
    Yes,
}

impl Retry {
    /// What an outcome alone says.
    pub const fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success | Outcome::Caller | Outcome::Exhausted | Outcome::Cancelled => Retry::Never,
            Outcome::Overloaded | Outcome::Fault => Retry::IfSafe,
            Outcome::Throttled => Retry::Yes,
        }
    }

    /// The word used in configs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Retry::Never => "never",
            Retry::IfSafe => "if_safe",
            Retry::Yes => "yes",
        }
    }
}

/// A time to stay away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// How long, counted from when the answer came.
    pub length: Duration,
    /// Who said so.
    pub source: WaitSource,
}

/// Who said how long to stay away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WaitSource {
    /// `Retry-After`, or one of its twins in milliseconds.
    RetryAfter,
    /// A header that says when a rate limit resets.
    RateLimitReset,
    /// `google.rpc.RetryInfo`, in gRPC details or in a JSON body.
    RetryInfo,
    /// `grpc-retry-pushback-ms`.
    Pushback,
    /// Words in a message.
    Text,
    /// The rule that matched: nothing in the answer said so.
    Rule,
    /// The caller itself.
    Caller,
}

impl WaitSource {
    /// Every source, in the order of [`WaitSource::index`].
    pub const ALL: [WaitSource; 7] = [
        WaitSource::RetryAfter,
        WaitSource::RateLimitReset,
        WaitSource::RetryInfo,
        WaitSource::Pushback,
        WaitSource::Text,
        WaitSource::Rule,
        WaitSource::Caller,
    ];

    /// The label used in metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            WaitSource::RetryAfter => "retry_after",
            WaitSource::RateLimitReset => "rate_limit_reset",
            WaitSource::RetryInfo => "retry_info",
            WaitSource::Pushback => "pushback",
            WaitSource::Text => "text",
            WaitSource::Rule => "rule",
            WaitSource::Caller => "caller",
        }
    }

    /// Position in [`WaitSource::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for WaitSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whom an answer concerns besides the request itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// This request, or the one object it is about: nobody else needs to wait.
    Request,
    /// All that share the key under which the caller counts: an account, a model, a route, a table.
    /// Only the caller knows which of them a quota belongs to.
    #[default]
    Key,
    /// All that goes to this destination: it is down, or it turned our address away.
    Destination,
}

impl Scope {
    /// The word used in configs and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Request => "request",
            Scope::Key => "key",
            Scope::Destination => "destination",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_is_the_position_in_all() {
        for (i, source) in WaitSource::ALL.into_iter().enumerate() {
            assert_eq!(source.index(), i);
        }
    }

    #[test]
    fn pressure_and_retry_are_two_questions() {
        let of = |outcome| {
            let verdict = Verdict::of(outcome);
            (verdict.is_pressure(), verdict.may_retry(true), verdict.may_retry(false))
        };
        assert_eq!(of(Outcome::Throttled), (true, true, true));
        assert_eq!(of(Outcome::Overloaded), (true, true, false));
        assert_eq!(of(Outcome::Fault), (false, true, false));
        assert_eq!(of(Outcome::Exhausted), (false, false, false));
        assert_eq!(of(Outcome::Caller), (false, false, false));
    }
}
