//! One line of the table: what an answer must look like, and what it then means.
//!
//! A rule asks for a kind of answer, and may ask for a header and for a piece of text besides. All
//! that it asks for must hold. Rules are plain values, so that a config file can hold them.

use std::borrow::Cow;

use super::{Seen, TransportError};
use crate::outcome::Outcome;

/// A line of the classification table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: Cow<'static, str>,
    answer: Answer,
    header: Option<(Cow<'static, str>, HeaderTest)>,
    any_text: Vec<Cow<'static, str>>,
    outcome: Outcome,
}

/// The kind of answer that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// Any answer, HTTP or gRPC; not an error of transport.
    Any,
    /// An HTTP status from `from` to `to`, both included.
    Http {
        /// The lowest status.
        from: u16,
        /// The highest status.
        to: u16,
    },
    /// One gRPC status code.
    Grpc(u32),
    /// An error in place of an answer.
    Transport(TransportError),
}

/// What a header must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderTest {
    /// It is there.
    Present,
    /// It is there and reads so, upper and lower case aside.
    Is(Cow<'static, str>),
    /// It is a whole number above this one.
    Above(u64),
}

impl Rule {
    /// A rule that asks for this kind of answer and nothing else.
    pub fn new(name: impl Into<Cow<'static, str>>, answer: Answer, outcome: Outcome) -> Self {
        Self { name: name.into(), answer, header: None, any_text: Vec::new(), outcome }
    }

    /// Asks for a header too. A second call replaces the first.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, test: HeaderTest) -> Self {
        self.header = Some((name.into(), test));
        self
    }

    /// Asks that the text contain one of these phrases, upper and lower case aside (ASCII).
    #[must_use]
    pub fn any_text<T: Into<Cow<'static, str>>>(mut self, phrases: impl IntoIterator<Item = T>) -> Self {
        self.any_text = phrases.into_iter().map(Into::into).collect();
        self
    }

    /// Its name, for logs and metrics.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it says an answer means.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether everything that it asks for holds.
    pub fn matches(&self, seen: Seen, headers: &(impl Headers + ?Sized), text: &str) -> bool {
        self.answer.covers(seen)
            && self.header.as_ref().is_none_or(|(name, test)| headers.value(name).is_some_and(|v| test.holds(v)))
            && (self.any_text.is_empty() || self.any_text.iter().any(|phrase| contains(text, phrase)))
    }
}

impl Answer {
    fn covers(self, seen: Seen) -> bool {
        match (self, seen) {
            (Answer::Any, Seen::Http(_) | Seen::Grpc(_)) => true,
            (Answer::Http { from, to }, Seen::Http(status)) => (from..=to).contains(&status),
            (Answer::Grpc(ours), Seen::Grpc(code)) => ours == code,
            (Answer::Transport(ours), Seen::Transport(error)) => ours == error,
            _ => false,
        }
    }
}

impl HeaderTest {
    fn holds(&self, value: &str) -> bool {
        match self {
            HeaderTest::Present => true,
            HeaderTest::Is(wanted) => value.trim().eq_ignore_ascii_case(wanted),
            HeaderTest::Above(bound) => value.trim().parse::<u64>().is_ok_and(|n| n > *bound),
        }
    }
}

fn contains(text: &str, phrase: &str) -> bool {
    let (text, phrase) = (text.as_bytes(), phrase.as_bytes());
    phrase.is_empty() || text.windows(phrase.len()).any(|part| part.eq_ignore_ascii_case(phrase))
}

/// Where a rule looks up a header (or a gRPC trailer) by its lower-case name.
pub trait Headers {
    /// The first value of the header, when it is there. A value that is not text reads as empty.
    fn value(&self, name: &str) -> Option<&str>;
}

/// No headers.
impl Headers for () {
    fn value(&self, _name: &str) -> Option<&str> {
        None
    }
}

/// Names and values in a slice; names are compared without regard to upper and lower case.
impl<N: AsRef<str>, V: AsRef<str>> Headers for [(N, V)] {
    fn value(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| n.as_ref().eq_ignore_ascii_case(name)).map(|(_, v)| v.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OK: Answer = Answer::Http { from: 200, to: 200 };

    #[test]
    fn all_that_a_rule_asks_for_must_hold() {
        let rule = Rule::new("r", OK, Outcome::Fault)
            .header("X-Kind", HeaderTest::Is("slow".into()))
            .any_text(["too Slow", "overloaded"]);
        let slow: &[_] = &[("x-kind", "SLOW")];
        assert!(rule.matches(Seen::Http(200), slow, "we are OVERLOADED"));
        assert!(!rule.matches(Seen::Http(201), slow, "we are overloaded"));
        assert!(!rule.matches(Seen::Http(200), slow, "fine"));
        assert!(!rule.matches(Seen::Http(200), &[("x-kind", "fast")][..], "overloaded"));
        assert!(!rule.matches(Seen::Http(200), &(), "overloaded"));
    }

    #[test]
    fn a_number_above_a_bound() {
        let test = HeaderTest::Above(300);
        for (value, holds) in [("301", true), (" 1800 ", true), ("300", false), ("-400", false), ("soon", false)] {
            assert_eq!(test.holds(value), holds, "{value}");
        }
    }

    #[test]
    fn any_covers_answers_and_not_errors() {
        let rule = Rule::new("any", Answer::Any, Outcome::Success);
        assert!(rule.matches(Seen::Http(599), &(), ""));
        assert!(rule.matches(Seen::Grpc(16), &(), ""));
        assert!(!rule.matches(Seen::Transport(TransportError::Reset), &(), ""));
    }
}
