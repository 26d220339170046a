//! Upgraded connections pass, hold their place while they live, and give it back however they end.

use std::time::Duration;

use http::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::*;

/// Accepts every upgrade and echoes; a line "bye" makes it close.
async fn echo() -> Upstream {
    Upstream::start(|mut request, inside| async move {
        let visit = inside.enter();
        let upgrade = hyper::upgrade::on(&mut request);
        let protocol = request.headers().get("upgrade").cloned().expect("asked for");
        tokio::spawn(async move {
            let _visit = visit;
            let Ok(upgraded) = upgrade.await else { return };
            let mut io = TokioIo::new(upgraded);
            let mut buffer = [0; 1024];
            while let Ok(n @ 1..) = io.read(&mut buffer).await {
                if buffer.starts_with(b"bye") || io.write_all(&buffer[..n]).await.is_err() {
                    return;
                }
            }
        });
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response.headers_mut().insert("upgrade", protocol);
        response.headers_mut().insert("connection", "upgrade".parse().expect("value"));
        response
    })
    .await
}

async fn open(gateway: &Gateway) -> Result<TcpStream, String> {
    let mut tcp = TcpStream::connect(gateway.address).await.expect("listening");
    let head = "GET /ws HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\r\n";
    tcp.write_all(head.as_bytes()).await.expect("taken");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tokio::time::timeout(PATIENCE, tcp.read_u8()).await.expect("an answer").expect("open"));
    }
    let head = String::from_utf8_lossy(&head).to_ascii_lowercase();
    if head.starts_with("http/1.1 101") && head.contains("upgrade: websocket") { Ok(tcp) } else { Err(head) }
}

async fn say(tcp: &mut TcpStream, text: &str) {
    tcp.write_all(text.as_bytes()).await.expect("taken");
    let mut echoed = vec![0; text.len()];
    tokio::time::timeout(PATIENCE, tcp.read_exact(&mut echoed)).await.expect("echoed").expect("open");
    assert_eq!(echoed, text.as_bytes());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_holds_its_place_while_it_lives_and_gives_it_back_however_it_ends() {
    let upstream = echo().await;
    let gateway = Gateway::start(&fixed(3), upstream.address);
    for round in 0..10 {
        let mut sockets = Vec::new();
        for _ in 0..3 {
            let mut socket = open(&gateway).await.expect("accepted");
            say(&mut socket, "hello").await;
            sockets.push(socket);
        }
        assert!(open(&gateway).await.is_err_and(|head| head.starts_with("http/1.1 503")), "the fourth");
        assert_eq!(gateway.limiter().await["in_flight"], 3);
        for (i, mut socket) in sockets.into_iter().enumerate() {
            match (round + i) % 3 {
                0 => socket.shutdown().await.expect("open"),
                1 => drop(socket.set_zero_linger()),
                _ => socket.write_all(b"bye").await.expect("taken"),
            }
        }
        gateway.until("all places back", |now| now["in_flight"] == 0).await;
    }
    upstream.inside.until("the end of the sockets", |inside| inside.now() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_vanished_is_let_go_after_the_idle_time() {
    let upstream = echo().await;
    let config = fixed(1).replace("\n[limiters", "\nidle_timeout = \"1s\"\n[limiters");
    let gateway = Gateway::start(&config, upstream.address);
    let mut vanished = open(&gateway).await.expect("accepted");
    say(&mut vanished, "hello").await;
    // It stays open here, and says nothing more.
    gateway.until("the place back", |now| now["in_flight"] == 0).await;
    assert!(open(&gateway).await.is_ok());
    drop(vanished);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_that_the_upstream_declines_is_an_ordinary_answer() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&fixed(1), upstream.address);
    let head = open(&gateway).await.expect_err("declined");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    gateway.until("the place back", |now| now["in_flight"] == 0).await;
}
