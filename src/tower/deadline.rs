//! Deadlines in request heads: read on arrival, cut by what was spent, written for the next in line.

use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;

use super::head::speaks_grpc;
use crate::clock;
use crate::deadline::{self, BudgetUnit, Deadline};

/// Where a request's budget stands.
///
/// By default only `grpc-timeout` is read, of requests that speak gRPC or not. The shorter of what is
/// found counts.
#[derive(Clone, Debug, Default)]
pub struct DeadlineSource {
    header: Option<(HeaderName, BudgetUnit)>,
    budget: Option<Duration>,
}

impl DeadlineSource {
    /// Reads this header too, and writes it for the next in line.
    #[must_use]
    pub fn header(mut self, name: HeaderName, unit: BudgetUnit) -> Self {
        self.header = Some((name, unit));
        self
    }

    /// The budget of a request that brings none, and the most that one may bring.
    #[must_use]
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The deadline of a request that has arrived at `now`.
    pub fn read(&self, headers: &HeaderMap, now: Instant) -> Option<Deadline> {
        Some(Deadline::after(now, self.budget_of(headers)?))
    }

    fn budget_of(&self, headers: &HeaderMap) -> Option<Duration> {
        let header = self.header.as_ref().map(|(name, unit)| (name.as_str(), *unit));
        let brought = deadline::budget(headers, header);
        match (brought, self.budget) {
            (Some(brought), Some(most)) => Some(brought.min(most)),
            (brought, most) => brought.or(most),
        }
    }

    /// Writes what is left at `now` into the headers in which it is told: the configured one, and
    /// `grpc-timeout` when it is gRPC or was there already.
    pub fn write(&self, headers: &mut HeaderMap, deadline: Deadline, now: Instant) {
        let left = deadline.remaining(now);
        if let Some((name, unit)) = &self.header {
            headers.insert(name.clone(), text(unit.write(left)));
        }
        if speaks_grpc(headers) || headers.contains_key("grpc-timeout") {
            headers.insert("grpc-timeout", text(deadline::write_grpc_timeout(left)));
        }
    }

    /// The deadline of a request: the one in its extensions, set by whoever had it first, or the one
    /// that its headers tell, whichever is earlier.
    pub(crate) fn of(&self, request: &Parts) -> Option<Deadline> {
        let known = request.extensions.get::<Deadline>().copied();
        let read = self.budget_of(&request.headers).map(|budget| Deadline::after(clock::now(), budget));
        match (known, read) {
            (Some(known), Some(read)) => Some(known.min(read)),
            (known, read) => known.or(read),
        }
    }
}

fn text(value: String) -> HeaderValue {
    HeaderValue::try_from(value).expect("digits, a point and a letter are a header value")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_budget_is_read_capped_and_passed_on_less_what_was_spent() {
        let now = crate::clock::now();
        let source = DeadlineSource::default()
            .header(HeaderName::from_static("x-timeout-ms"), BudgetUnit::Millis)
            .budget(Duration::from_secs(10));
        let mut request = headers(&[("x-timeout-ms", "60000")]);
        let deadline = source.read(&request, now).expect("a deadline");
        assert_eq!(deadline.remaining(now), Duration::from_secs(10), "no more than the budget");
        source.write(&mut request, deadline, now + Duration::from_millis(2500));
        assert_eq!(request["x-timeout-ms"], "7500");
        assert!(!request.contains_key("grpc-timeout"));
        assert_eq!(source.read(&headers(&[]), now), Some(deadline), "one that brings none has the budget");
    }

    #[test]
    fn grpc_is_told_in_its_own_header() {
        let now = crate::clock::now();
        let source = DeadlineSource::default();
        let mut request = headers(&[("content-type", "application/grpc"), ("grpc-timeout", "1S")]);
        let deadline = source.read(&request, now).expect("a deadline");
        source.write(&mut request, deadline, now + Duration::from_millis(400));
        assert_eq!(request["grpc-timeout"], "600000u");
        assert_eq!(source.read(&headers(&[("grpc-timeout", "soon")]), now), None);
    }
}
