//! Reads request and response heads: what was asked for, and what the answer's head tells.

use http::header::{CONTENT_TYPE, HeaderMap, UPGRADE};
use http::request::Parts;
use http::{Method, Response, StatusCode};

use crate::classify::{Classifier, Headers};
use crate::outcome::Outcome;

impl Headers for HeaderMap {
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(|value| value.to_str().unwrap_or(""))
    }
}

/// What must be remembered of a request until its answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// HEAD: the answer has no body, whatever its headers say.
    Head,
    /// CONNECT: a success begins a tunnel.
    Connect,
    /// An upgrade by header: 101 hands the connection over.
    Upgrade,
    /// Anything else.
    Plain,
}

impl Asked {
    pub(super) fn of(request: &Parts) -> Self {
        match request.method {
            Method::HEAD => Asked::Head,
            Method::CONNECT => Asked::Connect,
            _ if request.headers.contains_key(UPGRADE) => Asked::Upgrade,
            _ => Asked::Plain,
        }
    }

    pub(super) fn wants_upgrade(self) -> bool {
        matches!(self, Asked::Connect | Asked::Upgrade)
    }

    /// Whether this answer hands the connection over.
    pub(super) fn is_granted_by(self, status: StatusCode) -> bool {
        match self {
            Asked::Connect => status.is_success(),
            Asked::Upgrade => status == StatusCode::SWITCHING_PROTOCOLS,
            Asked::Head | Asked::Plain => false,
        }
    }
}

/// What a response head tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The outcome is known.
    Outcome(Outcome),
    /// A gRPC answer that looks well so far; its status comes in the trailers.
    InTrailers,
}

impl Told {
    pub(super) fn by<B>(classifier: &Classifier, response: &Response<B>) -> Self {
        let headers = response.headers();
        if response.status() == StatusCode::OK && is_grpc(headers) {
            return match grpc_status(classifier, headers) {
                Some(outcome) => Told::Outcome(outcome),
                None => Told::InTrailers,
            };
        }
        Told::Outcome(classifier.classify_head(response.status().as_u16(), headers))
    }

    /// The outcome as far as the head tells it.
    pub(super) fn so_far(self) -> Outcome {
        match self {
            Told::Outcome(outcome) => outcome,
            Told::InTrailers => Outcome::Success,
        }
    }
}

/// The outcome by `grpc-status`, which stands in the trailers, or in the head when nothing else comes.
pub(super) fn grpc_status(classifier: &Classifier, fields: &HeaderMap) -> Option<Outcome> {
    let code = fields.get("grpc-status")?.to_str().ok().and_then(|code| code.trim().parse().ok());
    let message = fields.value("grpc-message").unwrap_or("");
    // A status that is no number is UNKNOWN, as gRPC libraries read it.
    Some(classifier.classify_grpc(code.unwrap_or(2), message, fields))
}

/// The outcome of a gRPC answer that ended without a status.
pub(super) fn grpc_without_status(classifier: &Classifier) -> Outcome {
    classifier.classify_grpc_without_status()
}

/// Whether these are the headers of native gRPC. In gRPC-Web the status is inside the body, where it
/// is not looked for; its answers are read as plain HTTP.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    content_type(headers)
        .strip_prefix("application/grpc")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';', ' ']))
}

/// Whether the request speaks gRPC in any form, so that it understands only a gRPC refusal.
pub(super) fn speaks_grpc(headers: &HeaderMap) -> bool {
    content_type(headers).starts_with("application/grpc")
}

fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, headers: &[(&'static str, &'static str)]) -> Response<()> {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        response.body(()).expect("a valid response")
    }

    #[test]
    fn grpc_is_told_by_its_content_type_and_not_by_its_neighbours() {
        for (content_type, native) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().expect("a valid header"));
            assert_eq!(is_grpc(&headers), native, "{content_type}");
            assert_eq!(speaks_grpc(&headers), content_type != "application/json", "{content_type}");
        }
    }

    #[test]
    fn heads_of_every_kind() {
        const GRPC: (&str, &str) = ("content-type", "application/grpc");
        let told = |status, headers: &[_]| Told::by(&Classifier::default(), &response(status, headers));
        assert_eq!(told(200, &[GRPC]), Told::InTrailers);
        assert_eq!(told(200, &[GRPC, ("grpc-status", "0")]), Told::Outcome(Outcome::Success));
        assert_eq!(told(200, &[GRPC, ("grpc-status", "8")]), Told::Outcome(Outcome::Overloaded));
        assert_eq!(told(200, &[GRPC, ("grpc-status", "eight")]), Told::Outcome(Outcome::Fault));
        let large = ("grpc-message", "received message larger than max (5 vs. 4)");
        assert_eq!(told(200, &[GRPC, ("grpc-status", "8"), large]), Told::Outcome(Outcome::Caller));
        assert_eq!(told(429, &[GRPC]), Told::Outcome(Outcome::Throttled));
        assert_eq!(told(200, &[("grpc-status", "8")]), Told::Outcome(Outcome::Success), "not gRPC");
    }

    #[test]
    fn an_upgrade_is_granted_only_to_who_asked() {
        assert!(Asked::Upgrade.is_granted_by(StatusCode::SWITCHING_PROTOCOLS));
        assert!(!Asked::Upgrade.is_granted_by(StatusCode::OK));
        assert!(Asked::Connect.is_granted_by(StatusCode::OK));
        assert!(!Asked::Connect.is_granted_by(StatusCode::BAD_GATEWAY));
        assert!(!Asked::Plain.is_granted_by(StatusCode::SWITCHING_PROTOCOLS));
    }
}
