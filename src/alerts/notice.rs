//! What an alert is about, and what there is to say of it.

use std::fmt;
use std::sync::Arc;

use super::sketch::Heavy;
use crate::rejection::RejectReason;
use crate::time::Nanos;

/// What sort of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// Requests are refused.
    Rejections,
    /// The limit stands at its minimum, and the limiter refuses.
    LimitAtMin,
    /// The limit stands at its maximum and is used up.
    LimitAtMax,
    /// A safe substitute is in use.
    Fallback,
    /// A config was refused; the one before stays in force.
    ConfigRefused,
    /// A guarded change was taken back.
    GuardReverted,
    /// Cuts of the limit change nothing.
    SheddingFutile,
    /// The downstream says that an account is used up until someone acts.
    AccountExhausted,
    /// What found no group of its own, because there are too many.
    Other,
}

impl Kind {
    /// Every kind, in the order of [`Kind::index`].
    pub const ALL: [Kind; 9] = [
        Kind::Rejections,
        Kind::LimitAtMin,
        Kind::LimitAtMax,
        Kind::Fallback,
        Kind::ConfigRefused,
        Kind::GuardReverted,
        Kind::SheddingFutile,
        Kind::AccountExhausted,
        Kind::Other,
    ];

    /// The label used in metrics, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Kind::Rejections => "rejections",
            Kind::LimitAtMin => "limit_at_min",
            Kind::LimitAtMax => "limit_at_max",
            Kind::Fallback => "fallback",
            Kind::ConfigRefused => "config_refused",
            Kind::GuardReverted => "guard_reverted",
            Kind::SheddingFutile => "shedding_futile",
            Kind::AccountExhausted => "account_exhausted",
            Kind::Other => "other",
        }
    }

    /// Position in [`Kind::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The name of the alert in Alertmanager.
    pub const fn alert_name(self) -> &'static str {
        match self {
            Kind::Rejections => "TidegateRejecting",
            Kind::LimitAtMin => "TidegateLimitAtMin",
            Kind::LimitAtMax => "TidegateLimitAtMax",
            Kind::Fallback => "TidegateFallback",
            Kind::ConfigRefused => "TidegateConfigRefused",
            Kind::GuardReverted => "TidegateGuardReverted",
            Kind::SheddingFutile => "TidegateSheddingFutile",
            Kind::AccountExhausted => "TidegateAccountExhausted",
            Kind::Other => "TidegateOther",
        }
    }

    const fn in_words(self) -> &'static str {
        match self {
            Kind::Rejections => "requests refused",
            Kind::LimitAtMin => "the limit stands at its minimum and requests are refused",
            Kind::LimitAtMax => "the limit stands at its maximum and is used up",
            Kind::Fallback => "a safe substitute is in use",
            Kind::ConfigRefused => "a config was refused, the one before stays in force",
            Kind::GuardReverted => "a guarded change was taken back",
            Kind::SheddingFutile => "cutting the limit changes nothing: the cause lies elsewhere",
            Kind::AccountExhausted => "an account is used up until someone acts",
            Kind::Other => "more alerts than are tracked one by one",
        }
    }
}

/// What an alert is about. Parts that do not apply are empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// What sort of thing is wrong.
    pub kind: Kind,
    /// The limiter.
    pub limiter: Arc<str>,
    /// The route.
    pub route: Arc<str>,
    /// The reason of the refusals, or the kind of fallback.
    pub reason: &'static str,
}

impl Subject {
    /// Refusals by one limiter, on one route, for one reason.
    pub fn rejections(limiter: &Arc<str>, route: &Arc<str>, reason: RejectReason) -> Self {
        Self { kind: Kind::Rejections, limiter: limiter.clone(), route: route.clone(), reason: reason.as_str() }
    }

    /// A state of one limiter.
    pub fn limiter(kind: Kind, limiter: &Arc<str>) -> Self {
        Self { kind, limiter: limiter.clone(), route: Arc::default(), reason: "" }
    }

    /// A state of the whole process.
    pub fn process(kind: Kind) -> Self {
        Self { kind, limiter: Arc::default(), route: Arc::default(), reason: "" }
    }

    /// The parts that apply, in one word: the same for the same subject on every instance.
    pub fn key(&self) -> String {
        let parts = [self.kind.as_str(), &self.limiter, &self.route, self.reason];
        let there: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        there.join("|")
    }
}

/// What was seen of a subject since the last look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// How many events. A state that lasts is seen with 0 events, apart from its beginning.
    pub count: u64,
    /// Most units in flight at an event.
    pub peak_in_flight: u32,
    /// The smallest and the largest limit at an event.
    pub limit: Option<(u32, u32)>,
    /// Who caused them, each with how many events it stands for.
    pub tenants: Vec<(Box<str>, u64)>,
    /// What else to tell, such as the error of a refused config.
    pub detail: Option<Arc<str>>,
}

/// Where an alert is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first event of a quiet group.
    Began,
    /// It goes on.
    Continues,
    /// It has been quiet for long enough.
    Resolved,
}

impl State {
    /// The word used in JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Began => "began",
            State::Continues => "continues",
            State::Resolved => "resolved",
        }
    }
}

/// One thing to tell about a subject.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notice {
    /// What it is about.
    pub subject: Subject,
    /// Where in its life.
    pub state: State,
    /// How often this subject has begun, this time included.
    pub episode: u64,
    /// Counts all notices of this process: a receiver can tell old from new.
    pub sequence: u64,
    /// When the first event of this episode was seen, on the aggregator's clock.
    pub first: Nanos,
    /// When the last event was seen.
    pub last: Nanos,
    /// When the notice was made.
    pub at: Nanos,
    /// Events since the notice before.
    pub count: u64,
    /// Events of this episode: exact.
    pub total: u64,
    /// Most units in flight at an event of this episode.
    pub peak_in_flight: u32,
    /// The smallest and the largest limit at an event of this episode.
    pub limit: Option<(u32, u32)>,
    /// The heaviest tenants of this episode, heaviest first; an estimate.
    pub tenants: Vec<Heavy>,
    /// For [`Kind::Other`]: how many subjects are in it, about.
    pub merged: u64,
    /// What else to tell.
    pub detail: Option<Arc<str>>,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.state == State::Resolved {
            f.write_str("resolved: ")?;
        }
        if !self.subject.limiter.is_empty() {
            write!(f, "{}: ", self.subject.limiter)?;
        }
        f.write_str(self.subject.kind.in_words())?;
        if !self.subject.reason.is_empty() {
            write!(f, " ({}", self.subject.reason)?;
            if !self.subject.route.is_empty() {
                write!(f, " on {}", self.subject.route)?;
            }
            f.write_str(")")?;
        }
        if self.total > 1 {
            write!(f, ", {} times in {:.0} s", self.total, self.last.since(self.first).as_secs_f64())?;
        }
        if let Some((low, high)) = self.limit {
            write!(f, ", limit {low}")?;
            if high > low {
                write!(f, " to {high}")?;
            }
            write!(f, ", peak in flight {}", self.peak_in_flight)?;
        }
        if let Some(detail) = &self.detail {
            write!(f, ": {detail}")?;
        }
        Ok(())
    }
}
