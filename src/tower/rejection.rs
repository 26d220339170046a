//! A refusal as a response: what the caller reads when the inner service was not asked. The one place
//! that writes it, for the layer, for the gateway, and for whoever has a [`Rejected`] to answer with.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Response, StatusCode};

use super::head::speaks_grpc;
use crate::classify::REFUSAL_HEADER;
use crate::rejection::{RejectReason, Rejected};

/// The HTTP status of a refusal. A closed limiter answers 503 in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalStatus {
    /// 503: the service cannot take it now. Balancers may turn to another instance.
    #[default]
    ServiceUnavailable,
    /// 429: the caller should slow down. Balancers and breakers do not take it for an outage.
    TooManyRequests,
}

/// The form of a refusal's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalBody {
    /// An object with `error` (always `"rejected"`), `limiter`, `class` (or null), `reason`, `limit`,
    /// `in_flight`, `queued`, `side`, `retry_after_ms` and `message`.
    #[default]
    Json,
    /// The text alone.
    Plain,
}

/// Which way the refused request was going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It came in to the service that has the limiter.
    Inbound,
    /// It was on its way out of the service that has the limiter.
    Outbound,
}

impl Side {
    /// The word used in refusals.
    pub const fn as_str(self) -> &'static str {
        match self {
            Side::Inbound => "inbound",
            Side::Outbound => "outbound",
        }
    }
}

/// How a refusal is written to a caller that does not speak gRPC, and which side says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusalForm {
    /// The HTTP status.
    pub status: RefusalStatus,
    /// The body.
    pub body: RefusalBody,
    /// Which way the request was going.
    pub side: Side,
}

/// A refusal as the response to a request with these headers: gRPC's own form when they speak gRPC (200,
/// with RESOURCE_EXHAUSTED in the head, or DEADLINE_EXCEEDED for the caller's own deadline, and
/// `grpc-retry-pushback-ms`), else status, `Retry-After` and a body. Both have the header
/// [`REFUSAL_HEADER`] with the reason.
pub fn refusal(rejected: &Rejected, request: &HeaderMap, form: RefusalForm) -> Response<Bytes> {
    let mut response = if speaks_grpc(request) { grpc(rejected, request, form.side) } else { http(rejected, form) };
    response.headers_mut().insert(REFUSAL_HEADER, HeaderValue::from_static(rejected.reason.as_str()));
    response
}

fn http(rejected: &Rejected, form: RefusalForm) -> Response<Bytes> {
    let (content_type, text) = match form.body {
        RefusalBody::Json => ("application/json", json(rejected, form.side)),
        RefusalBody::Plain => ("text/plain; charset=utf-8", format!("{} ({})\n", rejected, form.side.as_str())),
    };
    let mut response = Response::new(Bytes::from(text));
    *response.status_mut() = match form.status {
        _ if rejected.reason == RejectReason::Closed => StatusCode::SERVICE_UNAVAILABLE,
        RefusalStatus::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        RefusalStatus::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(RETRY_AFTER, HeaderValue::from(rejected.retry_after_secs()));
    // A refusal holds for this request at this moment.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// HTTP 200 and the status in the head: the only refusal that a gRPC client reads as one.
/// RESOURCE_EXHAUSTED, so that nobody takes it for an outage.
fn grpc(rejected: &Rejected, request: &HeaderMap, side: Side) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    let headers = response.headers_mut();
    let content_type = request.get(CONTENT_TYPE).cloned();
    headers.insert(CONTENT_TYPE, content_type.unwrap_or(HeaderValue::from_static("application/grpc")));
    let code = if rejected.reason == RejectReason::ClientDeadline { "4" } else { "8" };
    headers.insert("grpc-status", HeaderValue::from_static(code));
    let message = percent_encoded(&format!("{} ({})", rejected, side.as_str()));
    headers.insert("grpc-message", HeaderValue::try_from(message).expect("percent-encoded text is a header value"));
    headers.insert("grpc-retry-pushback-ms", HeaderValue::from(retry_after_ms(rejected)));
    response
}

fn json(rejected: &Rejected, side: Side) -> String {
    let class = rejected.class.as_ref().map_or("null".to_owned(), |class| Quoted(class).to_string());
    format!(
        "{{\"error\":\"rejected\",\"limiter\":{},\"class\":{class},\"reason\":\"{}\",\"limit\":{},\"in_flight\":{},\
         \"queued\":{},\"side\":\"{}\",\"retry_after_ms\":{},\"message\":{}}}\n",
        Quoted(&rejected.limiter),
        rejected.reason,
        rejected.limit,
        rejected.in_flight,
        rejected.queued,
        side.as_str(),
        retry_after_ms(rejected),
        Quoted(&rejected.to_string()),
    )
}

/// At least one: nobody is asked to come back in the same moment.
fn retry_after_ms(rejected: &Rejected) -> u64 {
    u64::try_from(rejected.retry_after.as_millis()).unwrap_or(u64::MAX).max(1)
}

type RenderBy = dyn Fn(&Rejected, &Parts) -> Response<Bytes> + Send + Sync;

/// How a layer writes refusals.
#[derive(Clone)]
pub(super) struct Refusal {
    pub(super) form: RefusalForm,
    pub(super) render_by: Option<Arc<RenderBy>>,
}

impl Refusal {
    pub(super) fn new(side: Side) -> Self {
        let form = RefusalForm { status: RefusalStatus::default(), body: RefusalBody::default(), side };
        Self { form, render_by: None }
    }

    pub(super) fn render(&self, rejected: &Rejected, request: &Parts) -> Response<Bytes> {
        match &self.render_by {
            Some(by) => by(rejected, request),
            None => refusal(rejected, &request.headers, self.form),
        }
    }
}

/// A JSON string. Names come from configs and callers, so everything that JSON minds is escaped.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c))?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// A gRPC message: printable ASCII stands for itself, `%` and all other bytes as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02X}").expect("a string takes everything"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;

    use super::*;
    use crate::rejection::Rejection;

    fn rejected(limiter: &str, reason: RejectReason) -> Rejected {
        Rejection {
            limiter: limiter.into(),
            class: Some("query".into()),
            reason,
            limit: 20,
            in_flight: 21,
            queued: 3,
            retry_after: Duration::from_millis(1200),
        }
        .into()
    }

    fn request(content_type: Option<&str>) -> Parts {
        let mut request = Request::builder();
        if let Some(value) = content_type {
            request = request.header(CONTENT_TYPE, value);
        }
        request.body(()).expect("a valid request").into_parts().0
    }

    #[test]
    fn json_names_everything_and_escapes_names() {
        let refusal = Refusal::new(Side::Inbound);
        let response = refusal.render(&rejected("pay\"ments\n", RejectReason::QueueFull), &request(None));
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()[RETRY_AFTER], "2");
        assert_eq!(response.headers()[REFUSAL_HEADER], "queue_full");
        let text = std::str::from_utf8(response.body()).expect("text");
        for part in [
            r#""limiter":"pay\"ments\u000a""#,
            r#""class":"query""#,
            r#""reason":"queue_full""#,
            r#""limit":20,"in_flight":21,"queued":3,"side":"inbound","retry_after_ms":1200"#,
        ] {
            assert!(text.contains(part), "{part} missing in {text}");
        }
    }

    #[test]
    fn status_and_form_are_as_configured() {
        let mut refusal = Refusal::new(Side::Outbound);
        refusal.form.status = RefusalStatus::TooManyRequests;
        refusal.form.body = RefusalBody::Plain;
        let full = refusal.render(&rejected("a", RejectReason::LimitReached), &request(None));
        assert_eq!(full.status(), 429);
        assert_eq!(full.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        assert!(full.body().ends_with(b"(outbound)\n"));
        let closed = refusal.render(&rejected("a", RejectReason::Closed), &request(None));
        assert_eq!(closed.status(), 503, "closed is never the caller's speed");
    }

    #[test]
    fn grpc_is_refused_in_its_own_words() {
        let refusal = Refusal::new(Side::Inbound);
        for content_type in ["application/grpc", "application/grpc+proto", "application/grpc-web"] {
            let response = refusal.render(&rejected("größe%", RejectReason::QueueFull), &request(Some(content_type)));
            assert_eq!((response.status().as_u16(), response.body().len()), (200, 0));
            let headers = response.headers();
            assert_eq!(headers[CONTENT_TYPE], content_type);
            assert_eq!(
                (&headers["grpc-status"], &headers["grpc-retry-pushback-ms"]),
                (&"8".parse().unwrap(), &"1200".parse().unwrap())
            );
            let message = headers["grpc-message"].to_str().expect("ASCII");
            assert!(message.contains("gr%C3%B6%C3%9Fe%25") && message.contains("limit 20"), "{message}");
            assert!(!headers.contains_key(RETRY_AFTER));
        }
    }

    #[test]
    fn the_callers_own_deadline_is_said_in_grpcs_words() {
        let late = Refusal::new(Side::Inbound)
            .render(&rejected("a", RejectReason::ClientDeadline), &request(Some("application/grpc")));
        assert_eq!(late.headers()["grpc-status"], "4");
    }

    #[test]
    fn an_own_renderer_replaces_all() {
        let mut refusal = Refusal::new(Side::Inbound);
        refusal.render_by = Some(Arc::new(|rejected, request| {
            let mut response = Response::new(Bytes::from(format!("{} {}", rejected.limiter, request.method)));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            response
        }));
        let response = refusal.render(&rejected("a", RejectReason::QueueFull), &request(Some("application/grpc")));
        assert_eq!((response.status().as_u16(), &response.body()[..]), (418, &b"a GET"[..]));
    }
}
