//! Reads an answer: what does a status, a gRPC code, a body or a transport error stand for?
//!
//! Four questions stay apart in a [`Verdict`]: is it pressure, may the request be sent again, how long
//! to wait, and whom does it concern. The rules are data, an ordered table in which the first match wins; a service puts its own rules
//! in front of the built-in ones. This module knows no HTTP library, keeps no state and moves no
//! limit: breakers, retry loops and prune jobs can ask it as well as a limiter. Every verdict names
//! the rule behind it.

mod verdict;

mod rule;

mod builtin;
mod transport;

mod wait;

mod details;
#[cfg(feature = "tower")]
pub(crate) mod peek;
mod reset;
mod text;
mod time;

pub use rule::{Answer, HeaderTest, Headers, MemberTest, Rule};
pub use transport::TransportError;
pub use verdict::{Retry, Scope, Verdict, Wait, WaitSource};

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use crate::outcome::Outcome;

/// The header that tidegate puts on its own refusals; its value is the reason.
///
/// A caller that sees it knows that the downstream was not asked, whatever the status says, and that
/// a retry at this place would only come back to the same limiter.
pub const REFUSAL_HEADER: &str = "tidegate-rejected";

/// An ordered table of rules; the first that matches decides. Cheap to clone.
///
/// A job that prunes what no longer exists asks before it deletes: an answer under pressure says
/// nothing about what is there.
///
/// ```
/// use std::time::SystemTime;
/// use tidegate::classify::{Classifier, Seen};
///
/// /// Whether the entry may be deleted here.
/// fn is_gone(classifier: &Classifier, status: u16, body: &str) -> bool {
///     let verdict = classifier.judge(Seen::Http(status), &(), body, SystemTime::UNIX_EPOCH);
///     // Throttled, overloaded, down or out of credit: it may well be there. Ask again later.
///     status == 404 && !verdict.is_pressure() && verdict.outcome.is_served()
/// }
///
/// let classifier = Classifier::default();
/// assert!(is_gone(&classifier, 404, "no such entry"));
/// assert!(!is_gone(&classifier, 429, "slow down"));
/// assert!(!is_gone(&classifier, 404, "<Error><Code>Throttling</Code></Error>"));
/// assert!(!is_gone(&classifier, 500, ""));
/// ```
///
/// And a table grows by rules of one's own:
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

    /// What an HTTP response head means, as far as it can be told without the body.
    pub fn classify_head(&self, status: u16, headers: &(impl Headers + ?Sized)) -> Outcome {
        self.outcome(Seen::Http(status), headers, "")
    }

    /// What a gRPC status means, wherever it stood (trailers, or the head of a trailers-only answer).
    pub fn classify_grpc(&self, code: u32, message: &str, headers: &(impl Headers + ?Sized)) -> Outcome {
        self.outcome(Seen::Grpc(code), headers, message)
    }

    /// What an error that came in place of an answer means.
    pub fn classify_error(&self, error: &(dyn std::error::Error + 'static)) -> Outcome {
        self.outcome(Seen::Transport(TransportError::of(error)), &(), "")
    }

    /// All that an answer says. `text` is what there is to read: a gRPC message, or the beginning of a
    /// body; it may be cut off anywhere. `now` is the time of day at which the answer came: some
    /// waits are dates.
    pub fn judge(&self, seen: Seen, headers: &(impl Headers + ?Sized), text: &str, now: SystemTime) -> Verdict<'_> {
        let Some(rule) = self.find(seen, headers, text) else {
            return Verdict::of(seen.unmatched());
        };
        let (mut retry, only_when_told) = rule.says_retry();
        let outcome = rule.outcome();
        let mut told = match (outcome, retry) {
            (Outcome::Success, _) => wait::Told { wait: wait::paced(headers, now), never_again: false },
            // Its own mistake: what the answer says of limits is not about it.
            (Outcome::Caller | Outcome::Cancelled, Retry::Never) => wait::Told::default(),
            _ => wait::told(headers, text, now),
        };
        if told.never_again || only_when_told && told.wait.is_none() {
            retry = Retry::Never;
        }
        if let Some(length) = rule.says_wait().filter(|_| told.wait.is_none()) {
            told.wait = Some(Wait { length, source: WaitSource::Rule });
        }
        Verdict { outcome, retry, wait: told.wait, scope: rule.says_scope(), rule: rule.name() }
    }

    /// Whether the meaning of this answer may depend on its text: whether it is worth to look at the
    /// beginning of the body.
    pub fn wants_text(&self, seen: Seen, headers: &(impl Headers + ?Sized)) -> bool {
        self.rules.iter().find(|rule| rule.may_match(seen, headers)).is_some_and(Rule::asks_for_text)
    }

    /// What was seen means, as far as it can be told without a text.
    pub fn classify_seen(&self, seen: Seen, headers: &(impl Headers + ?Sized)) -> Outcome {
        self.outcome(seen, headers, "")
    }

    fn outcome(&self, seen: Seen, headers: &(impl Headers + ?Sized), text: &str) -> Outcome {
        self.find(seen, headers, text).map_or_else(|| seen.unmatched(), Rule::outcome)
    }

    fn find(&self, seen: Seen, headers: &(impl Headers + ?Sized), text: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(seen, headers, text))
    }
}

/// Rules for refusals inside bulk answers that are 200 outside, as OpenSearch and old Elasticsearch
/// servers write them, whatever their headers. To be put in front of a table for such a service: they
/// make the beginning of every answer with status 200 be looked at.
pub fn bulk_rules() -> Vec<Rule> {
    builtin::bulk("bulk", None)
}

/// A rule for OTLP exporters: RESOURCE_EXHAUSTED is pressure in any case, and is only retried when the
/// answer says when.
pub fn otlp_rule() -> Rule {
    Rule::new("otlp-resource-exhausted", Answer::Grpc(8), Outcome::Overloaded).retry(Retry::Yes).retry_only_when_told()
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
    /// An error event inside an event stream that began well.
    Event,
    /// No answer but an error.
    Transport(TransportError),
}

impl Seen {
    const fn unmatched(self) -> Outcome {
        match self {
            Seen::Http(0..400) | Seen::Grpc(0) => Outcome::Success,
            Seen::Http(400..500) => Outcome::Caller,
            _ => Outcome::Fault,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(table: &Classifier, status: u16) -> (Outcome, &str) {
        let verdict = table.judge(Seen::Http(status), &(), "", SystemTime::UNIX_EPOCH);
        (verdict.outcome, verdict.rule)
    }

    #[test]
    fn own_rules_go_first_and_the_verdict_names_them() {
        let plain = Classifier::default();
        assert_eq!(judge(&plain, 503).0, Outcome::Fault);
        let rule = Rule::new("ours", Answer::Http { from: 503, to: 503 }, Outcome::Overloaded);
        let own = plain.extended([rule]);
        assert_eq!(judge(&own, 503), (Outcome::Overloaded, "ours"));
        assert_eq!(judge(&own, 500).0, Outcome::Fault, "the rest is as it was");
    }

    #[test]
    fn an_empty_table_still_tells_good_from_bad() {
        let empty = Classifier::new([]);
        for (status, outcome) in
            [(101, Outcome::Success), (204, Outcome::Success), (404, Outcome::Caller), (500, Outcome::Fault)]
        {
            assert_eq!(judge(&empty, status), (outcome, "unmatched"));
        }
        assert_eq!(empty.classify_grpc(0, "", &()), Outcome::Success);
        assert_eq!(empty.classify_grpc(14, "", &()), Outcome::Fault);
    }

    #[test]
    fn a_text_is_wanted_only_where_a_rule_could_use_it() {
        let table = Classifier::default();
        let json = &[("content-type", "application/x-amz-json-1.0")][..];
        for (status, headers, wanted) in [
            (200, &[][..], false),
            (200, json, true),
            (204, json, false),
            (301, &[], false),
            (400, &[], true),
            (503, &[], true),
        ] {
            assert_eq!(table.wants_text(Seen::Http(status), headers), wanted, "{status} {headers:?}");
        }
        assert!(!table.wants_text(Seen::Http(503), &[(REFUSAL_HEADER, "queue_full")][..]));
        assert!(table.wants_text(Seen::Event, &()));
        assert!(!Classifier::new([]).wants_text(Seen::Http(500), &()));
    }
}
