//! One second of one limiter, as numbers in a fixed order. Pure.

use std::iter;

use serde_json::{Value, json};
use tidegate::{Outcome, RejectReason, Snapshot};

const GAUGES: usize = 10;
const N: usize = GAUGES + Outcome::ALL.len() + RejectReason::ALL.len() + 1;

/// What each number of a [`Point`] is. `fallback` is 1 or 0; latencies are in milliseconds and of this second alone;
/// outcomes, reasons and `would_reject` are rates a second.
pub(crate) const COLUMNS: [&str; N] = columns();

/// The numbers in the order of [`COLUMNS`]; one that is not known is not a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Point([f32; N]);

const fn columns() -> [&'static str; N] {
    let gauges =
        ["limit", "min", "max", "in_flight", "queued", "fallback", "shadow_limit", "typical_ms", "p50_ms", "p99_ms"];
    let mut all = ["would_reject"; N];
    let mut at = 0;
    while at < GAUGES {
        all[at] = gauges[at];
        at += 1;
    }
    let mut i = 0;
    while i < Outcome::ALL.len() {
        all[at] = Outcome::ALL[i].as_str();
        (at, i) = (at + 1, i + 1);
    }
    let mut i = 0;
    while i < RejectReason::ALL.len() {
        all[at] = RejectReason::ALL[i].as_str();
        (at, i) = (at + 1, i + 1);
    }
    all
}

impl Point {
    /// What happened from `before` to `now`, `passed` seconds apart. Without a `before`, or when the
    /// limiter is another one of the same name, rates are unknown.
    pub(super) fn between(before: Option<&Snapshot>, now: &Snapshot, passed: f64) -> Self {
        let latency = before.map(|before| now.latency.since(&before.latency));
        let quantile = |q| latency.as_ref().and_then(|latency| latency.quantile(q)).map_or(f64::NAN, |s| s * 1e3);
        let typical = now.typical_latency.as_secs_f64() * 1e3;
        let gauges = [
            f64::from(now.limit),
            f64::from(now.bounds.min()),
            f64::from(now.bounds.max()),
            f64::from(now.in_flight),
            f64::from(now.queued),
            f64::from(u8::from(now.fallback.is_some())),
            now.shadow.as_ref().map_or(f64::NAN, |shadow| f64::from(shadow.limit)),
            if typical > 0.0 { typical } else { f64::NAN },
            quantile(0.5),
            quantile(0.99),
        ];
        let rate = |of: &dyn Fn(&Snapshot) -> u64| match before.map(|before| of(now).checked_sub(of(before))) {
            Some(Some(n)) if passed > 0.0 => n as f64 / passed,
            _ => f64::NAN,
        };
        let outcomes = Outcome::ALL.into_iter().map(|outcome| rate(&|s| s.finished.of(outcome)));
        let reasons = RejectReason::ALL.into_iter().map(|reason| rate(&|s| s.rejected(reason)));
        let all = gauges.into_iter().chain(outcomes).chain(reasons).chain(iter::once(rate(&|s| s.would_reject)));
        let mut numbers = [f32::NAN; N];
        for (place, value) in numbers.iter_mut().zip(all) {
            *place = value as f32;
        }
        Self(numbers)
    }

    /// As a list, with its time in front if one is given.
    pub(super) fn json(&self, at: Option<f64>) -> Value {
        at.map(|at| json!(at)).into_iter().chain(self.0.iter().map(|value| rounded(*value))).collect()
    }

    /// Limit and units in flight.
    pub(super) fn glance(&self) -> Value {
        json!([rounded(self.0[0]), rounded(self.0[3])])
    }
}

/// Hundredths are enough for a chart; what is not a number becomes null.
fn rounded(value: f32) -> Value {
    let hundredths = (f64::from(value) * 100.0).round() / 100.0;
    if hundredths.fract() == 0.0 && hundredths.abs() < 9e15 { json!(hundredths as i64) } else { json!(hundredths) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Limiter;

    fn of(point: &Point, column: &str) -> f32 {
        point.0[COLUMNS.iter().position(|name| *name == column).expect("a column")]
    }

    #[test]
    fn rates_are_counts_over_time_and_unknown_without_a_past() {
        let limiter = Limiter::builder("a").bounds(1, 1).build().expect("good bounds");
        let before = limiter.snapshot();
        let permit = limiter.try_acquire().expect("room");
        for _ in 0..6 {
            assert!(limiter.try_acquire().is_err());
        }
        permit.finish(Outcome::Success);
        let now = limiter.snapshot();
        let point = Point::between(Some(&before), &now, 2.0);
        assert_eq!((of(&point, "limit_reached"), of(&point, "success"), of(&point, "fault")), (3.0, 0.5, 0.0));
        assert!(of(&Point::between(None, &now, 2.0), "success").is_nan());
        assert!(of(&Point::between(Some(&now), &before, 2.0), "success").is_nan(), "counters went back");
    }

    #[test]
    fn what_is_unknown_is_null() {
        let limiter = Limiter::builder("a").bounds(1, 7).build().expect("good bounds");
        let json = Point::between(None, &limiter.snapshot(), 1.0).json(Some(5.25));
        assert_eq!((&json[0], &json[3]), (&json!(5.25), &json!(7)));
        assert!(json[1 + 7].is_null());
        assert_eq!(rounded(f32::INFINITY), Value::Null);
    }
}
