//! A route's deadline: where clients tell theirs, and whether the budgets fit into each other.

use std::time::Duration;

use super::super::check::Check;
use super::super::file::{RouteDeadlineSection, Text};
use super::super::limiter::LimiterConfig;
use super::super::upstream::UpstreamConfig;
use super::super::value::{parse_duration, show_duration};
use super::is_header_name;
use crate::deadline::BudgetUnit;

/// How long a request's answer is of use on a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteDeadline {
    header: Option<(String, BudgetUnit)>,
    budget: Option<Duration>,
    client_timeout: Option<Duration>,
}

const MS: Duration = Duration::from_millis(1);

/// What requests need to arrive at all, and `grpc-timeout`, which is read and written in any case.
const TAKEN: [&str; 10] = [
    "connection",
    "content-length",
    "content-type",
    "expect",
    "grpc-timeout",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl RouteDeadline {
    /// `worker` is who does the route's work: its upstream and its limiter.
    pub(super) fn check(
        key: &impl Fn(&str) -> String,
        raw: &RouteDeadlineSection,
        worker: (Option<&UpstreamConfig>, Option<&LimiterConfig>),
        check: &mut Check,
    ) -> Self {
        let unit =
            check.word(&key("deadline.unit"), &raw.unit, &[("ms", BudgetUnit::Millis), ("s", BudgetUnit::Seconds)]);
        let name = raw.header.as_ref().map(|name| name.get_ref().to_ascii_lowercase());
        if let Some(raw) = raw.header.as_ref().filter(|_| !name.as_deref().is_some_and(is_header_name)) {
            check.wrong_text(&key("deadline.header"), raw, "must be the name of a header");
        }
        if let Some(raw) = raw.header.as_ref().filter(|_| name.as_deref().is_some_and(|name| TAKEN.contains(&name))) {
            let what = format_args!("has a meaning of its own, and a budget would be written over it");
            check.wrong_text(&key("deadline.header"), raw, what);
        }
        if let Some(unit) = raw.unit.as_ref().filter(|_| raw.header.is_none()) {
            check.wrong_text(&key("deadline.unit"), unit, "the unit of a header, but deadline.header is not given");
        }
        let mut time = |field: &str, raw: &Text, most| {
            let given = raw.as_ref()?;
            parse_duration(given.get_ref()).filter(|time| (MS..=most).contains(time)).or_else(|| {
                check.duration(&key(field), raw, most, MS..=most);
                None
            })
        };
        let budget = time("deadline.budget", &raw.budget, Duration::from_secs(3600));
        let client_timeout = time("deadline.client_timeout", &raw.client_timeout, Duration::from_secs(86_400));
        fits(key, raw, (budget, client_timeout), worker, check);
        Self { header: name.map(|name| (name, unit)), budget, client_timeout }
    }

    /// The header (its name in lower case) that carries the budget, and its unit.
    pub fn header(&self) -> Option<(&str, BudgetUnit)> {
        self.header.as_ref().map(|(name, unit)| (name.as_str(), *unit))
    }

    /// How long a request may take in all. Default: as long as its client says.
    pub fn budget(&self) -> Option<Duration> {
        self.budget
    }

    /// How long the callers of the route wait, when that is known.
    pub fn client_timeout(&self) -> Option<Duration> {
        self.client_timeout
    }
}

/// Who works longer than its caller waits works for nobody.
fn fits(
    key: &impl Fn(&str) -> String,
    raw: &RouteDeadlineSection,
    (budget, client): (Option<Duration>, Option<Duration>),
    (upstream, limiter): (Option<&UpstreamConfig>, Option<&LimiterConfig>),
    check: &mut Check,
) {
    let (Some(client), Some(placed)) = (client, &raw.client_timeout) else { return };
    if let (Some(budget), Some(raw)) = (budget, &raw.budget) {
        if budget >= client {
            let client = show_duration(client);
            check.wrong_text(
                &key("deadline.budget"),
                raw,
                format_args!("must be shorter than client_timeout, {client}"),
            );
        }
        return;
    }
    let Some(upstream) = upstream else { return };
    let wait =
        limiter.map(LimiterConfig::queue).filter(|queue| queue.length() > 0).map_or(Duration::ZERO, |q| q.wait());
    let (connect, response) = (upstream.connect_timeout(), upstream.response_timeout());
    let whole = wait + connect + response;
    if whole >= client {
        let message = format!(
            "must be longer than a request may take here, {}: queue.wait {}, connect_timeout {} and response_timeout {}; \
             or give a deadline.budget",
            show_duration(whole),
            show_duration(wait),
            show_duration(connect),
            show_duration(response),
        );
        check.wrong_text(&key("deadline.client_timeout"), placed, message);
    }
}
