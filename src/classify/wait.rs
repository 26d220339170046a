//! Reads how long to stay away, in all the ways in which servers say it.
//!
//! The order is: gRPC's pushback; `retry-after-ms`, `x-ms-retry-after-ms` and `retry-after`;
//! `google.rpc.RetryInfo`; the headers that say when a rate limit resets; words in the text. A form
//! that cannot be read hides none that can, and is never an error. Moments are counted from the
//! answer's own `Date` when it has one, so that a clock that is wrong here does no harm.

use std::time::{Duration, SystemTime};

use super::details::retry_info;
use super::reset::reset;
use super::rule::Headers;
use super::text;
use super::time::{http_date, seconds};
use super::{Wait, WaitSource};

/// What the answer asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) wait: Option<Wait>,
    /// gRPC's "do not send it again".
    pub(super) never_again: bool,
}

/// Reads an answer that was not a good one.
pub(super) fn told(headers: &(impl Headers + ?Sized), text: &str, now: SystemTime) -> Told {
    if let Some(pushback) = headers.value("grpc-retry-pushback-ms") {
        // Negative or unreadable: the server wants no second attempt.
        return match pushback.trim().parse::<u32>() {
            Ok(ms) => some(WaitSource::Pushback, Duration::from_millis(u64::from(ms))),
            Err(_) => Told { wait: None, never_again: true },
        };
    }
    let now = moment(headers, now);
    let found = retry_after(headers, now)
        .map(|length| (WaitSource::RetryAfter, length))
        .or_else(|| retry_info(headers.value("grpc-status-details-bin")?).map(|l| (WaitSource::RetryInfo, l)))
        .or_else(|| text::retry_delay(text).map(|length| (WaitSource::RetryInfo, length)))
        .or_else(|| reset(headers, now, false).map(|length| (WaitSource::RateLimitReset, length)))
        .or_else(|| text::try_again_in(text).map(|length| (WaitSource::Text, length)));
    found.map_or_else(Told::default, |(source, length)| some(source, length))
}

/// A good answer that says that its was the last of a budget: when the next may come.
pub(super) fn paced(headers: &(impl Headers + ?Sized), now: SystemTime) -> Option<Wait> {
    let length = reset(headers, moment(headers, now), true)?;
    Some(Wait { length, source: WaitSource::RateLimitReset })
}

fn some(source: WaitSource, length: Duration) -> Told {
    Told { wait: Some(Wait { length, source }), never_again: false }
}

/// When the answer came, by its sender's clock if it says so.
fn moment(headers: &(impl Headers + ?Sized), now: SystemTime) -> SystemTime {
    headers.value("date").and_then(|date| http_date(date, now)).unwrap_or(now)
}

fn retry_after(headers: &(impl Headers + ?Sized), now: SystemTime) -> Option<Duration> {
    let ms = |name: &str| seconds(headers.value(name)?).map(|length| length / 1000);
    ms("retry-after-ms").or_else(|| ms("x-ms-retry-after-ms")).or_else(|| {
        let value = headers.value("retry-after")?;
        let until = || Some(http_date(value, now)?.duration_since(now).unwrap_or_default());
        seconds(value).or_else(until)
    })
}
