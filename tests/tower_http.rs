//! The tower layer under real servers and clients over loopback: axum, plain hyper, hyper-util's
//! client, upgraded connections and clients that leave.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Empty, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use tidegate::tower::{LimitLayer, UpgradeGuard};
use tidegate::{Limiter, Outcome};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::{Layer, ServiceExt};

fn limiter(limit: u32) -> Limiter {
    Limiter::builder("http").bounds(limit, limit).waiting_room(100, Duration::from_secs(5)).build().unwrap()
}

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Waits until it is so; a test that hangs here fails.
async fn until(what: &str, so: impl Fn() -> bool) {
    let long = tokio::time::timeout(Duration::from_secs(10), async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(long.await.is_ok(), "never: {what}");
}

fn in_flight(limiter: &Limiter) -> u32 {
    limiter.snapshot().in_flight
}

/// Headers at once, then a chunk now and then, without an end.
async fn endless() -> Body {
    let (mut sender, body) = http_body_util::channel::Channel::<Bytes, Infallible>::new(1);
    tokio::spawn(async move {
        while sender.send_data(Bytes::from_static(b"tick\n")).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    Body::new(body)
}

/// Sends a GET over a connection of its own and reads the first bytes of the answer.
async fn open(address: SocketAddr, path: &str, more_headers: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n{more_headers}\r\n").as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let read = stream.read(&mut answer).await.unwrap();
    answer.truncate(read);
    (stream, String::from_utf8(answer).unwrap())
}

#[tokio::test]
async fn an_axum_router_counts_streams_until_their_clients_leave() {
    let limiter = limiter(2);
    let router = Router::new().route("/", get(endless)).layer(LimitLayer::new(limiter.clone()).never_wait());
    let address = serve(router).await;
    let (one, first) = open(address, "/", "").await;
    let (_two, second) = open(address, "/", "").await;
    assert!(first.starts_with("HTTP/1.1 200") && second.starts_with("HTTP/1.1 200"));
    let (_, third) = open(address, "/", "").await;
    assert!(third.starts_with("HTTP/1.1 503") && third.contains("retry-after: "), "{third}");
    drop(one);
    until("the place of the client that left is free", || in_flight(&limiter) == 1).await;
    assert!(open(address, "/", "").await.1.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_layer_on_one_route_limits_all_connections_together() {
    let limiter = limiter(1);
    let limited = get(endless).layer(LimitLayer::new(limiter.clone()).never_wait());
    let address = serve(Router::new().route("/limited", limited).route("/free", get(|| async { "free" }))).await;
    let (_held, first) = open(address, "/limited", "").await;
    assert!(first.starts_with("HTTP/1.1 200"));
    for _ in 0..3 {
        assert!(open(address, "/limited", "").await.1.starts_with("HTTP/1.1 503"));
        assert!(open(address, "/free", "").await.1.starts_with("HTTP/1.1 200"));
    }
}

#[tokio::test]
async fn after_disconnects_time_outs_and_panics_nothing_is_in_flight() {
    let limiter = limiter(8);
    let router = Router::new()
        .route("/stream", get(endless))
        .route(
            "/panic",
            get(|| async {
                if true {
                    panic!("on purpose")
                }
            }),
        )
        .route("/slow", get(std::future::pending::<()>))
        .layer(LimitLayer::new(limiter.clone()));
    let address = serve(router).await;
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..90 {
        clients.spawn(async move {
            let path = ["/stream", "/panic", "/slow"][n % 3];
            // A panic closes the connection, a slow answer is given up.
            let call = async {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
                let mut some = [0; 64];
                let _ = stream.read(&mut some).await;
            };
            let _ = tokio::time::timeout(Duration::from_millis(100), call).await;
        });
    }
    while clients.join_next().await.is_some() {}
    until("all is idle", || in_flight(&limiter) == 0 && limiter.snapshot().queued == 0).await;
}

/// Answers 101 and echoes; keeps the guard with the connection, if told so.
fn upgrading(keep: bool) -> Router {
    let handler = move |mut request: Request| async move {
        let guard = request.extensions_mut().remove::<UpgradeGuard>();
        let guard = guard.filter(|_| keep);
        tokio::spawn(async move {
            let upgraded = hyper::upgrade::on(&mut request).await.unwrap();
            drop(request);
            let (mut read, mut write) = tokio::io::split(TokioIo::new(upgraded));
            let _ = tokio::io::copy(&mut read, &mut write).await;
            drop(guard);
        });
        Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header("connection", "upgrade")
            .header("upgrade", "echo")
            .body(Body::empty())
            .unwrap()
    };
    Router::new().route("/", get(handler))
}

const UPGRADE: &str = "connection: upgrade\r\nupgrade: echo\r\n";

#[tokio::test]
async fn an_upgraded_connection_keeps_its_permit_and_gives_it_back_however_it_ends() {
    let limiter = limiter(2);
    let address = serve(upgrading(true).layer(LimitLayer::new(limiter.clone()).never_wait())).await;
    for round in 0..30 {
        let (mut one, answer) = open(address, "/", UPGRADE).await;
        assert!(answer.starts_with("HTTP/1.1 101"), "round {round}: {answer}");
        let (two, _) = open(address, "/", UPGRADE).await;
        one.write_all(b"still there").await.unwrap();
        let mut echo = [0; 11];
        one.read_exact(&mut echo).await.unwrap();
        assert_eq!((&echo, in_flight(&limiter)), (b"still there", 2));
        assert!(open(address, "/", UPGRADE).await.1.starts_with("HTTP/1.1 503"));
        // One ends in order, the other by a reset.
        one.shutdown().await.unwrap();
        two.set_zero_linger().unwrap();
        drop((one, two));
        until("both sockets are gone", || in_flight(&limiter) == 0).await;
    }
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.finished.of(Outcome::Success), snapshot.finished.total()), (60, 60));
}

#[tokio::test]
async fn without_the_guard_an_upgrade_counts_until_its_head_is_sent() {
    let limiter = limiter(1);
    let address = serve(upgrading(false).layer(LimitLayer::new(limiter.clone()).never_wait())).await;
    let (_socket, answer) = open(address, "/", UPGRADE).await;
    assert!(answer.starts_with("HTTP/1.1 101"));
    until("the permit ended with the head", || in_flight(&limiter) == 0).await;
}

#[tokio::test]
async fn a_clients_upgrade_carries_the_guard_in_its_response() {
    let address = serve(upgrading(true)).await;
    let limiter = limiter(1);
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let service = LimitLayer::client(limiter.clone()).layer(client);
    let request = Request::builder()
        .uri(format!("http://{address}/"))
        .header("connection", "upgrade")
        .header("upgrade", "echo")
        .body(Empty::new())
        .unwrap();
    let mut response = service.oneshot(request).await.unwrap();
    let guard = response.extensions_mut().remove::<UpgradeGuard>().unwrap();
    let upgraded = hyper::upgrade::on(response).await.unwrap();
    assert!(guard.is_holding());
    assert_eq!(in_flight(&limiter), 1);
    drop((upgraded, guard));
    assert_eq!(in_flight(&limiter), 0);
}

#[tokio::test]
async fn connections_that_are_refused_leave_room_for_the_next() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let limiter = limiter(2);
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let service = LimitLayer::client(limiter.clone()).never_wait().layer(client);
    for _ in 0..6 {
        let request = Request::get(format!("http://{nobody}/")).body(Full::default()).unwrap();
        assert!(service.clone().oneshot(request).await.is_err());
    }
    let snapshot = limiter.snapshot();
    assert_eq!((snapshot.in_flight, snapshot.finished.of(Outcome::Fault), snapshot.rejected_total()), (0, 6, 0));

    let address = serve(Router::new().route("/", get(|| async { "here" }))).await;
    let request = Request::get(format!("http://{address}/")).body(Full::default()).unwrap();
    let response = service.oneshot(request).await.unwrap();
    assert_eq!(response.collect().await.unwrap().to_bytes(), "here");
    assert_eq!(limiter.snapshot().finished.of(Outcome::Success), 1);
}

#[tokio::test]
async fn plain_hyper_serves_both_versions_of_http_through_the_layer() {
    let limiter = limiter(4);
    let service = LimitLayer::new(limiter.clone()).layer(tower::service_fn(
        |request: http::Request<hyper::body::Incoming>| async move {
            let version = format!("{:?}", request.version());
            Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(version))))
        },
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    for (http2, version) in [(false, "HTTP/1.1"), (true, "HTTP/2.0")] {
        let client = Client::builder(TokioExecutor::new()).http2_only(http2).build_http::<Full<Bytes>>();
        let request = Request::get(format!("http://{address}/")).body(Full::default()).unwrap();
        let body = client.request(request).await.unwrap().collect().await.unwrap().to_bytes();
        assert_eq!(body, version);
    }
    until("both are counted", || limiter.snapshot().finished.of(Outcome::Success) == 2).await;
    assert_eq!(in_flight(&limiter), 0);
}
