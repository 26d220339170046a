//! A tonic server behind a limiter. A stream holds its place while it lives, so the second caller
//! is refused in gRPC's own words.
//!
//! Run: `cargo run --example tonic_server --features tower`. It ends by itself. The service is the
//! published health service, so that no protoc is needed.

use std::error::Error;

use tidegate::tower::LimitLayer;
use tidegate::{Limiter, Outcome};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Endpoint, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tower::ServiceBuilder;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let inbound = Limiter::builder("inbound").bounds(1, 1).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (_reporter, health) = tonic_health::server::health_reporter();
    let server = tokio::spawn({
        let layer = LimitLayer::new(inbound.clone()).never_wait();
        Server::builder().layer(layer).add_service(health).serve_with_incoming(TcpIncoming::from(listener))
    });

    // A client may have a limiter as well; it learns from the statuses that come back.
    let outbound = Limiter::builder("outbound").bounds(1, 100).build()?;
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    let channel = ServiceBuilder::new().layer(LimitLayer::client(outbound.clone())).service(channel);
    let mut client = HealthClient::new(channel);

    let everything = HealthCheckRequest { service: String::new() };
    let mut watch = client.watch(everything.clone()).await?.into_inner();
    println!("watching: {:?}", watch.message().await?.map(|news| news.status()));
    match client.check(everything.clone()).await {
        Ok(_) => return Err("the stream should have kept the only place".into()),
        Err(status) => println!("refused: {:?}, {}", status.code(), status.message()),
    }
    drop(watch);
    while inbound.snapshot().in_flight > 0 {
        tokio::task::yield_now().await;
    }
    println!("after the stream: {:?}", client.check(everything).await?.into_inner().status());
    let seen = outbound.snapshot().finished;
    println!(
        "to the client's limiter: {} good, {} overloaded",
        seen.of(Outcome::Success),
        seen.of(Outcome::Overloaded)
    );
    server.abort();
    Ok(())
}
