//! Reads an answer: which [`Outcome`] does a status, a gRPC code or a transport error stand for?
//!
//! The rules are data, an ordered table in which the first match wins; a service puts its own rules
//! in front of the built-in ones. This module knows no HTTP library, keeps no state and moves no
//! limit: breakers, retry loops and prune jobs can ask it as well as a limiter. Every verdict names
//! the rule behind it.

mod builtin;
mod rule;
mod transport;

pub use rule::{Answer, HeaderTest, Headers, Rule};
pub use transport::TransportError;

use std::sync::{Arc, LazyLock};

use crate::outcome::Outcome;

/// The header that tidegate puts on its own refusals; its value is the reason.
///
/// A caller that sees it knows that the downstream was not asked, whatever the status says, and that
/// a retry at this place would only come back to the same limiter.
pub const REFUSAL_HEADER: &str = "tidegate-rejected";

/// What an answer means, and the rule that said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// The outcome.
    pub outcome: Outcome,
    /// The name of the rule that matched; `"unmatched"` when none did.
    pub rule: &'a str,
}

/// An ordered table of rules; the first that matches decides. Cheap to clone.
///
/// ```
/// use tidegate::Outcome;
/// use tidegate::classify::{Answer, Classifier, Rule};
///
/// let classifier = Classifier::default();
/// assert_eq!(classifier.classify_head(429, &()), Outcome::Throttled);
///
/// // This partner says 420 when it means 429.
/// let own = Rule::new("partner-420", Answer::Http { from: 420, to: 420 }, Outcome::Throttled);
/// assert_eq!(classifier.extended([own]).classify_head(420, &()), Outcome::Throttled);
/// ```
#[derive(Clone, Debug)]
pub struct Classifier {
    rules: Arc<[Rule]>,
}

impl Classifier {
    /// A table of these rules alone, without the built-in ones.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().collect() }
    }

    /// A table with `rules` in front of those that are here already.
    #[must_use]
    pub fn extended(&self, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self { rules: rules.into_iter().chain(self.rules.iter().cloned()).collect() }
    }

    /// The rules, in the order in which they are tried.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What an HTTP response head means.
    pub fn classify_head(&self, status: u16, headers: &(impl Headers + ?Sized)) -> Outcome {
        self.judge(Seen::Http(status), headers, "").outcome
    }

    /// What a gRPC status means, wherever it stood (trailers, or the head of a trailers-only answer).
    pub fn classify_grpc(&self, code: u32, message: &str, headers: &(impl Headers + ?Sized)) -> Outcome {
        self.judge(Seen::Grpc(code), headers, message).outcome
    }

    /// What an error that came in place of an answer means.
    pub fn classify_error(&self, error: &(dyn std::error::Error + 'static)) -> Outcome {
        self.judge(Seen::Transport(TransportError::of(error)), &(), "").outcome
    }

    /// The outcome together with the rule behind it. `text` is what there is to read: a gRPC message,
    /// or the beginning of a body.
    pub fn judge(&self, seen: Seen, headers: &(impl Headers + ?Sized), text: &str) -> Verdict<'_> {
        match self.rules.iter().find(|rule| rule.matches(seen, headers, text)) {
            Some(rule) => Verdict { outcome: rule.outcome(), rule: rule.name() },
            None => Verdict { outcome: seen.unmatched(), rule: "unmatched" },
        }
    }
}

impl Default for Classifier {
    /// The built-in table.
    fn default() -> Self {
        static BUILT_IN: LazyLock<Classifier> = LazyLock::new(|| Classifier::new(builtin::rules()));
        BUILT_IN.clone()
    }
}

/// What came back, before anyone says what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// An HTTP status.
    Http(u16),
    /// A gRPC status code.
    Grpc(u32),
    /// A gRPC answer that ended without a status.
    GrpcWithoutStatus,
    /// No answer but an error.
    Transport(TransportError),
}

impl Seen {
    const fn unmatched(self) -> Outcome {
        match self {
            Seen::Http(0..400) | Seen::Grpc(0) => Outcome::Success,
            Seen::Http(400..500) => Outcome::Caller,
            Seen::Http(_) | Seen::Grpc(_) | Seen::GrpcWithoutStatus | Seen::Transport(_) => Outcome::Fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_rules_go_first_and_the_verdict_names_them() {
        let plain = Classifier::default();
        assert_eq!(plain.judge(Seen::Http(503), &(), "").outcome, Outcome::Fault);
        let rule = Rule::new("ours", Answer::Http { from: 503, to: 503 }, Outcome::Overloaded);
        let own = plain.extended([rule]);
        assert_eq!(own.judge(Seen::Http(503), &(), ""), Verdict { outcome: Outcome::Overloaded, rule: "ours" });
        assert_eq!(own.judge(Seen::Http(500), &(), "").outcome, Outcome::Fault, "the rest is as it was");
    }

    #[test]
    fn an_empty_table_still_tells_good_from_bad() {
        let empty = Classifier::new([]);
        for (status, outcome) in
            [(101, Outcome::Success), (204, Outcome::Success), (404, Outcome::Caller), (500, Outcome::Fault)]
        {
            assert_eq!(empty.judge(Seen::Http(status), &(), ""), Verdict { outcome, rule: "unmatched" });
        }
        assert_eq!(empty.classify_grpc(0, "", &()), Outcome::Success);
        assert_eq!(empty.classify_grpc(14, "", &()), Outcome::Fault);
    }
}
