//! What the absence of an answer means for the limiter and for the client.

use http::StatusCode;
use tidegate::Outcome;

use super::body::Mishap;
use crate::upstream::SendError;

/// No answer: what the limiter and the client are told.
pub(super) struct Failure {
    pub(super) outcome: Outcome,
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) detail: String,
}

impl Failure {
    pub(super) fn of(err: &SendError, mishap: Option<Mishap>) -> Self {
        let failure = |outcome, status, error, detail| Self { outcome, status, error, detail };
        match (mishap, err) {
            (Some(Mishap::TooLarge), _) => too_large(),
            (Some(Mishap::Stalled), _) => {
                let detail = "the client sent no more of its request body".to_owned();
                failure(Outcome::Cancelled, StatusCode::REQUEST_TIMEOUT, "request_stalled", detail)
            }
            (Some(Mishap::Gone), _) => {
                let detail = "the client broke off its request body".to_owned();
                failure(Outcome::Cancelled, StatusCode::BAD_REQUEST, "request_broken", detail)
            }
            (None, SendError::Connect(err)) => {
                let detail = format!("no connection to the upstream: {err}");
                failure(Outcome::Fault, StatusCode::BAD_GATEWAY, "upstream_unreachable", detail)
            }
            (None, SendError::ConnectTimeout) => {
                let detail = "no connection to the upstream within its connect_timeout".to_owned();
                failure(Outcome::Overloaded, StatusCode::GATEWAY_TIMEOUT, "upstream_connect_timeout", detail)
            }
            (None, SendError::ResponseTimeout) => {
                let detail = "no response head from the upstream within its response_timeout".to_owned();
                failure(Outcome::Overloaded, StatusCode::GATEWAY_TIMEOUT, "upstream_response_timeout", detail)
            }
            (None, SendError::Deadline) => {
                let detail = "no response head from the upstream before the request's deadline".to_owned();
                failure(Outcome::Overloaded, StatusCode::GATEWAY_TIMEOUT, "deadline_exceeded", detail)
            }
            (None, SendError::Broken(err)) => {
                let detail = format!("the upstream broke off before its response: {err}");
                failure(Outcome::Fault, StatusCode::BAD_GATEWAY, "upstream_broken", detail)
            }
        }
    }
}

/// The body is larger than the gateway takes.
pub(super) fn too_large() -> Failure {
    Failure {
        outcome: Outcome::Caller,
        status: StatusCode::PAYLOAD_TOO_LARGE,
        error: "request_too_large",
        detail: "the request body is larger than server.body_limit".to_owned(),
    }
}
