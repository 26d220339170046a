//! The tower layer under tonic, as it comes: the published health service over loopback, limited at
//! the server and at the client.

use std::net::SocketAddr;
use std::time::Duration;

use tidegate::tower::LimitLayer;
use tidegate::{Limiter, Outcome};
use tokio::net::TcpListener;
use tonic::Code;
use tonic::transport::{Channel, Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceBuilder;

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
