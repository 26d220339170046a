//! The tower layer under tonic, as it comes: the published health service over loopback, limited at
//! the server and at the client.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tidegate::ceiling::Ceiling;
use tidegate::client::Destination;
use tidegate::deadline::parse_grpc_timeout;
use tidegate::tower::LimitLayer;
use tidegate::{HoldOff, Limiter, Outcome};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::{Service, ServiceBuilder};

fn limiter(limit: u32) -> Limiter {
    Limiter::builder("grpc").bounds(limit, limit).waiting_room(100, Duration::from_secs(5)).build().unwrap()
}

/// The health service behind a limiter.
async fn serve(layer: LimitLayer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (reporter, service) = tonic_health::server::health_reporter();
    reporter.set_service_status("known", tonic_health::ServingStatus::Serving).await;
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(async move {
        let _reporter = reporter;
        Server::builder().layer(layer).add_service(service).serve_with_incoming(incoming).await
    });
    address
}

async fn connect(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn ask(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn until(what: &str, so: impl Fn() -> bool) {
    let long = tokio::time::timeout(Duration::from_secs(10), async {
        while !so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    assert!(long.await.is_ok(), "never: {what}");
}

fn count(limiter: &Limiter, outcome: Outcome) -> u64 {
    limiter.snapshot().finished.of(outcome)
}

#[tokio::test]
async fn a_server_counts_calls_by_their_grpc_status() {
    let limiter = limiter(4);
    let mut client = HealthClient::new(connect(serve(LimitLayer::new(limiter.clone())).await).await);
    assert_eq!(client.check(ask("known")).await.unwrap().into_inner().status, 1);
    assert_eq!(client.check(ask("unknown")).await.unwrap_err().code(), Code::NotFound);
    until("both ended", || limiter.snapshot().in_flight == 0).await;
    let finished = limiter.snapshot().finished;
    assert_eq!((finished.of(Outcome::Success), finished.of(Outcome::Caller), finished.total()), (1, 1, 2));
}

#[tokio::test]
async fn a_server_holds_a_stream_and_refuses_in_grpcs_own_words() {
    let limiter = limiter(1);
    let address = serve(LimitLayer::new(limiter.clone()).never_wait()).await;
    let mut client = HealthClient::new(connect(address).await);
    let mut watch = client.watch(ask("known")).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    assert_eq!(limiter.snapshot().in_flight, 1, "the stream lives");

    let refused = client.check(ask("known")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("limiter \"grpc\"") && refused.message().contains("limit 1"), "{refused:?}");
    let pushback: u64 = refused.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert!(pushback >= 1);

    drop(watch);
    until("the stream that was dropped is over", || limiter.snapshot().in_flight == 0).await;
    client.check(ask("known")).await.unwrap();
}

#[tokio::test]
async fn a_client_channel_is_limited_unchanged() {
    let (outbound, inbound) = (limiter(1), limiter(10));
    let channel = connect(serve(LimitLayer::new(inbound.clone())).await).await;
    let layer = LimitLayer::client(outbound.clone()).never_wait();
    let mut client = HealthClient::new(ServiceBuilder::new().layer(layer.clone()).service(channel.clone()));
    client.check(ask("known")).await.unwrap();
    assert_eq!(client.check(ask("unknown")).await.unwrap_err().code(), Code::NotFound);
    until("both ended", || outbound.snapshot().in_flight == 0).await;
    assert_eq!((count(&outbound, Outcome::Success), count(&outbound, Outcome::Caller)), (1, 1));

    let mut watch = client.watch(ask("known")).await.unwrap().into_inner();
    watch.message().await.unwrap().unwrap();
    let refused = client.check(ask("known")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("outbound"), "{refused:?}");
    let arrived = inbound.snapshot().finished.total() + u64::from(inbound.snapshot().in_flight);
    assert_eq!(arrived, 3, "two checks and a watch; the refused call did not leave");
    drop(watch);
    until("the watch is over", || outbound.snapshot().in_flight == 0).await;
}

#[tokio::test]
async fn a_servers_refusal_is_overload_to_the_clients_limiter() {
    let (outbound, inbound) = (limiter(10), limiter(1));
    let channel = connect(serve(LimitLayer::new(inbound.clone()).never_wait()).await).await;
    let mut client =
        HealthClient::new(ServiceBuilder::new().layer(LimitLayer::client(outbound.clone())).service(channel));
    let held = inbound.try_acquire().unwrap();
    assert_eq!(client.check(ask("known")).await.unwrap_err().code(), Code::ResourceExhausted);
    assert_eq!(count(&outbound, Outcome::Overloaded), 1);
    held.finish(Outcome::Success);
}

#[tokio::test]
async fn a_clients_calls_are_charged_and_a_spent_ceiling_refuses_in_grpcs_own_words() {
    let (outbound, inbound) = (limiter(10), limiter(10));
    let channel = connect(serve(LimitLayer::new(inbound.clone())).await).await;
    let ceiling = Ceiling::builder("grpc").rate(0.1).burst(2).build().unwrap();
    let to = Destination::new(outbound.clone()).ceiling(ceiling.clone());
    let layer = LimitLayer::to(to).never_wait();
    let mut client = HealthClient::new(ServiceBuilder::new().layer(layer).service(channel));
    client.check(ask("known")).await.unwrap();
    client.check(ask("known")).await.unwrap();
    let refused = client.check(ask("known")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let pushback: u64 = refused.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap().parse().unwrap();
    assert!((1..=10_000).contains(&pushback), "one in ten seconds: {pushback}");
    assert_eq!((ceiling.snapshot().consumed, inbound.snapshot().finished.total()), (2, 2), "it did not leave");
}

#[tokio::test]
async fn a_servers_pushback_is_waited_for_by_the_next_call() {
    let (outbound, inbound) = (limiter(10), limiter(1));
    // As a server of somebody else's would say it: a refusal of tidegate's own holds nobody else.
    let layer = LimitLayer::new(inbound.clone()).never_wait().render(|_, _| {
        let refusal = http::Response::builder().header("content-type", "application/grpc").header("grpc-status", "8");
        refusal.header("grpc-retry-pushback-ms", "300").body(bytes::Bytes::new()).unwrap()
    });
    let channel = connect(serve(layer).await).await;
    let hold_off = HoldOff::builder("grpc").build();
    let to = Destination::new(outbound.clone()).hold_off(hold_off.clone());
    let mut client = HealthClient::new(ServiceBuilder::new().layer(LimitLayer::to(to)).service(channel));
    let held = inbound.try_acquire().unwrap();
    assert_eq!(client.check(ask("known")).await.unwrap_err().code(), Code::ResourceExhausted);
    held.finish(Outcome::Success);
    let left = hold_off.remaining("").expect("the server said when to come back");
    let began = Instant::now();
    client.check(ask("known")).await.unwrap();
    assert!(began.elapsed() + Duration::from_millis(50) >= left, "it waited: {:?} of {left:?}", began.elapsed());
    assert_eq!(inbound.snapshot().rejected_total(), 1);
}

/// Hands the `grpc-timeout` of each request to the test.
#[derive(Clone)]
struct Noting<S>(S, tokio::sync::mpsc::UnboundedSender<Option<Duration>>);

impl<S: Service<http::Request<B>>, B> Service<http::Request<B>> for Noting<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> S::Future {
        let told = request.headers().get("grpc-timeout").and_then(|value| parse_grpc_timeout(value.to_str().unwrap()));
        let _ = self.1.send(told);
        self.0.call(request)
    }
}

#[tokio::test]
async fn what_is_left_of_a_calls_time_is_what_goes_out() {
    let (outbound, inbound) = (limiter(1), limiter(10));
    let channel = connect(serve(LimitLayer::new(inbound.clone())).await).await;
    let (notes, mut noted) = tokio::sync::mpsc::unbounded_channel();
    let layer = LimitLayer::to(Destination::new(outbound.clone()));
    let mut client = HealthClient::new(ServiceBuilder::new().layer(layer).service(Noting(channel, notes)));
    let held = outbound.try_acquire().unwrap();
    let mut request = tonic::Request::new(ask("known"));
    request.set_timeout(Duration::from_secs(20));
    let call = tokio::spawn(async move { client.check(request).await });
    until("it waits", || outbound.snapshot().queued == 1).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    held.finish(Outcome::Success);
    call.await.unwrap().unwrap();
    let left = noted.recv().await.unwrap().expect("a timeout");
    assert!(left <= Duration::from_millis(19_950) && left > Duration::from_secs(10), "{left:?}");
}

#[tokio::test]
async fn a_call_that_comes_too_late_is_refused_on_arrival() {
    let inbound = limiter(10);
    let mut client = HealthClient::new(connect(serve(LimitLayer::new(inbound.clone())).await).await);
    let mut request = tonic::Request::new(ask("known"));
    request.metadata_mut().insert("grpc-timeout", "0n".parse().unwrap());
    assert!(client.check(request).await.is_err());
    assert_eq!(inbound.snapshot().finished.total(), 0);
}
