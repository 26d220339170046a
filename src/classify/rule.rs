//! One line of the table: what an answer must look like, and what it then means.
//!
//! A rule asks for a kind of answer, and may ask for headers and for something in the text besides. All
//! that it asks for must hold. Rules are plain values, so that a config file can hold them.

use std::borrow::Cow;
use std::time::Duration;

use super::text::{Value, bare, contains, has_code, members};
use super::{Retry, Scope, Seen, TransportError};
use crate::outcome::Outcome;

/// Headers in which an error's code may stand.
const CODE_HEADERS: [&str; 2] = ["x-amzn-errortype", "x-amzn-error-code"];

type Text = Cow<'static, str>;

/// A line of the classification table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    name: Text,
    answer: Answer,
    headers: Vec<(Text, HeaderTest)>,
    any_text: Vec<Text>,
    any_code: Vec<Text>,
    members: Vec<(Text, MemberTest)>,
    outcome: Outcome,
    retry: Retry,
    only_when_told: bool,
    wait: Option<Duration>,
    scope: Scope,
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
    /// An error event inside an event stream that began well.
    Event,
    /// An error in place of an answer.
    Transport(TransportError),
}

/// What a header must be like.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderTest {
    /// It is there.
    Present,
    /// It is not there.
    Absent,
    /// It is there and reads so, upper and lower case aside.
    Is(Cow<'static, str>),
    /// It is there and contains this, upper and lower case aside.
    Contains(Cow<'static, str>),
    /// It is a whole number above this one.
    Above(u64),
}

/// What a member of a JSON body must be like, at whatever depth it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberTest {
    /// It is a string, a number or a word that reads so.
    Is(Cow<'static, str>),
    /// It stands for something: not empty, not zero, not false.
    Something,
}

impl Rule {
    /// A rule that asks for this kind of answer and nothing else. Whether to retry follows from the
    /// outcome ([`Retry::of`]), and so does the scope: the key for what an account, a model or a route
    /// shares, the request alone for everything else.
    pub fn new(name: impl Into<Cow<'static, str>>, answer: Answer, outcome: Outcome) -> Self {
        let shared = matches!(outcome, Outcome::Throttled | Outcome::Overloaded | Outcome::Exhausted);
        Self {
            name: name.into(),
            answer,
            headers: Vec::new(),
            any_text: Vec::new(),
            any_code: Vec::new(),
            members: Vec::new(),
            outcome,
            retry: Retry::of(outcome),
            only_when_told: false,
            wait: None,
            scope: if shared { Scope::Key } else { Scope::Request },
        }
    }

    /// Asks for a header too; each call adds one.
    #[must_use]
    pub fn header(mut self, name: impl Into<Cow<'static, str>>, test: HeaderTest) -> Self {
        self.headers.push((name.into(), test));
        self
    }

    /// Asks that the text contain one of these phrases, upper and lower case aside (ASCII).
    #[must_use]
    pub fn any_text<T: Into<Cow<'static, str>>>(mut self, phrases: impl IntoIterator<Item = T>) -> Self {
        self.any_text = phrases.into_iter().map(Into::into).collect();
        self
    }

    /// Asks for one of these error codes: in a header (`x-amzn-errortype`), in a JSON member that holds
    /// codes (`code`, `type`, `__type`, ...), in XML (`<Code>`), or as a word of a text that has
    /// neither. Namespaces before a `#` and what follows a `:` are left out.
    #[must_use]
    pub fn any_code<T: Into<Cow<'static, str>>>(mut self, codes: impl IntoIterator<Item = T>) -> Self {
        self.any_code = codes.into_iter().map(Into::into).collect();
        self
    }

    /// Asks for a member of a JSON text; of several calls, one must hold.
    #[must_use]
    pub fn any_member(mut self, name: impl Into<Cow<'static, str>>, test: MemberTest) -> Self {
        self.members.push((name.into(), test));
        self
    }

    /// Says whether to send such a request again.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Such a request is only sent again when the answer says when.
    #[must_use]
    pub fn retry_only_when_told(mut self) -> Self {
        self.only_when_told = true;
        self
    }

    /// How long to stay away when the answer does not say.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Says whom such an answer concerns.
    #[must_use]
    pub fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
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
        // Cheapest first: most answers come without a text.
        let blind = text.is_empty() && !(self.any_text.is_empty() && self.members.is_empty());
        !blind
            && self.may_match(seen, headers)
            && (self.any_text.is_empty() || self.any_text.iter().any(|phrase| contains(text, phrase)))
            && (self.any_code.is_empty() || self.has_code(headers, text))
            && (self.members.is_empty() || members(text).any(|member| self.is_wanted(member)))
    }

    /// Whether it would match, were the text right.
    pub(super) fn may_match(&self, seen: Seen, headers: &(impl Headers + ?Sized)) -> bool {
        self.answer.covers(seen) && self.headers.iter().all(|(name, test)| test.holds(headers.value(name)))
    }

    /// Whether it cannot match without a text.
    pub(super) fn asks_for_text(&self) -> bool {
        !(self.any_text.is_empty() && self.any_code.is_empty() && self.members.is_empty())
    }

    pub(super) const fn says_retry(&self) -> (Retry, bool) {
        (self.retry, self.only_when_told)
    }

    pub(crate) const fn says_wait(&self) -> Option<Duration> {
        self.wait
    }

    pub(super) const fn says_scope(&self) -> Scope {
        self.scope
    }

    fn is_wanted(&self, (key, value): (&str, Value<'_>)) -> bool {
        self.members.iter().any(|(name, test)| key == name && test.holds(value))
    }

    fn has_code(&self, headers: &(impl Headers + ?Sized), text: &str) -> bool {
        let in_header =
            |name: &&str| headers.value(name).is_some_and(|code| self.any_code.iter().any(|c| c == bare(code)));
        CODE_HEADERS.iter().any(in_header) || has_code(text, &self.any_code)
    }
}

impl Answer {
    fn covers(self, seen: Seen) -> bool {
        match (self, seen) {
            (Answer::Any, Seen::Http(_) | Seen::Grpc(_)) => true,
            (Answer::Http { from, to }, Seen::Http(status)) => (from..=to).contains(&status),
            (Answer::Grpc(ours), Seen::Grpc(code)) => ours == code,
            (Answer::Event, Seen::Event) => true,
            (Answer::Transport(ours), Seen::Transport(error)) => ours == error,
            _ => false,
        }
    }
}

impl HeaderTest {
    fn holds(&self, value: Option<&str>) -> bool {
        let Some(value) = value else { return *self == HeaderTest::Absent };
        match self {
            HeaderTest::Present => true,
            HeaderTest::Absent => false,
            HeaderTest::Is(wanted) => value.trim().eq_ignore_ascii_case(wanted),
            HeaderTest::Contains(part) => contains(value, part),
            HeaderTest::Above(bound) => value.trim().parse::<u64>().is_ok_and(|n| n > *bound),
        }
    }
}

impl MemberTest {
    fn holds(&self, value: Value<'_>) -> bool {
        match (self, value) {
            (MemberTest::Is(wanted), Value::Text(value) | Value::Plain(value)) => value == wanted,
            (MemberTest::Is(_), _) => false,
            (MemberTest::Something, value) => value.is_something(),
        }
    }
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
            assert_eq!(test.holds(Some(value)), holds, "{value}");
        }
    }

    #[test]
    fn any_covers_answers_and_not_errors() {
        let rule = Rule::new("any", Answer::Any, Outcome::Success);
        assert!(rule.matches(Seen::Http(599), &(), ""));
        assert!(rule.matches(Seen::Grpc(16), &(), ""));
        assert!(!rule.matches(Seen::Transport(TransportError::Reset), &(), ""));
    }

    #[test]
    fn a_header_that_must_not_be_there() {
        let rule = Rule::new("r", OK, Outcome::Fault).header("a", HeaderTest::Present).header("b", HeaderTest::Absent);
        assert!(rule.matches(Seen::Http(200), &[("a", "1")][..], ""));
        assert!(!rule.matches(Seen::Http(200), &[("a", "1"), ("b", "1")][..], ""));
    }

    #[test]
    fn members_are_told_by_name_and_value() {
        let rule = Rule::new("r", OK, Outcome::Throttled)
            .any_member("errors", MemberTest::Is("true".into()))
            .any_member("left", MemberTest::Something);
        assert!(rule.matches(Seen::Http(200), &(), r#"{"errors":true,"left":[]}"#));
        assert!(rule.matches(Seen::Http(200), &(), r#"{"left":[{}]}"#));
        assert!(!rule.matches(Seen::Http(200), &(), r#"{"errors":false,"left":[],"other":1}"#));
        assert!(!rule.matches(Seen::Http(200), &(), ""));
    }
}
