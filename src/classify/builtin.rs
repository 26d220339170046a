//! The built-in table.
//!
//! HTTP 503 is read three ways, since servers use it three ways. With a short `Retry-After` it is a
//! throttle: somebody counted and knows when there is room. With a long one (above five minutes) it
//! announces maintenance, and without one it is what dead back ends and bare "service unavailable"
//! pages look like; both are faults, and cutting the limit would not help. A server that means
//! "overloaded" by a bare 503 gets a rule of its own in front of these.
//!
//! gRPC's RESOURCE_EXHAUSTED is pressure, unless a library says it of a message that was too large:
//! then one fat request must not shrink the limit for all. UNAVAILABLE means "down", unless a rate
//! limiting proxy marked it: such proxies turn 429 into it.

use super::{Answer, HeaderTest, REFUSAL_HEADER, Rule, TransportError};
use crate::outcome::Outcome;
use crate::outcome::Outcome::{Caller, Cancelled, Fault, Overloaded, Success, Throttled};

/// A `Retry-After` above this many seconds announces maintenance, not pressure.
const LONGEST_BACK_OFF: u64 = 300;

/// How libraries say that a message was too large, when they say it by RESOURCE_EXHAUSTED.
const OVERSIZE: [&str; 4] =
    ["larger than max", "exceeds maximum size", "message length too large", "message size exceeds"];

/// The built-in rules, in order.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = http();
    rules.extend(grpc());
    rules.extend(transport());
    rules
}

fn http() -> Vec<Rule> {
    vec![
        status("http-success", 100, 399, Success),
        Rule::new("tidegate-refusal", Answer::Any, Overloaded).header(REFUSAL_HEADER, HeaderTest::Present),
        status("http-429", 429, 429, Throttled),
        Rule::new("envoy-overloaded", Answer::Http { from: 503, to: 503 }, Overloaded)
            .header("x-envoy-overloaded", HeaderTest::Present),
        Rule::new("http-503-maintenance", Answer::Http { from: 503, to: 503 }, Fault)
            .header("retry-after", HeaderTest::Above(LONGEST_BACK_OFF)),
        Rule::new("http-503-retry-after", Answer::Http { from: 503, to: 503 }, Throttled)
            .header("retry-after", HeaderTest::Present),
        status("http-408", 408, 408, Overloaded),
        status("http-504", 504, 504, Overloaded),
        // Not registered, but several providers answer it when they are overloaded.
        status("http-529", 529, 529, Overloaded),
        status("http-4xx", 400, 499, Caller),
        status("http-5xx", 500, 599, Fault),
    ]
}

fn grpc() -> Vec<Rule> {
    vec![
        code("grpc-ok", 0, Success),
        code("grpc-rate-limited-exhausted", 8, Throttled).header("x-envoy-ratelimited", HeaderTest::Present),
        code("grpc-rate-limited-unavailable", 14, Throttled).header("x-envoy-ratelimited", HeaderTest::Present),
        code("grpc-message-too-large", 8, Caller).any_text(OVERSIZE),
        code("grpc-resource-exhausted", 8, Overloaded),
        code("grpc-deadline-exceeded", 4, Overloaded),
        code("grpc-cancelled", 1, Cancelled),
        code("grpc-invalid-argument", 3, Caller),
        code("grpc-not-found", 5, Caller),
        code("grpc-already-exists", 6, Caller),
        code("grpc-permission-denied", 7, Caller),
        code("grpc-failed-precondition", 9, Caller),
        code("grpc-aborted", 10, Caller),
        code("grpc-out-of-range", 11, Caller),
        code("grpc-unimplemented", 12, Caller),
        code("grpc-unauthenticated", 16, Caller),
        code("grpc-unknown", 2, Fault),
        code("grpc-internal", 13, Fault),
        code("grpc-unavailable", 14, Fault),
        code("grpc-data-loss", 15, Fault),
    ]
}

fn transport() -> Vec<Rule> {
    vec![
        Rule::new("transport-timed-out", Answer::Transport(TransportError::TimedOut), Overloaded),
        Rule::new("transport-refused-by-tidegate", Answer::Transport(TransportError::Rejected), Overloaded),
        Rule::new("transport-connection-refused", Answer::Transport(TransportError::ConnectionRefused), Fault),
        Rule::new("transport-reset", Answer::Transport(TransportError::Reset), Fault),
        Rule::new("transport-other", Answer::Transport(TransportError::Other), Fault),
    ]
}

fn status(name: &'static str, from: u16, to: u16, outcome: Outcome) -> Rule {
    Rule::new(name, Answer::Http { from, to }, outcome)
}

fn code(name: &'static str, code: u32, outcome: Outcome) -> Rule {
    Rule::new(name, Answer::Grpc(code), outcome)
}

#[cfg(test)]
mod tests {
    use super::super::Classifier;
    use super::*;

    #[test]
    fn http_heads() {
        let after = |secs: &'static str| vec![("Retry-After", secs)];
        let table = [
            (101, vec![], Success),
            (200, vec![], Success),
            (200, after("5"), Success),
            (304, vec![], Success),
            (400, vec![], Caller),
            (404, vec![], Caller),
            (413, vec![], Caller),
            (429, vec![], Throttled),
            (429, after("2"), Throttled),
            (408, vec![], Overloaded),
            (500, vec![], Fault),
            (502, vec![], Fault),
            (503, vec![], Fault),
            (503, after("2"), Throttled),
            (503, after("300"), Throttled),
            (503, after("1800"), Fault),
            (503, after("Wed, 21 Oct 2026 07:28:00 GMT"), Throttled),
            (503, vec![("x-envoy-overloaded", "true")], Overloaded),
            (503, vec![(REFUSAL_HEADER, "queue_full"), ("retry-after", "1")], Overloaded),
            (429, vec![(REFUSAL_HEADER, "limit_reached"), ("retry-after", "1")], Overloaded),
            (504, vec![], Overloaded),
            (529, vec![], Overloaded),
            (599, vec![], Fault),
        ];
        for (status, headers, outcome) in table {
            let headers = headers.as_slice();
            assert_eq!(Classifier::default().classify_head(status, headers), outcome, "{status} {headers:?}");
        }
    }

    #[test]
    fn grpc_codes() {
        let expected = [
            Success, Cancelled, Fault, Caller, Overloaded, Caller, Caller, Caller, Overloaded, Caller, Caller, Caller,
            Caller, Fault, Fault, Fault, Caller,
        ];
        for (code, outcome) in (0..).zip(expected) {
            assert_eq!(Classifier::default().classify_grpc(code, "", &()), outcome, "code {code}");
        }
        assert_eq!(Classifier::default().classify_grpc(99, "", &()), Fault, "a code that nobody knows");
    }

    #[test]
    fn a_message_that_is_too_large_is_the_callers_own() {
        for message in [
            "grpc: received message larger than max (4197803 vs. 4194304)",
            "Received message larger than max (17777780 vs. 4194304)",
            "trying to send message larger than max (1048791 vs. 10240)",
            "gRPC message exceeds maximum size 4194304",
            "Error, decoded message length too large: found 5 bytes, the limit is: 4 bytes",
        ] {
            assert_eq!(Classifier::default().classify_grpc(8, message, &()), Caller, "{message}");
        }
        for message in ["data refused due to high memory usage", "too many requests", ""] {
            assert_eq!(Classifier::default().classify_grpc(8, message, &()), Overloaded, "{message}");
        }
    }

    #[test]
    fn a_rate_limiting_proxy_marks_its_unavailable() {
        let marked = &[("x-envoy-ratelimited", "true")][..];
        assert_eq!(Classifier::default().classify_grpc(14, "", marked), Throttled);
        assert_eq!(Classifier::default().classify_grpc(8, "", marked), Throttled);
        assert_eq!(Classifier::default().classify_grpc(14, "transport is closing", &()), Fault);
    }

    #[test]
    fn names_are_unique() {
        let rules = rules();
        let names: std::collections::BTreeSet<_> = rules.iter().map(Rule::name).collect();
        assert_eq!(names.len(), rules.len());
    }
}
