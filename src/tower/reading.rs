//! Reads an answer on its way: its head, its bytes as they pass, its trailers. Holds nothing up.
//!
//! Most answers are told by their heads. A native gRPC answer is told by its trailers. Of others a
//! bounded part of the body is looked at, and only when a rule that could match asks for it: errors,
//! a few kinds of good answers that may hide a refusal, and event streams, which may end in an error.

use http::header::{CONTENT_ENCODING, HeaderMap};
use http::{Response, StatusCode};

use super::head::{content_type, is_grpc, is_grpc_web};
use crate::classify::peek::{Events, Peek, WebTrailers};
use crate::classify::{Classifier, Headers, Seen, Verdict};
use crate::clock::wall;
use crate::outcome::Outcome;

/// How many bytes of a body are looked at when nothing else is said.
pub const DEFAULT_PEEK: usize = 4096;

/// An answer being read. To be told everything that passes, and asked at the end.
#[derive(Debug)]
pub struct Reading {
    /// Not needed any more when the head told of a success.
    table: Option<Classifier>,
    told: Told,
}

#[derive(Debug)]
enum Told {
    /// The head has told all.
    Head { seen: Seen, headers: Option<Box<HeaderMap>>, outcome: Outcome },
    /// A gRPC answer that looks well so far; its status comes in the trailers.
    InTrailers,
    /// The body has to be seen too.
    Body(Box<Looked>),
    /// An event stream that began well.
    Events(Box<Listened>),
    /// A gRPC-Web answer that looks well so far; its status comes at the body's end.
    InBody(Box<WebTrailers>),
}

#[derive(Debug)]
struct Looked {
    seen: Seen,
    headers: HeaderMap,
    blind: Outcome,
    peek: Peek,
}

#[derive(Debug)]
struct Listened {
    headers: HeaderMap,
    events: Events,
}

impl Reading {
    /// Begins with the head. Of the body, at most `most` bytes are kept at its beginning and as many at
    /// its end; 0 looks at none.
    pub fn of<B>(table: &Classifier, response: &Response<B>, most: usize) -> Self {
        let (status, headers) = (response.status(), response.headers());
        let told = Told::by(table, status, headers, most);
        let is_done = matches!(told, Told::Head { outcome: Outcome::Success, .. });
        Self { table: (!is_done).then(|| table.clone()), told }
    }

    /// The outcome as far as it is known now; a body or trailers may change it.
    pub fn so_far(&self) -> Outcome {
        match &self.told {
            Told::Head { outcome, .. } => *outcome,
            Told::InTrailers | Told::InBody(_) => Outcome::Success,
            // Clients leave at the error, so the end of the stream may never be seen.
            Told::Events(stream) => match (&self.table, stream.events.found()) {
                (Some(table), Some(error)) => table.judge(Seen::Event, &stream.headers, &error, wall()).outcome,
                _ => Outcome::Success,
            },
            Told::Body(body) => body.blind,
        }
    }

    /// Whether bytes or trailers may change the outcome.
    pub fn is_open(&self) -> bool {
        !matches!(self.told, Told::Head { .. })
    }

    /// Whether only what stands behind the last byte tells the outcome.
    pub(super) fn waits_for_trailers(&self) -> bool {
        matches!(self.told, Told::InTrailers)
    }

    /// Bytes of the body pass.
    pub fn bytes(&mut self, bytes: &[u8]) {
        match &mut self.told {
            Told::Body(body) => body.peek.push(bytes),
            Told::Events(stream) => stream.events.push(bytes),
            Told::InBody(trailers) => trailers.push(bytes),
            Told::Head { .. } | Told::InTrailers => {}
        }
    }

    /// The answer is over, with these trailers or none: what it meant.
    pub fn end(&mut self, trailers: Option<&HeaderMap>) -> Verdict<'_> {
        let Self { table, told } = self;
        let Some(table) = table else { return Verdict::of(Outcome::Success) };
        match told {
            Told::Head { seen, headers, .. } => match headers {
                Some(headers) => table.judge(*seen, &**headers, message(headers), wall()),
                None => table.judge(*seen, &(), "", wall()),
            },
            Told::InTrailers => match trailers.and_then(|trailers| Some((grpc_code(trailers)?, trailers))) {
                Some((code, trailers)) => table.judge(Seen::Grpc(code), trailers, message(trailers), wall()),
                None => table.judge(Seen::GrpcWithoutStatus, &(), "", wall()),
            },
            Told::Body(body) => table.judge(body.seen, &body.headers, &body.peek.text(), wall()),
            Told::InBody(inside) => {
                let fields = &inside.fields()[..];
                match fields.value("grpc-status") {
                    Some(code) => {
                        let seen = Seen::Grpc(code.parse().unwrap_or(2));
                        table.judge(seen, fields, fields.value("grpc-message").unwrap_or(""), wall())
                    }
                    None => table.judge(Seen::GrpcWithoutStatus, &(), "", wall()),
                }
            }
            Told::Events(stream) => match stream.events.error() {
                Some(error) => table.judge(Seen::Event, &stream.headers, &error, wall()),
                None => Verdict::of(Outcome::Success),
            },
        }
    }

    /// The answer broke off. A refusal that was read before counts; what looked well is a fault.
    pub fn broke(&mut self) -> Verdict<'_> {
        let is_error = match &self.told {
            Told::InTrailers | Told::InBody(_) => false,
            Told::Head { outcome, .. } => *outcome != Outcome::Success,
            Told::Body(_) | Told::Events(_) => true,
        };
        let fault = Verdict::of(Outcome::Fault);
        if !is_error {
            return fault;
        }
        let verdict = self.end(None);
        if verdict.outcome == Outcome::Success { fault } else { verdict }
    }
}

impl Told {
    fn by(table: &Classifier, status: StatusCode, headers: &HeaderMap, most: usize) -> Self {
        let mut seen = Seen::Http(status.as_u16());
        if status == StatusCode::OK && is_grpc(headers) {
            match grpc_code(headers) {
                Some(code) => seen = Seen::Grpc(code),
                None => return Told::InTrailers,
            }
        } else if most > 0 && !headers.contains_key(CONTENT_ENCODING) {
            let kind = content_type(headers);
            if status == StatusCode::OK && is_grpc_web(kind) {
                match grpc_code(headers) {
                    Some(code) => seen = Seen::Grpc(code),
                    None => return Told::InBody(Box::new(WebTrailers::new(most))),
                }
            } else if kind.starts_with("text/event-stream") {
                if status == StatusCode::OK && table.wants_text(Seen::Event, headers) {
                    let stream = Listened { headers: headers.clone(), events: Events::new(most) };
                    return Told::Events(Box::new(stream));
                }
            } else if table.wants_text(seen, headers) {
                let blind = table.classify_seen(seen, headers);
                return Told::Body(Box::new(Looked { seen, headers: headers.clone(), blind, peek: Peek::new(most) }));
            }
        }
        let outcome = match seen {
            Seen::Grpc(code) => table.classify_grpc(code, message(headers), headers),
            _ => table.classify_seen(seen, headers),
        };
        // Good answers need no second look; of the others the waits are in the headers.
        Told::Head { seen, headers: (outcome != Outcome::Success).then(|| Box::new(headers.clone())), outcome }
    }
}

/// A status that is no number is UNKNOWN, as gRPC libraries read it.
fn grpc_code(fields: &HeaderMap) -> Option<u32> {
    let code = fields.get("grpc-status")?;
    Some(code.to_str().ok().and_then(|code| code.trim().parse().ok()).unwrap_or(2))
}

fn message(fields: &HeaderMap) -> &str {
    fields.value("grpc-message").unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRPC: (&str, &str) = ("content-type", "application/grpc");

    fn reading(status: u16, headers: &[(&'static str, &'static str)]) -> Reading {
        let mut response = Response::builder().status(status);
        for (name, value) in headers {
            response = response.header(*name, *value);
        }
        Reading::of(&Classifier::default(), &response.body(()).expect("a valid response"), DEFAULT_PEEK)
    }

    #[test]
    fn heads_of_every_kind() {
        let end = |status, headers: &[_]| reading(status, headers).end(None).outcome;
        assert!(reading(200, &[GRPC]).waits_for_trailers());
        assert_eq!(reading(200, &[GRPC]).so_far(), Outcome::Success);
        assert_eq!(end(200, &[GRPC]), Outcome::Fault, "a status is missing");
        assert_eq!(end(200, &[GRPC, ("grpc-status", "0")]), Outcome::Success);
        assert_eq!(end(200, &[GRPC, ("grpc-status", "8")]), Outcome::Overloaded);
        assert_eq!(end(200, &[GRPC, ("grpc-status", "eight")]), Outcome::Fault);
        let large = ("grpc-message", "received message larger than max (5 vs. 4)");
        assert_eq!(end(200, &[GRPC, ("grpc-status", "8"), large]), Outcome::Caller);
        assert_eq!(end(429, &[GRPC]), Outcome::Throttled);
        assert_eq!(end(200, &[("grpc-status", "8")]), Outcome::Success, "not gRPC");
    }

    #[test]
    fn grpc_web_is_told_by_the_end_of_its_body() {
        let web = ("content-type", "application/grpc-web+proto");
        let mut refused = reading(200, &[web]);
        refused.bytes(b"\0\0\0\0\x01x\x80\0\0\0\x0fgrpc-status: 8\r");
        assert_eq!((refused.so_far(), refused.end(None).outcome), (Outcome::Success, Outcome::Overloaded));
        let mut well = reading(200, &[web]);
        well.bytes(b"\x80\0\0\0\x0fgrpc-status: 0\r");
        assert_eq!(well.end(None).outcome, Outcome::Success);
        assert_eq!(reading(200, &[web]).end(None).outcome, Outcome::Fault, "a status is missing");
        assert_eq!(reading(200, &[web, ("grpc-status", "8")]).end(None).outcome, Outcome::Overloaded);
        assert!(!reading(200, &[("content-type", "application/grpc-web-text")]).is_open(), "base64 is not read");
    }

    #[test]
    fn a_body_is_looked_at_only_where_it_could_matter() {
        assert!(!reading(200, &[("content-type", "application/json")]).is_open());
        assert!(reading(200, &[("content-type", "application/x-amz-json-1.1")]).is_open());
        assert!(reading(429, &[]).is_open());
        assert!(!reading(429, &[("content-encoding", "gzip")]).is_open(), "it cannot be read");
        assert!(!reading(503, &[("tidegate-rejected", "queue_full")]).is_open());
    }

    #[test]
    fn a_body_that_is_still_to_come_leaves_the_heads_verdict() {
        let mut reading = reading(429, &[("retry-after", "3")]);
        assert_eq!(reading.so_far(), Outcome::Throttled);
        reading.bytes(br#"{"error":{"code":"insufficient_"#);
        assert_eq!(reading.end(None).outcome, Outcome::Throttled);
        reading.bytes(br#"quota"}}"#);
        assert_eq!(reading.end(None).outcome, Outcome::Exhausted);
    }

    #[test]
    fn what_breaks_off_is_a_fault_unless_it_was_a_refusal() {
        let stream = ("content-type", "text/event-stream");
        assert_eq!(reading(200, &[]).broke().outcome, Outcome::Fault);
        assert_eq!(reading(200, &[stream]).broke().outcome, Outcome::Fault);
        assert_eq!(reading(200, &[GRPC]).broke().outcome, Outcome::Fault);
        assert_eq!(reading(429, &[]).broke().outcome, Outcome::Throttled);
        let mut overloaded = reading(200, &[stream]);
        overloaded.bytes(b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n");
        assert_eq!(overloaded.so_far(), Outcome::Overloaded, "a client may leave at the error");
        assert_eq!(overloaded.broke().outcome, Outcome::Overloaded);
    }
}
