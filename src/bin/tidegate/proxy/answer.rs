//! The gateway's own answers: a refusal, and what is said when there is no answer from the upstream.
//!
//! All say which side speaks: the body names the limiter or the upstream, and a header marks a
//! refusal. gRPC callers get gRPC statuses, in a response without body.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use tidegate::Rejected;
use tidegate::tower::{RefusalBody, RefusalForm, RefusalStatus, Side};

use super::body::ResponseBody;
use super::outcome::Failure;

/// A limiter refused.
pub(super) fn refusal(rejected: &Rejected, request: &HeaderMap, status: RefusalStatus) -> Response<ResponseBody> {
    let form = RefusalForm { status, body: RefusalBody::Json, side: Side::Inbound };
    let response = tidegate::tower::refusal(rejected, request, form);
    response.map(|text| ResponseBody::Own((!text.is_empty()).then_some(text)))
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
