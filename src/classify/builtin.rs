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

mod codes;

use std::time::Duration;

use super::{Answer, HeaderTest, MemberTest, REFUSAL_HEADER, Retry, Rule, Scope, TransportError};
use crate::outcome::Outcome;
use crate::outcome::Outcome::{Caller, Cancelled, Exhausted, Fault, Overloaded, Success, Throttled};

/// A `Retry-After` above this many seconds announces maintenance, not pressure.
const LONGEST_BACK_OFF: u64 = 300;

/// How long to stay away when somebody was turned away for a while, and was not told for how long.
const COOL_DOWN: Duration = Duration::from_secs(60);

/// The built-in rules, in order.
pub(super) fn rules() -> Vec<Rule> {
    let mut rules = bulk("elasticsearch", Some(("x-elastic-product", HeaderTest::Present)));
    rules.extend(aws_batches());
    rules.push(status("http-success", 100, 399, Success));
    rules.push(
        Rule::new("tidegate-refusal", Answer::Any, Overloaded)
            .header(REFUSAL_HEADER, HeaderTest::Present)
            .retry(Retry::Yes)
            // The others may have places: a refusal says nothing about them.
            .scope(Scope::Request),
    );
    rules.extend(lookalikes());
    rules.extend(http_429());
    rules.extend(http_503());
    rules.extend(http());
    rules.extend(grpc());
    rules.extend(events());
    rules.extend(transport());
    rules
}

/// Refusals inside a bulk answer that is 200 outside, as Elasticsearch and OpenSearch write them.
/// OpenSearch sends no header to tell it by, so for it these have to be put in front by hand.
pub(super) fn bulk(name: &'static str, header: Option<(&'static str, HeaderTest)>) -> Vec<Rule> {
    let part = |suffix: &str| {
        let rule = Rule::new(format!("{name}-{suffix}"), Answer::Http { from: 200, to: 200 }, Throttled)
            .any_member("errors", MemberTest::Is("true".into()));
        match header.clone() {
            Some((name, test)) => rule.header(name, test),
            None => rule,
        }
    };
    vec![
        part("bulk-item-refused").any_code(["es_rejected_execution_exception", "circuit_breaking_exception"]),
        part("bulk-item-refused-legacy").any_text(["EsRejectedExecutionException"]),
    ]
}

/// AWS batches that succeed outside and are throttled in part.
fn aws_batches() -> Vec<Rule> {
    let part = |name| {
        Rule::new(name, Answer::Http { from: 200, to: 200 }, Throttled)
            .header("content-type", HeaderTest::Contains("x-amz-json".into()))
    };
    let failed = ["Failed", "FailedRecordCount", "FailedPutCount", "FailedEntryCount"];
    vec![
        part("aws-unprocessed")
            .any_member("UnprocessedItems", MemberTest::Something)
            .any_member("UnprocessedKeys", MemberTest::Something),
        failed
            .into_iter()
            .fold(part("aws-batch-failed"), |rule, name| rule.any_member(name, MemberTest::Something))
            .any_code(codes::THROTTLE),
    ]
}

/// What looks like pressure and is not, and what looks like a caller's error and is pressure.
fn lookalikes() -> Vec<Rule> {
    let error = Answer::Http { from: 400, to: 599 };
    let refused = |name, outcome| status(name, 429, 429, outcome);
    vec![
        Rule::new("account-exhausted", error, Exhausted).any_code(codes::EXHAUSTED),
        Rule::new("account-exhausted-in-words", error, Exhausted).any_text(codes::EXHAUSTED_IN_WORDS),
        Rule::new("endpoint-disabled", error, Exhausted).any_text(codes::DISABLED_IN_WORDS),
        status("http-402", 402, 402, Exhausted),
        // Kubernetes refuses an eviction so: it was served, and can be asked for again later.
        refused("disruption-budget", Caller)
            .any_text(["disruption budget", "DisruptionBudget"])
            .retry(Retry::Yes)
            .wait(Duration::from_secs(5)),
        // Two writers of one object: nobody else is too fast.
        refused("object-locked", Caller).any_code(["lock_timeout"]).retry(Retry::Yes),
        refused("edge-ban", Throttled)
            .any_text(["error code: 1015", "blocked from accessing our api temporarily"])
            .scope(Scope::Destination)
            .wait(COOL_DOWN),
        Rule::new("throttle-code", error, Throttled).any_code(codes::THROTTLE),
        Rule::new("github-secondary-limit", Answer::Http { from: 403, to: 429 }, Throttled)
            .any_text(["secondary rate limit", "abuse detection mechanism"])
            .wait(COOL_DOWN),
        status("http-403-nothing-left", 403, 403, Throttled)
            .header("x-ratelimit-remaining", HeaderTest::Is("0".into())),
    ]
}

fn http_429() -> Vec<Rule> {
    let rule = |name, outcome| status(name, 429, 429, outcome);
    vec![
        // A page instead of an answer comes from the edge, which counts addresses.
        rule("edge-429", Throttled)
            .header("content-type", HeaderTest::Contains("text/html".into()))
            .scope(Scope::Destination),
        rule("http-429", Throttled),
    ]
}

fn http_503() -> Vec<Rule> {
    let rule = |name, outcome| status(name, 503, 503, outcome);
    vec![
        rule("envoy-overloaded", Overloaded).header("x-envoy-overloaded", HeaderTest::Present).retry(Retry::Yes),
        rule("http-503-maintenance", Fault)
            .header("retry-after", HeaderTest::Above(LONGEST_BACK_OFF))
            .scope(Scope::Destination),
        rule("http-503-retry-after", Throttled).header("retry-after", HeaderTest::Present).scope(Scope::Destination),
        rule("http-503-overloaded", Overloaded).any_text(codes::OVERLOADED_IN_WORDS).retry(Retry::Yes),
    ]
}

fn http() -> Vec<Rule> {
    vec![
        status("http-408", 408, 408, Overloaded),
        status("http-504", 504, 504, Overloaded),
        // Not registered, but several providers answer it when they are overloaded.
        status("http-529", 529, 529, Overloaded).retry(Retry::Yes),
        status("http-4xx", 400, 499, Caller),
        status("http-5xx", 500, 599, Fault),
    ]
}

fn grpc() -> Vec<Rule> {
    vec![
        code("grpc-ok", 0, Success),
        code("grpc-rate-limited-exhausted", 8, Throttled).header("x-envoy-ratelimited", HeaderTest::Present),
        code("grpc-rate-limited-unavailable", 14, Throttled).header("x-envoy-ratelimited", HeaderTest::Present),
        code("grpc-message-too-large", 8, Caller).any_text(codes::OVERSIZE_IN_WORDS),
        code("grpc-resource-exhausted", 8, Overloaded).retry(Retry::Yes),
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
        code("grpc-data-loss", 15, Fault).retry(Retry::Never),
    ]
}

/// Errors inside an event stream whose head was good, as model providers send them.
fn events() -> Vec<Rule> {
    let rule = |name, outcome| Rule::new(name, Answer::Event, outcome);
    vec![
        rule("event-exhausted", Exhausted).any_code(codes::EXHAUSTED),
        rule("event-exhausted-in-words", Exhausted).any_text(codes::EXHAUSTED_IN_WORDS),
        rule("event-overloaded", Overloaded).any_code(["overloaded_error", "overloaded", "engine_overloaded_error"]),
        rule("event-overloaded-in-words", Overloaded).any_text(codes::OVERLOADED_IN_WORDS),
        rule("event-throttled", Throttled).any_code(codes::THROTTLE),
        rule("event-callers", Caller).any_code(["invalid_request_error", "authentication_error", "permission_error"]),
        rule("event-fault", Fault),
    ]
}

fn transport() -> Vec<Rule> {
    let rule = |name, error, outcome| Rule::new(name, Answer::Transport(error), outcome);
    vec![
        rule("transport-timed-out", TransportError::TimedOut, Overloaded),
        rule("transport-refused-by-tidegate", TransportError::Rejected, Overloaded)
            .retry(Retry::Yes)
            .scope(Scope::Request),
        rule("transport-connection-refused", TransportError::ConnectionRefused, Fault)
            .retry(Retry::Yes)
            .scope(Scope::Destination),
        rule("transport-reset", TransportError::Reset, Fault),
        rule("transport-other", TransportError::Other, Fault),
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
