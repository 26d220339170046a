//! The gateway's own answers: a refusal, and what is said when there is no answer from the upstream.
//!
//! All say which side speaks: the body names the limiter or the upstream, and a header marks a
//! refusal. gRPC callers get gRPC statuses, in a response without body.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tidegate::classify::REFUSAL_HEADER;
use tidegate::{RejectReason, Rejected};

use super::body::ResponseBody;
use super::outcome::Failure;

/// A limiter refused.
pub(super) fn refusal(rejected: &Rejected, grpc: bool, status: StatusCode) -> Response<ResponseBody> {
    let retry_ms = rejected.retry_after.as_millis().max(1);
    let mut response = if grpc {
        // The caller's own deadline is DEADLINE_EXCEEDED, everything else RESOURCE_EXHAUSTED.
        let code = if rejected.reason == RejectReason::ClientDeadline { 4 } else { 8 };
        let mut response = grpc_status(code, &rejected.to_string());
        response.headers_mut().insert("grpc-retry-pushback-ms", number(retry_ms as u64));
        response
    } else {
        let body = serde_json::json!({
            "error": "refused by tidegate, the upstream was not asked",
            "limiter": &*rejected.limiter,
            "class": rejected.class.as_deref(),
            "reason": rejected.reason.as_str(),
            "limit": rejected.limit,
            "in_flight": rejected.in_flight,
            "queued": rejected.queued,
            "retry_after_ms": retry_ms as u64,
        });
        json(status, &body)
    };
    let headers = response.headers_mut();
    headers.insert(header::RETRY_AFTER, number(rejected.retry_after_secs()));
    headers.insert(REFUSAL_HEADER, HeaderValue::from_static(rejected.reason.as_str()));
    response
}

/// There is no answer from the upstream.
pub(super) fn failure(failure: &Failure, grpc: bool, upstream: &str) -> Response<ResponseBody> {
    if grpc {
        let code = match failure.status {
            StatusCode::GATEWAY_TIMEOUT => 4,
            StatusCode::PAYLOAD_TOO_LARGE => 8,
            StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_REQUEST => 1,
            _ => 14,
        };
        return grpc_status(code, &failure.detail);
    }
    let body = serde_json::json!({ "error": failure.error, "detail": failure.detail, "upstream": upstream });
    json(failure.status, &body)
}

/// The gateway itself does not serve this.
pub(super) fn not_here(status: StatusCode, error: &str) -> Response<ResponseBody> {
    json(status, &serde_json::json!({ "error": error }))
}

fn json(status: StatusCode, body: &serde_json::Value) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Own(Some(body.to_string().into())));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn grpc_status(code: u8, message: &str) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Own(None));
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", number(u64::from(code)));
    headers.insert("grpc-message", percent_encoded(message));
    response
}

fn number(n: u64) -> HeaderValue {
    HeaderValue::from(n)
}

/// As gRPC wants its messages: printable ASCII as it is, the rest as %XX.
fn percent_encoded(message: &str) -> HeaderValue {
    let mut out = String::with_capacity(message.len());
    for byte in message.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    HeaderValue::try_from(out).expect("printable ASCII is a header value")
}
