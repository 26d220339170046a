//! Upstreams that fail: each failure has its status, its outcome, and gives its place back.

use std::time::Duration;

use http::Response;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::harness::*;

/// A server that does with each connection whatever it is told.
async fn bare<F, Fut>(handler: F) -> std::net::SocketAddr
where
    F: Fn(TcpStream, usize) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut n = 0;
        while let Ok((tcp, _)) = listener.accept().await {
            n += 1;
            tokio::spawn(handler(tcp, n));
        }
    });
    address
}

async fn read_head(tcp: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.ok()?);
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_connections_are_faults_and_leak_no_place() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.expect("free port").local_addr().expect("bound");
    let gateway = Gateway::start(&fixed(2), nobody);
    for _ in 0..10 {
        let answer = get(gateway.address, "/").await;
        assert_eq!(answer.status(), 502, "{}", answer.text);
        assert_eq!(answer.json()["error"], "upstream_unreachable");
    }
    let now = gateway.limiter().await;
    assert_eq!((&now["finished"]["fault"], &now["in_flight"]), (&10.into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_takes_too_long_is_overload() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let config = fixed(2).replace("\n[limiters", "\nresponse_timeout = \"100ms\"\n[limiters");
    let gateway = Gateway::start(&config, upstream.address);
    for _ in 0..5 {
        let answer = get(gateway.address, "/").await;
        assert_eq!((answer.status(), &answer.json()["error"]), (504, &"upstream_response_timeout".into()));
    }
    upstream.inside.until("the end of the calls", |inside| inside.now() == 0).await;
    let now = gateway.limiter().await;
    assert_eq!((&now["finished"]["overloaded"], &now["in_flight"]), (&5.into(), &0.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_breaks_off_breaks_off_for_the_client_too() {
    let upstream = bare(|mut tcp, _| async move {
        read_head(&mut tcp).await;
        let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nevent\r\n").await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    })
    .await;
    let gateway = Gateway::start(&fixed(2), upstream);
    let answer = get(gateway.address, "/").await;
    assert!(answer.text.contains("event"), "{}", answer.text);
    assert!(!answer.text.contains("\r\n0\r\n"), "a tidy end: {}", answer.text);
    let now = gateway.until("the end", |now| now["in_flight"] == 0).await;
    assert_eq!(now["finished"]["fault"], 1, "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_stands_still_is_cut_off() {
    let upstream = Upstream::start(|_, _| async move {
        let (frames, body) = stream();
        tokio::spawn(async move {
            send(&frames, "begin").await;
            tokio::time::sleep(Duration::from_secs(600)).await;
            drop(frames);
        });
        Response::new(body)
    })
    .await;
    let config = fixed(2).replace("\n[limiters", "\nidle_timeout = \"1s\"\n[limiters");
    let gateway = Gateway::start(&config, upstream.address);
    let answer = get(gateway.address, "/").await;
    assert!(answer.text.contains("begin") && !answer.text.contains("\r\n0\r\n"), "{}", answer.text);
    gateway.until("the place back", |now| now["in_flight"] == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_that_may_have_been_done_is_never_sent_twice() {
    let (seen, mut posts) = tokio::sync::mpsc::unbounded_channel();
    // Serves the first request of a connection, then reads the second, acts, and closes without a word.
    let upstream = bare(move |mut tcp, _| {
        let seen = seen.clone();
        async move {
            read_head(&mut tcp).await;
            let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            if let Some(head) = read_head(&mut tcp).await {
                let _ = seen.send(head);
            }
        }
    })
    .await;
    let gateway = Gateway::start(&format!("[server]\nthreads = 1\n{}", fixed(2)), upstream);
    assert_eq!(get(gateway.address, "/").await.status(), 200);
    let post = "POST /pay HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let answer = raw(gateway.address, post).await;
    assert_eq!((answer.status(), &answer.json()["error"]), (502, &"upstream_broken".into()));
    assert!(posts.recv().await.is_some_and(|head| head.starts_with("POST /pay")));
    assert!(posts.try_recv().is_err(), "sent twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_closed_while_idle_costs_no_request() {
    let upstream = bare(|mut tcp, _| async move {
        read_head(&mut tcp).await;
        let _ = tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    })
    .await;
    let gateway = Gateway::start(&format!("[server]\nthreads = 1\n{}", fixed(2)), upstream);
    for _ in 0..50 {
        let post = "POST /pay HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(raw(gateway.address, post).await.status(), 200);
        // The close of the upstream's side has to arrive; nothing tells when it has.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn throttles_and_errors_of_the_upstream_are_passed_on_and_told_apart() {
    let upstream = Upstream::start(|request, _| async move {
        let mut response = Response::new(full(""));
        *response.status_mut() = request.uri().path()[1..].parse().expect("a status");
        response
    })
    .await;
    let gateway = Gateway::start(&fixed(2), upstream.address);
    for status in [200, 204, 301, 404, 429, 500] {
        assert_eq!(get(gateway.address, &format!("/{status}")).await.status(), status);
    }
    let finished = gateway.until("the end", |now| now["in_flight"] == 0).await["finished"].clone();
    let of = |outcome: &str| finished[outcome].as_u64().expect("a count");
    assert_eq!((of("success"), of("caller"), of("throttled"), of("fault")), (3, 1, 1, 1), "{finished}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_finish_its_head_is_let_go() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&format!("[server]\nheader_timeout = \"200ms\"\n{}", fixed(2)), upstream.address);
    for beginning in ["", "G", "GET / HTTP/1.1\r\nhost: a\r\nx-slow: ", "PRI * HT"] {
        let answer = raw(gateway.address, beginning).await;
        assert!(answer.text.is_empty() || answer.status() == 408, "{beginning}: {}", answer.text);
    }
    assert_eq!(upstream.inside.total(), 0);
}
