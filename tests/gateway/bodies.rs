//! Bodies in both directions: refused early without a reset, limited, streamed, torn down.

use std::time::Duration;

use http::Response;
use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::*;

const LARGE: usize = 20 << 20;

async fn full_gateway() -> (Upstream, Gateway, tokio::task::JoinHandle<Answer>) {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let gateway = Gateway::start(&fixed(1), upstream.address);
    let holder = tokio::spawn(get(gateway.address, "/"));
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    (upstream, gateway, holder)
}

/// Sends the whole body before it reads a byte, as a simple client does.
async fn post(gateway: &Gateway, head: &str, chunked: bool) -> Answer {
    let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
    tcp.write_all(head.as_bytes()).await.expect("taken");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..LARGE / piece.len() {
        if chunked {
            tcp.write_all(b"100000\r\n").await.expect("taken");
        }
        tcp.write_all(&piece).await.expect("not reset");
        if chunked {
            tcp.write_all(b"\r\n").await.expect("taken");
        }
    }
    if chunked {
        tcp.write_all(b"0\r\n\r\n").await.expect("taken");
    }
    read_all(tcp).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_upload_sees_its_refusal_and_no_reset() {
    let (_upstream, gateway, holder) = full_gateway().await;
    for round in 0..10 {
        let chunked = round % 2 == 1;
        let length = if chunked { "transfer-encoding: chunked".to_owned() } else { format!("content-length: {LARGE}") };
        let head = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{length}\r\n\r\n");
        let answer = post(&gateway, &head, chunked).await;
        assert_eq!(answer.status(), 503, "{}", answer.text);
        assert!(answer.header("retry-after").is_some() && answer.tidy, "{}", answer.head());
    }
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_http2_upload_sees_its_refusal_and_the_connection_lives_on() {
    let (_upstream, gateway, holder) = full_gateway().await;
    let mut client = http2(gateway.address).await;
    for _ in 0..3 {
        let request = http::Request::post("http://a/").body(full(vec![b'x'; LARGE])).expect("valid");
        let response = client.send_request(request).await.expect("an answer");
        assert_eq!(response.status(), 503);
        let body = response.into_body().collect().await.expect("whole").to_bytes();
        assert!(String::from_utf8_lossy(&body).contains("limit_reached"));
        client.ready().await.expect("no GOAWAY");
    }
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_expects_continue_gets_the_refusal_instead() {
    let (_upstream, gateway, holder) = full_gateway().await;
    let head = "POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    let answer = raw(gateway.address, head).await;
    assert_eq!(answer.status(), 503, "{}", answer.text);
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_expects_continue_gets_it_when_admitted() {
    let upstream = Upstream::start(|request, _| async move {
        assert!(request.headers().get("expect").is_none());
        Response::new(full(request.into_body().collect().await.expect("whole").to_bytes()))
    })
    .await;
    let gateway = Gateway::start(&fixed(1), upstream.address);
    let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
    let head = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.expect("taken");
    let mut interim = [0; 25];
    tcp.read_exact(&mut interim).await.expect("100 Continue");
    assert!(interim.starts_with(b"HTTP/1.1 100 Continue\r\n"));
    tcp.write_all(b"hello").await.expect("taken");
    assert_eq!(read_all(tcp).await.body(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_above_the_limit_is_the_callers_mistake() {
    let upstream = Upstream::start(|request, _| async move {
        let _ = request.into_body().collect().await;
        Response::new(full("read"))
    })
    .await;
    let config = format!("[server]\nbody_limit = \"1MiB\"\n{}", fixed(4));
    let gateway = Gateway::start(&config, upstream.address);
    let announced = format!("POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: {LARGE}\r\n\r\n");
    assert_eq!(post(&gateway, &announced, false).await.status(), 413);
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n";
    assert_eq!(post(&gateway, chunked, true).await.status(), 413);
    let now = gateway.until("the end", |now| now["in_flight"] == 0).await;
    assert_eq!((&now["finished"]["caller"], &now["finished"]["fault"]), (&1.into(), &0.into()), "{now}");
    let small = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    assert_eq!(raw(gateway.address, small).await.body(), "read");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_flow_in_both_directions_while_they_are_made() {
    let upstream = Upstream::start(|mut request, _| async move {
        let (frames, body) = stream();
        tokio::spawn(async move {
            while let Some(Ok(frame)) = request.body_mut().frame().await {
                if frames.send(Ok(frame)).await.is_err() {
                    return;
                }
            }
        });
        Response::new(body)
    })
    .await;
    let gateway = Gateway::start(&fixed(1), upstream.address);
    let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
    tcp.write_all(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n").await.expect("taken");
    let mut seen = String::new();
    for word in ["one", "two", "six"] {
        tcp.write_all(format!("3\r\n{word}\r\n").as_bytes()).await.expect("taken");
        while !seen.contains(word) {
            let mut buffer = [0; 1024];
            let n = tokio::time::timeout(PATIENCE, tcp.read(&mut buffer)).await.expect("echoed").expect("open");
            assert!(n > 0, "closed after {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_ends_the_upstream_call() {
    // Streaming and not, HTTP/1.1 and HTTP/2 towards the upstream.
    for (path, http2) in [("/stream", false), ("/wait", false), ("/stream", true), ("/wait", true)] {
        let upstream = Upstream::start(|request, inside| async move {
            let visit = inside.enter();
            if request.uri().path() == "/wait" {
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            let (frames, body) = stream();
            tokio::spawn(async move {
                let _visit = visit;
                while send(&frames, "token\n").await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            Response::new(body)
        })
        .await;
        let config = fixed(1).replace("\n[limiters", &format!("\nhttp2 = {http2}\n[limiters"));
        let gateway = Gateway::start(&config, upstream.address);
        let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
        tcp.write_all(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes()).await.expect("taken");
        upstream.inside.until("the call", |inside| inside.now() == 1).await;
        if path == "/stream" {
            tcp.read_exact(&mut [0; 40]).await.expect("some of it");
        }
        drop(tcp);
        upstream.inside.until("the end of the call", |inside| inside.now() == 0).await;
        let now = gateway.until("the place back", |now| now["in_flight"] == 0).await;
        assert_eq!(now["finished"]["fault"], 0, "{path} {http2} {now}");
        if path == "/wait" {
            assert_eq!(now["finished"]["cancelled"], 1, "{now}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_reads_nothing_does_not_hold_its_place_for_ever() {
    let upstream = Upstream::start(|_, inside| async move {
        let visit = inside.enter();
        let (frames, body) = stream();
        tokio::spawn(async move {
            let _visit = visit;
            let piece = bytes::Bytes::from(vec![b'x'; 1 << 20]);
            while frames.send(Ok(hyper::body::Frame::data(piece.clone()))).await.is_ok() {}
        });
        Response::new(body)
    })
    .await;
    let gateway = Gateway::start(&format!("[server]\nidle_timeout = \"1s\"\n{}", fixed(1)), upstream.address);
    let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
    tcp.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("taken");
    upstream.inside.until("the call", |inside| inside.now() == 1).await;
    gateway.until("the place back", |now| now["in_flight"] == 0).await;
    upstream.inside.until("the end of the call", |inside| inside.now() == 0).await;
}
