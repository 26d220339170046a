//! Rules of an operator's own for what answers mean, in front of the built-in table.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::classify::{Answer, HeaderTest, Retry, Rule, Scope};
use crate::outcome::Outcome;

use super::check::Check;
use super::classify_file::ClassifySection;
use super::placed::Spanned;
use super::read::nearest;
use super::value::show_duration;

/// More rules than this are refused: each answer is held against them.
pub(super) const MOST_RULES: usize = 200;

/// One rule, and for which upstreams it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassifyConfig {
    upstreams: Vec<String>,
    rule: Rule,
    settings: BTreeMap<&'static str, String>,
}

impl ClassifyConfig {
    pub(super) fn check<U>(
        at: usize,
        raw: &Spanned<ClassifySection>,
        upstreams: &BTreeMap<String, U>,
        check: &mut Check,
    ) -> Self {
        let key = |field: &str| format!("classify[{at}].{field}");
        let (place, raw) = (raw.span(), raw.get_ref());
        let name = raw.name.as_ref().map_or_else(|| format!("rule-{at}"), |name| name.get_ref().clone());
        if let Some(raw) = &raw.name {
            check.name(&key("name"), raw);
        }
        known(&key("upstreams"), &raw.upstreams, upstreams, check);
        let answer = answer(&key, raw, place.clone(), check);
        if raw.outcome.is_none() {
            check.wrong_at(&key("outcome"), place, "is missing; needed: what such an answer means");
        }
        let outcome = check.word(&key("outcome"), &raw.outcome, &OUTCOMES);
        let mut rule = Rule::new(name, answer, outcome);
        if raw.retry.is_some() {
            let words = [("never", Retry::Never), ("if_safe", Retry::IfSafe), ("yes", Retry::Yes)];
            rule = rule.retry(check.word(&key("retry"), &raw.retry, &words));
        }
        if raw.scope.is_some() {
            let words = [("request", Scope::Request), ("key", Scope::Key), ("destination", Scope::Destination)];
            rule = rule.scope(check.word(&key("scope"), &raw.scope, &words));
        }
        if raw.wait.is_some() {
            let allowed = Duration::from_millis(1)..=Duration::from_secs(86_400);
            rule = rule.wait(check.duration(&key("wait"), &raw.wait, Duration::from_secs(1), allowed));
        }
        rule = with_header(&key, raw, rule, check);
        let texts = |raw: &[Spanned<String>]| raw.iter().map(|text| text.get_ref().clone()).collect::<Vec<_>>();
        for (field, list) in [("text", &raw.text), ("codes", &raw.codes)] {
            for empty in list.iter().filter(|text| text.get_ref().is_empty()) {
                check.wrong_text(&key(field), empty, "must not be empty: every answer would have it");
            }
        }
        let rule = rule.any_text(texts(&raw.text)).any_code(texts(&raw.codes));
        Self { upstreams: texts(&raw.upstreams), settings: settings(raw, &rule), rule }
    }

    /// Whether it holds for the answers of this upstream.
    pub fn is_for(&self, upstream: &str) -> bool {
        self.upstreams.is_empty() || self.upstreams.iter().any(|name| name == upstream)
    }

    /// The rule.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// Every key with its value, as text.
    pub(super) fn settings(&self) -> &BTreeMap<&'static str, String> {
        &self.settings
    }
}

const OUTCOMES: [(&str, Outcome); 6] = [
    ("success", Outcome::Success),
    ("throttled", Outcome::Throttled),
    ("overloaded", Outcome::Overloaded),
    ("fault", Outcome::Fault),
    ("exhausted", Outcome::Exhausted),
    ("caller", Outcome::Caller),
];

fn answer(
    key: &impl Fn(&str) -> String,
    raw: &ClassifySection,
    place: std::ops::Range<usize>,
    check: &mut Check,
) -> Answer {
    let event = raw.event.as_ref().is_some_and(|event| *event.get_ref());
    let from = check.whole(&key("status"), &raw.status, 200, 100..=599);
    let to = check.whole(&key("status_to"), &raw.status_to, from, 100..=599);
    let code = check.whole(&key("grpc"), &raw.grpc, 0, 0..=16);
    if to < from {
        check.wrong_at(&key("status_to"), place.clone(), format_args!("{to} is below status {from}"));
    }
    match (raw.status.is_some(), raw.grpc.is_some(), event) {
        (true, false, false) => Answer::Http { from: from as u16, to: to as u16 },
        (false, true, false) => Answer::Grpc(code),
        (false, false, true) => Answer::Event,
        _ => {
            check.wrong_at(&key("status"), place, "needed: exactly one of status, grpc and event = true");
            Answer::Any
        }
    }
}

fn with_header(key: &impl Fn(&str) -> String, raw: &ClassifySection, rule: Rule, check: &mut Check) -> Rule {
    let value = raw.header_is.as_ref().or(raw.header_contains.as_ref());
    let Some(name) = &raw.header else {
        if let Some(value) = value {
            check.wrong_text(&key("header"), value, "is missing; needed: the name of the header");
        }
        return rule;
    };
    let text = name.get_ref().to_ascii_lowercase();
    if text.is_empty() || !text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        check.wrong_text(&key("header"), name, "must be the name of a header");
    }
    let test = match (&raw.header_is, &raw.header_contains) {
        (Some(value), None) => HeaderTest::Is(value.get_ref().clone().into()),
        (None, Some(part)) => HeaderTest::Contains(part.get_ref().clone().into()),
        (None, None) => HeaderTest::Present,
        (Some(value), Some(_)) => {
            check.wrong_text(&key("header_is"), value, "stands beside header_contains; needed: one of them");
            HeaderTest::Present
        }
    };
    rule.header(text, test)
}

/// Each name must be one that exists.
fn known<T>(key: &str, names: &[Spanned<String>], there: &BTreeMap<String, T>, check: &mut Check) {
    for name in names.iter().filter(|name| !there.contains_key(name.get_ref())) {
        let all: Vec<&str> = there.keys().map(String::as_str).collect();
        let hint = nearest(name.get_ref(), &all).map(|n| format!(" did you mean \"{n}\"?")).unwrap_or_default();
        let there = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        check.wrong_text(key, name, format_args!("points to nothing;{hint} there are: {there}"));
    }
}

fn settings(raw: &ClassifySection, rule: &Rule) -> BTreeMap<&'static str, String> {
    let text = |raw: &super::file::Text| raw.as_ref().map(|text| text.get_ref().clone());
    let whole = |raw: &super::file::Whole| raw.as_ref().map(|n| n.get_ref().to_string());
    let list = |raw: &[Spanned<String>]| {
        let texts: Vec<&str> = raw.iter().map(|text| text.get_ref().as_str()).collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    };
    let event = raw.event.as_ref().map(|event| event.get_ref().to_string());
    let all = [
        ("name", Some(rule.name().to_owned())),
        ("upstreams", list(&raw.upstreams)),
        ("status", whole(&raw.status)),
        ("status_to", whole(&raw.status_to)),
        ("grpc", whole(&raw.grpc)),
        ("event", event),
        ("header", text(&raw.header)),
        ("header_is", text(&raw.header_is)),
        ("header_contains", text(&raw.header_contains)),
        ("text", list(&raw.text)),
        ("codes", list(&raw.codes)),
        ("outcome", Some(rule.outcome().to_string())),
        ("retry", text(&raw.retry)),
        ("scope", text(&raw.scope)),
        ("wait", raw.wait.as_ref().and_then(|_| rule.says_wait()).map(show_duration)),
    ];
    all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}
