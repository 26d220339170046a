//! A refusal as a value: who refused, why, the numbers behind it, and when to come back.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RejectReason {
    /// The limit is reached and the request does not wait.
    LimitReached,
    /// Its class is at its cap, and the request does not wait.
    ClassCap,
    /// The waiting room is full.
    QueueFull,
    /// Waited as long as the waiting room allows.
    QueueTimeout,
    /// The request's deadline could not be met, seen on arrival.
    DeadlineUnmeetable,
    /// The request's own deadline passed while it waited.
    ClientDeadline,
    /// The limiter is closed: its process is shutting down or it was removed.
    Closed,
    /// The downstream asked to be left alone for a while, and that while is not over.
    HoldOff,
    /// A ceiling's rate is used up.
    Ceiling,
    /// The run's budget of attempts is spent.
    BudgetSpent,
}

impl RejectReason {
    /// Every reason, in the order of [`RejectReason::index`].
    pub const ALL: [RejectReason; 10] = [
        RejectReason::LimitReached,
        RejectReason::ClassCap,
        RejectReason::QueueFull,
        RejectReason::QueueTimeout,
        RejectReason::DeadlineUnmeetable,
        RejectReason::ClientDeadline,
        RejectReason::Closed,
        RejectReason::HoldOff,
        RejectReason::Ceiling,
        RejectReason::BudgetSpent,
    ];

    /// The label used in metrics, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            RejectReason::LimitReached => "limit_reached",
            RejectReason::ClassCap => "class_cap",
            RejectReason::QueueFull => "queue_full",
            RejectReason::QueueTimeout => "queue_timeout",
            RejectReason::DeadlineUnmeetable => "deadline_unmeetable",
            RejectReason::ClientDeadline => "client_deadline",
            RejectReason::Closed => "closed",
            RejectReason::HoldOff => "hold_off",
            RejectReason::Ceiling => "ceiling",
            RejectReason::BudgetSpent => "budget_spent",
        }
    }

    /// Position in [`RejectReason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the limit was what refused (directly, or by a wait that was too long).
    pub const fn is_for_the_limit(self) -> bool {
        !matches!(
            self,
            RejectReason::Closed
                | RejectReason::HoldOff
                | RejectReason::Ceiling
                | RejectReason::ClassCap
                | RejectReason::BudgetSpent
        )
    }
}

impl fmt::Display for RejectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal of tidegate's own, as an error; the downstream was not asked.
///
/// One word wide, so that a result that carries it costs the admitted nothing; it derefs to its
/// [`Rejection`].
#[derive(Clone, Debug, PartialEq)]
pub struct Rejected(Box<Rejection>);

impl From<Rejection> for Rejected {
    fn from(rejection: Rejection) -> Self {
        Self(Box::new(rejection))
    }
}

impl Deref for Rejected {
    type Target = Rejection;

    fn deref(&self) -> &Rejection {
        &self.0
    }
}

/// What there is to say about a refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    /// The limiter that refused; the ceiling, when the reason is [`RejectReason::Ceiling`].
    pub limiter: Arc<str>,
    /// The class the request came with, if any.
    pub class: Option<Box<str>>,
    /// Why.
    pub reason: RejectReason,
    /// The limit in force; a ceiling's rate a second, rounded up; 0 when there is none, as in a
    /// [hold-off](crate::HoldOff) by itself.
    pub limit: u32,
    /// Units in flight when it refused; 0 for a ceiling, which does not know.
    pub in_flight: u32,
    /// Requests waiting when it refused.
    pub queued: u32,
    /// When to come back: computed from the drain rate and jittered; a ceiling's is exact.
    pub retry_after: Duration,
}

impl Rejection {
    /// The value of a `Retry-After` header: whole seconds, rounded up, at least 1.
    pub fn retry_after_secs(&self) -> u64 {
        let whole = self.retry_after.as_secs();
        let up = whole + u64::from(self.retry_after.subsec_nanos() > 0);
        up.max(1)
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.reason == RejectReason::Ceiling {
            return write!(
                f,
                "ceiling \"{}\" refused before the downstream was asked: {} (rate {}/s, waiting {}); retry after {:.3} s",
                self.limiter,
                self.reason.in_words(),
                self.limit,
                self.queued,
                self.retry_after.as_secs_f64(),
            );
        }
        write!(f, "limiter \"{}\" refused before the downstream was asked: {}", self.limiter, self.reason.in_words())?;
        // A hold-off that stands by itself has no limit.
        if self.limit > 0 {
            write!(f, " (limit {}, in flight {}, queued {})", self.limit, self.in_flight, self.queued)?;
        }
        write!(f, "; retry after {:.3} s", self.retry_after.as_secs_f64())
    }
}

impl std::error::Error for Rejected {}

/// How long until a newcomer could be served: `(ahead + 1) / drain`, lengthened by up to half by `jitter`.
///
/// `ahead` requests wait before it; `drain` is the rate of finished requests a second, 0 when
/// unknown, which counts as one a second. `jitter` lies in `0.0..1.0`. The answer lies within
/// 1 ms and 60 s: a longer promise would be a guess.
pub fn retry_after(ahead: u32, drain: f64, jitter: f64) -> Duration {
    let per_second = if drain > 0.0 { drain } else { 1.0 };
    let wait = (f64::from(ahead) + 1.0) / per_second * (1.0 + 0.5 * jitter);
    Duration::from_secs_f64(wait.clamp(0.001, 60.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rejected(retry_after: Duration) -> Rejected {
        Rejection {
            limiter: "payments".into(),
            class: None,
            reason: RejectReason::QueueFull,
            limit: 20,
            in_flight: 20,
            queued: 8,
            retry_after,
        }
        .into()
    }

    #[test]
    fn the_header_is_at_least_one_and_never_early() {
        for (ms, secs) in [(0, 1), (1, 1), (1000, 1), (1001, 2), (59_999, 60)] {
            assert_eq!(rejected(Duration::from_millis(ms)).retry_after_secs(), secs);
        }
    }

    #[test]
    fn the_text_names_limiter_reason_and_numbers() {
        let text = rejected(Duration::from_millis(1500)).to_string();
        for part in
            ["payments", "refused before", "waiting room is full", "limit 20", "in flight 20", "queued 8", "1.500 s"]
        {
            assert!(text.contains(part), "{part} missing in {text}");
        }
    }

    #[test]
    fn retry_after_follows_the_drain_rate() {
        assert_eq!(retry_after(9, 100.0, 0.0), Duration::from_millis(100));
        assert_eq!(retry_after(9, 100.0, 1.0), Duration::from_millis(150));
        assert_eq!(retry_after(0, 0.0, 0.0), Duration::from_secs(1));
        assert_eq!(retry_after(u32::MAX, 0.001, 0.9), Duration::from_secs(60));
    }
}
