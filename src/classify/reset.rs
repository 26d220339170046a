//! The headers that say what is left of a rate limit and when it resets. Every service spells them
//! its own way, and the same name means seconds here and a date there.
//!
//! A number below two days is seconds from now, above it is an epoch (in milliseconds when it is far
//! in the future); anything else may be a duration (`6m0s`) or a date (`2026-09-10T06:01:00Z`). Of
//! several budgets the one with the least left counts, of equals the one that resets last.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::rule::Headers;
use super::time::{duration, rfc3339, seconds};

/// What is left and when it resets, header by header.
const BUDGETS: [(&str, &str); 12] = [
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset-after"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining-minute", "x-ratelimit-reset-minute"),
    ("x-ratelimit-remaining-day", "x-ratelimit-reset-day"),
];

/// More items of one header than this are not looked at.
const MOST_ITEMS: usize = 16;

const TWO_DAYS: Duration = Duration::from_secs(2 * 86_400);
/// An epoch above this is in milliseconds: in seconds it would be the year 5138.
const IN_MILLISECONDS: Duration = Duration::from_secs(100_000_000_000);

/// What is left, and how long until it is refilled.
#[derive(Clone, Copy, Debug)]
struct Budget {
    left: f64,
    reset: Duration,
}

/// How long until the budget that ran out is refilled; with `only_empty`, only one of which nothing
/// is left.
pub(super) fn reset(headers: &(impl Headers + ?Sized), now: SystemTime, only_empty: bool) -> Option<Duration> {
    let mut tightest: Option<Budget> = None;
    let mut offer = |budget: Budget| {
        let tighter = tightest.is_none_or(|than| (budget.left, than.reset) < (than.left, budget.reset));
        if tighter && (!only_empty || budget.left <= 0.0) {
            tightest = Some(budget);
        }
    };
    headers.value("ratelimit").into_iter().flat_map(|value| in_one_header(value, now)).for_each(&mut offer);
    for (left, reset) in BUDGETS {
        let Some(reset) = headers.value(reset).and_then(|reset| when(reset, now)) else { continue };
        // Nothing said of what is left: a refusal means nothing, a good answer everything.
        let unknown = if only_empty { f64::INFINITY } else { 0.0 };
        let left = headers.value(left).and_then(|left| left.trim().parse().ok()).unwrap_or(unknown);
        offer(Budget { left, reset });
    }
    tightest.map(|budget| budget.reset)
}

/// `limit=100, remaining=0, reset=10`, or `"burst";r=0;t=10, "daily";r=900;t=3600`.
fn in_one_header(value: &str, now: SystemTime) -> Vec<Budget> {
    let budget = |fields: &mut dyn Iterator<Item = &str>, left_key: &str, reset_key: &str| {
        let (mut left, mut reset) = (None, None);
        for (key, value) in fields.filter_map(|field| field.split_once('=')) {
            match key.trim() {
                key if key.eq_ignore_ascii_case(left_key) => left = value.trim().parse().ok(),
                key if key.eq_ignore_ascii_case(reset_key) => reset = when(value, now),
                _ => {}
            }
        }
        Some(Budget { left: left?, reset: reset? })
    };
    match budget(&mut value.split(','), "remaining", "reset") {
        Some(whole) => vec![whole],
        None => value.split(',').take(MOST_ITEMS).filter_map(|item| budget(&mut item.split(';'), "r", "t")).collect(),
    }
}

/// A reset, in whatever form, as the time until then.
fn when(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let until = |moment: SystemTime| moment.duration_since(now).unwrap_or_default();
    if let Some(number) = seconds(value) {
        return match number {
            delta if delta < TWO_DAYS => Some(delta),
            epoch if epoch < IN_MILLISECONDS => Some(until(UNIX_EPOCH.checked_add(epoch)?)),
            millis => Some(until(UNIX_EPOCH.checked_add(millis / 1000)?)),
        };
    }
    duration(value).or_else(|| Some(until(rfc3339(value)?)))
}
