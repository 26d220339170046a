//! What there is to say of a ceiling.

use metrics::{counter, describe_counter, describe_gauge, gauge};

use super::{
    CEILING_CONSUMED, CEILING_MEMBERS, CEILING_RATE, CEILING_RATE_MAX, CEILING_RATE_MIN, CEILING_REFUNDED,
    CEILING_REFUSED, CEILING_ROUND_TRIPS, CEILING_SOURCE, CEILING_THROTTLED, CEILING_WAITING, FALLBACK,
};
use crate::ceiling::{CeilingSnapshot, Source};

pub(super) fn describe() {
    describe_gauge!(CEILING_RATE, "Units a second in force here: of all together while shared, of this process else");
    describe_gauge!(CEILING_RATE_MIN, "The smallest rate allowed");
    describe_gauge!(CEILING_RATE_MAX, "The largest rate allowed");
    describe_counter!(CEILING_CONSUMED, "Units taken from a ceiling by this process");
    describe_counter!(CEILING_REFUNDED, "Units given back to a ceiling");
    describe_counter!(CEILING_REFUSED, "Requests that a ceiling refused");
    describe_gauge!(CEILING_WAITING, "Requests that wait for a ceiling");
    describe_counter!(CEILING_THROTTLED, "Attempts that the other side throttled");
    describe_gauge!(CEILING_SOURCE, "1 for where a ceiling's units come from");
    describe_gauge!(CEILING_MEMBERS, "Processes that share a ceiling, as far as the store has counted");
    describe_counter!(CEILING_ROUND_TRIPS, "Calls to the store of a shared ceiling");
}

/// Writes a ceiling's numbers. To be called at a scrape.
pub fn record_ceiling(now: &CeilingSnapshot) {
    let ceiling = now.name.to_string();
    let set = |name: &'static str, value: f64| gauge!(name, "ceiling" => ceiling.clone()).set(value);
    let count = |name: &'static str, value: u64| counter!(name, "ceiling" => ceiling.clone()).absolute(value);
    set(CEILING_RATE, now.rate);
    set(CEILING_RATE_MIN, now.bounds.0);
    set(CEILING_RATE_MAX, now.bounds.1);
    set(CEILING_WAITING, f64::from(now.waiting));
    set(CEILING_MEMBERS, f64::from(now.members));
    count(CEILING_CONSUMED, now.consumed);
    count(CEILING_REFUNDED, now.refunded);
    count(CEILING_REFUSED, now.refused);
    count(CEILING_THROTTLED, now.throttled);
    count(CEILING_ROUND_TRIPS, now.round_trips);
    for source in Source::ALL {
        let is_so = f64::from(u8::from(source == now.source));
        gauge!(CEILING_SOURCE, "ceiling" => ceiling.clone(), "source" => source.as_str()).set(is_so);
    }
    let fallback = f64::from(u8::from(now.source.is_fallback()));
    gauge!(FALLBACK, "ceiling" => ceiling.clone(), "kind" => "ceiling").set(fallback);
}
