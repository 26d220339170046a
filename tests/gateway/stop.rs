//! Told to stop, the gateway takes no new work, finishes what it has, and ends in bounded time.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn requests_under_way_finish_and_new_ones_find_nobody() {
    let upstream = Upstream::slow(Duration::from_millis(600)).await;
    let mut gateway = Gateway::start(&fixed(4), upstream.address);
    // A kept-alive connection with nothing to do must not hold it up.
    let mut idle = TcpStream::connect(gateway.address).await.expect("listening");
    idle.write_all(b"GET /first HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("taken");
    upstream.inside.until("the first", |inside| inside.total() == 1 && inside.now() == 0).await;
    let address = gateway.address;
    let request = tokio::spawn(async move { get(address, "/").await });
    upstream.inside.until("the request", |inside| inside.now() == 1).await;
    gateway.signal("TERM");
    let answer = request.await.expect("ran");
    assert_eq!((answer.status(), answer.body()), (200, "hello"), "{}", answer.text);
    assert_eq!(gateway.ended().await, 0, "{}", gateway.log());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_goes_first_and_the_drain_time_bounds_the_end() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let mut gateway = Gateway::start(&format!("[server]\ndrain = \"1s\"\n{}", fixed(1)), upstream.address);
    assert_eq!(get(gateway.admin, "/health/ready").await.status(), 200);
    let holder = tokio::spawn(get(gateway.address, "/"));
    upstream.inside.until("the request", |inside| inside.now() == 1).await;
    gateway.signal("TERM");
    let began = std::time::Instant::now();
    while get(gateway.admin, "/health/ready").await.status() != 503 {
        assert!(began.elapsed() < PATIENCE);
    }
    assert_eq!(get(gateway.admin, "/health/live").await.status(), 200);
    assert_eq!(gateway.ended().await, 0, "{}", gateway.log());
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_still_waits_at_the_end_is_told_so() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let config = format!("[server]\ndrain = \"500ms\"\n{}queue = {{ length = 5, wait = \"5m\" }}\n", fixed(1));
    let mut gateway = Gateway::start(&config, upstream.address);
    let address = gateway.address;
    let holder = tokio::spawn(get(address, "/"));
    upstream.inside.until("the holder", |inside| inside.now() == 1).await;
    let waiter = tokio::spawn(get(address, "/"));
    gateway.until("the waiter", |now| now["queued"] == 1).await;
    gateway.signal("TERM");
    let answer = waiter.await.expect("ran");
    assert_eq!((answer.status(), answer.header("tidegate-rejected")), (503, Some("closed")), "{}", answer.text);
    assert_eq!(gateway.ended().await, 0);
    assert_eq!(upstream.inside.total(), 1, "no call was made for the waiter");
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn told_twice_it_ends_at_once() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let mut gateway = Gateway::start(&format!("[server]\ndrain = \"1h\"\n{}", fixed(1)), upstream.address);
    let holder = tokio::spawn(get(gateway.address, "/"));
    upstream.inside.until("the request", |inside| inside.now() == 1).await;
    gateway.signal("INT");
    let began = std::time::Instant::now();
    while get(gateway.admin, "/health/ready").await.status() != 503 {
        assert!(began.elapsed() < PATIENCE);
    }
    gateway.signal("INT");
    assert_eq!(gateway.ended().await, 0);
    holder.abort();
}
