//! What the layer makes of answers whose meaning is not in their heads, and how it holds off.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::{Request, Response};
use tidegate::law::Fixed;
use tidegate::tower::{LimitLayer, LimitedBody, PermitEnd};
use tidegate::{HoldOff, Limiter, Outcome, RejectReason};
use tower::{Layer, ServiceExt, service_fn};

type Parts = Vec<&'static [u8]>;
type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::io::Error>;

fn limiter() -> Limiter {
    Limiter::builder("test").bounds(1, 10).initial(10).law(Box::new(Fixed)).build().expect("valid")
}

fn answer(status: u16, headers: &[(&'static str, &'static str)], parts: Parts, breaks: bool) -> Response<Body> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    let frames = parts.into_iter().map(|part| Ok(Frame::data(Bytes::from_static(part))));
    let end = breaks.then(|| Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)));
    response.body(StreamBody::new(stream::iter(frames.chain(end))).boxed_unsync()).expect("a valid response")
}

async fn ask(layer: &LimitLayer, answer: impl Fn() -> Response<Body> + Clone) -> Response<LimitedBody<Body>> {
    let service = service_fn(move |_: Request<()>| {
        let answer = answer();
        async move { Ok::<_, Infallible>(answer) }
    });
    layer.layer(service).oneshot(Request::new(())).await.expect("infallible")
}

fn only(limiter: &Limiter, outcome: Outcome) {
    let now = limiter.snapshot();
    assert_eq!((now.in_flight, now.finished.total(), now.finished.of(outcome)), (0, 1, 1), "{:?}", now.finished);
}

#[tokio::test]
async fn a_body_is_read_as_it_passes_and_passes_unchanged() {
    let quota: Parts = vec![b"{\"error\":{\"code\":\"insuff", b"icient_quota\"}}"];
    let throttled: Parts = vec![b"{\"__type\":\"Throttling", b"Exception\"}"];
    let bulk: Parts = vec![b"{\"UnprocessedItems\":{\"t\":[{}]}}"];
    let json = ("content-type", "application/x-amz-json-1.0");
    for (status, headers, parts, outcome) in [
        (429, vec![], quota, Outcome::Exhausted),
        (400, vec![], throttled, Outcome::Throttled),
        (400, vec![], vec![&b"{}"[..]], Outcome::Caller),
        (200, vec![json], bulk, Outcome::Throttled),
        (200, vec![json], vec![&b"{}"[..]], Outcome::Success),
    ] {
        let limiter = limiter();
        let whole: Vec<u8> = parts.concat();
        let response =
            ask(&LimitLayer::new(limiter.clone()), move || answer(status, &headers, parts.clone(), false)).await;
        let body = response.into_body().collect().await.expect("no error").to_bytes();
        assert_eq!(body, whole, "{status}");
        only(&limiter, outcome);
    }
}

#[tokio::test]
async fn nothing_is_looked_at_when_told_so() {
    let limiter = limiter();
    let layer = LimitLayer::new(limiter.clone()).peek(0);
    let response = ask(&layer, || answer(429, &[], vec![b"insufficient_quota"], false)).await;
    response.into_body().collect().await.expect("no error");
    only(&limiter, Outcome::Throttled);
}

#[tokio::test]
async fn an_error_inside_a_stream_that_began_well_is_pressure() {
    const STREAM: &[(&str, &str)] = &[("content-type", "text/event-stream; charset=utf-8")];
    let event = "event: message_start\ndata: {}\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Überlastet\"}}\n\n";
    // In the middle of a character.
    let (one, two) = event.as_bytes().split_at(event.find("Ü").expect("there") + 1);
    for breaks in [false, true] {
        let limiter = limiter();
        let response =
            ask(&LimitLayer::new(limiter.clone()), move || answer(200, STREAM, vec![one, two], breaks)).await;
        assert_eq!(limiter.snapshot().in_flight, 1);
        let mut body = response.into_body();
        let mut passed = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            passed.extend_from_slice(&frame.into_data().expect("data"));
        }
        assert_eq!(passed, event.as_bytes());
        only(&limiter, Outcome::Overloaded);
    }
    // A client that has read the error leaves: the stream's end is never seen.
    let left = limiter();
    let response =
        ask(&LimitLayer::new(left.clone()), move || answer(200, STREAM, vec![one, two, b":\n"], false)).await;
    let mut body = response.into_body();
    for _ in 0..2 {
        body.frame().await.expect("a frame").expect("no error");
    }
    drop(body);
    only(&left, Outcome::Overloaded);
    let limiter = limiter();
    let response = ask(&LimitLayer::new(limiter.clone()), || answer(200, STREAM, vec![b"data: {}\n\n"], false)).await;
    response.into_body().collect().await.expect("no error");
    only(&limiter, Outcome::Success);
}

#[tokio::test]
async fn a_refusal_whose_body_nobody_reads_is_one_all_the_same() {
    let limiter = limiter();
    let response = ask(&LimitLayer::new(limiter.clone()), || answer(429, &[], vec![b"slow down"], false)).await;
    drop(response);
    only(&limiter, Outcome::Throttled);
}

#[tokio::test]
async fn a_refusal_holds_off_however_its_body_ends() {
    const WAIT: &[(&str, &str)] = &[("retry-after", "5")];
    for end in [PermitEnd::Head, PermitEnd::FirstByte, PermitEnd::BodyEnd] {
        for (parts, breaks) in
            [(vec![], true), (vec![&b"slow"[..], b" down"], true), (vec![&b"slow"[..], b" down"], false)]
        {
            let (limiter, hold_off) = (limiter(), HoldOff::builder("partner").build());
            let layer = LimitLayer::new(limiter.clone()).hold_off(hold_off.clone()).permit_end(end);
            let (what, sent) = (format!("{end:?} {parts:?} {breaks}"), parts.clone());
            let response = ask(&layer, move || answer(429, WAIT, sent.clone(), breaks)).await;
            let read = response.into_body().collect().await;
            assert_eq!(read.is_err(), breaks, "{what}");
            assert!(hold_off.remaining("").is_some(), "{what}");
            only(&limiter, Outcome::Throttled);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_layer_holds_off_by_key_and_says_so() {
    let (limiter, hold_off) = (limiter(), HoldOff::builder("partner").build());
    let layer = LimitLayer::client(limiter.clone())
        .hold_off(hold_off.clone())
        .key_by(|parts| parts.headers.get("account").and_then(|value| value.to_str().ok()).unwrap_or("").into());
    let service = service_fn(|request: Request<()>| async move {
        let refused = request.uri().path() == "/refused";
        let (status, headers): (_, &[_]) = if refused { (429, &[("retry-after", "5")]) } else { (200, &[]) };
        Ok::<_, Infallible>(answer(status, headers, vec![b"x"], false))
    });
    let send = |path: &'static str, account: &'static str| {
        let request = Request::builder().uri(path).header("account", account).body(()).expect("valid");
        let service = layer.layer(service);
        async move { service.oneshot(request).await.expect("a response") }
    };
    send("/refused", "acme").await.into_body().collect().await.expect("read");
    let held = send("/", "acme").await;
    assert_eq!((held.status().as_u16(), &held.headers()["tidegate-rejected"]), (503, &"hold_off".parse().unwrap()));
    let after: u64 = held.headers()["retry-after"].to_str().unwrap().parse().expect("seconds");
    assert!((5..=7).contains(&after), "{after}");
    assert_eq!(send("/", "other").await.status(), 200);
    assert_eq!(limiter.snapshot().rejected(RejectReason::HoldOff), 1);
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(send("/", "acme").await.status(), 200);
}

#[tokio::test]
async fn a_grpc_stream_that_fails_in_its_trailers_counts_once() {
    for (code, outcome) in [("8", Outcome::Overloaded), ("0", Outcome::Success), ("14", Outcome::Fault)] {
        let limiter = limiter();
        let service = service_fn(move |_: Request<()>| async move {
            let trailers = hyper::HeaderMap::from_iter([(
                hyper::header::HeaderName::from_static("grpc-status"),
                hyper::header::HeaderValue::from_static(code),
            )]);
            let body = Full::new(Bytes::from_static(b"message")).with_trailers(async move { Some(Ok(trailers)) });
            Ok::<_, Infallible>(
                Response::builder().header("content-type", "application/grpc").body(body).expect("valid"),
            )
        });
        let layer = LimitLayer::new(limiter.clone());
        let response = layer.layer(service).oneshot(Request::new(())).await.expect("infallible");
        response.into_body().collect().await.expect("no error");
        only(&limiter, outcome);
    }
}
