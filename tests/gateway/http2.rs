//! HTTP/2 on either side: trailers, gRPC's statuses and refusals, many streams on one connection.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::body::Frame;

use super::harness::*;

fn grpc(path: &str) -> Request<Body> {
    let request = Request::post(format!("http://ranker{path}")).header("content-type", "application/grpc");
    request.header("te", "trailers").body(full(Bytes::from_static(b"\0\0\0\0\0"))).expect("valid")
}

/// Unary with trailers, or an error in the head alone.
async fn grpc_upstream() -> Upstream {
    Upstream::start(|request, inside| async move {
        let _visit = inside.enter();
        assert_eq!(request.headers().get("te").map(|te| te.as_bytes()), Some(&b"trailers"[..]));
        let builder = Response::builder().header("content-type", "application/grpc");
        match request.uri().path() {
            "/wait" => {
                tokio::time::sleep(Duration::from_secs(600)).await;
                builder.body(full(""))
            }
            "/missing" => builder.header("grpc-status", "5").header("grpc-message", "no such thing").body(full("")),
            path => {
                let code = if path == "/exhausted" { "8" } else { "0" };
                let _ = request.into_body().collect().await;
                let (frames, body) = stream();
                tokio::spawn(async move {
                    send(&frames, "\0\0\0\0\u{1}x").await;
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", code.parse().expect("value"));
                    trailers.insert("x-custom", "kept".parse().expect("value"));
                    let _ = frames.send(Ok(Frame::trailers(trailers))).await;
                });
                builder.body(body)
            }
        }
        .expect("valid")
    })
    .await
}

fn grpc_config(n: u32) -> String {
    fixed(n).replace("\n[limiters", "\nhttp2 = true\n[limiters")
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_statuses_and_trailers_arrive_intact_and_are_judged() {
    let upstream = grpc_upstream().await;
    let gateway = Gateway::start(&grpc_config(4), upstream.address);
    let mut client = http2(gateway.address).await;
    let response = client.send_request(grpc("/good")).await.expect("an answer");
    let whole = response.into_body().collect().await.expect("whole");
    let trailers = whole.trailers().expect("trailers");
    assert_eq!((trailers["grpc-status"].as_bytes(), trailers["x-custom"].as_bytes()), (&b"0"[..], &b"kept"[..]));
    assert_eq!(whole.to_bytes(), Bytes::from_static(b"\0\0\0\0\x01x"));

    let response = client.send_request(grpc("/missing")).await.expect("an answer");
    assert_eq!((response.status().as_u16(), response.headers()["grpc-status"].as_bytes()), (200, &b"5"[..]));
    let response = client.send_request(grpc("/exhausted")).await.expect("an answer");
    response.into_body().collect().await.expect("whole");
    let finished = gateway.until("the end", |now| now["in_flight"] == 0).await["finished"].clone();
    assert_eq!((&finished["caller"], &finished["overloaded"]), (&1.into(), &1.into()), "{finished}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_grpc_call_gets_a_grpc_answer_without_body() {
    let upstream = grpc_upstream().await;
    let gateway = Gateway::start(&grpc_config(1), upstream.address);
    let mut client = http2(gateway.address).await;
    let waiting = client.send_request(grpc("/wait"));
    let waiting = tokio::spawn(waiting);
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    let response = client.send_request(grpc("/good")).await.expect("an answer");
    let headers = response.headers();
    assert_eq!((response.status().as_u16(), headers["grpc-status"].as_bytes()), (200, &b"8"[..]));
    assert_eq!(headers["content-type"], "application/grpc");
    assert!(headers["grpc-message"].to_str().expect("text").contains("limit"));
    assert!(headers["grpc-retry-pushback-ms"].to_str().expect("text").parse::<u64>().is_ok_and(|ms| ms > 0));
    assert!(http_body::Body::is_end_stream(response.body()), "trailers only");
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_deadline_shorter_than_the_queue_wins_and_is_named() {
    let upstream = grpc_upstream().await;
    let config = format!("{}queue = {{ length = 5, wait = \"10m\" }}\n", grpc_config(1));
    let gateway = Gateway::start(&config, upstream.address);
    let mut client = http2(gateway.address).await;
    let waiting = tokio::spawn(client.send_request(grpc("/wait")));
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    let mut request = grpc("/good");
    request.headers_mut().insert("grpc-timeout", "300m".parse().expect("value"));
    let response = client.send_request(request).await.expect("an answer");
    let reason = response.headers()["tidegate-rejected"].to_str().expect("text").to_owned();
    assert!(reason == "client_deadline" || reason == "deadline_unmeetable", "{reason}");
    gateway.until("nobody waits", |now| now["queued"] == 0).await;
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_share_one_connection_within_the_limit() {
    let upstream = Upstream::slow(Duration::from_millis(20)).await;
    let config = format!("{}queue = {{ length = 200, wait = \"20s\" }}\n", grpc_config(5));
    let gateway = Gateway::start(&config, upstream.address);
    let client = http2(gateway.address).await;
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move {
                let request = Request::get("http://a/").body(full("")).expect("valid");
                let response = client.send_request(request).await.expect("an answer");
                response.into_body().collect().await.expect("whole").to_bytes()
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.expect("ran"), "hello");
    }
    assert!(upstream.inside.peak() <= 5, "{}", upstream.inside.peak());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_cancelled_streams_leaks_nothing() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let gateway = Gateway::start(&fixed(8), upstream.address);
    for _ in 0..20 {
        let mut client = http2(gateway.address).await;
        for _ in 0..50 {
            let request = Request::get("http://a/").body(full("")).expect("valid");
            let call = client.send_request(request);
            if tokio::time::timeout(Duration::ZERO, call).await.is_ok_and(|answer| answer.is_err()) {
                break;
            }
        }
    }
    gateway.until("all places back", |now| now["in_flight"] == 0).await;
    upstream.inside.until("the end of the calls", |inside| inside.now() == 0).await;
}
