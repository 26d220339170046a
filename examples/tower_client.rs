//! An HTTP client behind a limiter: however many tasks call, no more than the limit are on their way,
//! and a downstream that says "too fast" is asked for less.
//!
//! Run: `cargo run --example tower_client --features tower`. It ends by itself.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate::tower::LimitLayer;
use tidegate::{Limiter, Outcome, Rejected};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, ServiceExt};

/// A partner that answers 429 when more than ten of our calls are there at once.
fn partner(peak: Arc<AtomicUsize>) -> Router {
    let busy = Arc::new(AtomicUsize::new(0));
    Router::new().route(
        "/",
        get(move || async move {
            let now = busy.fetch_add(1, Ordering::SeqCst) + 1;
            peak.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            busy.fetch_sub(1, Ordering::SeqCst);
            if now > 10 { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK }
        }),
    )
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let peak = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn({
        let partner = partner(peak.clone());
        async move { axum::serve(listener, partner).await }
    });

    let limiter =
        Limiter::builder("partner").bounds(1, 50).initial(20).waiting_room(100, Duration::from_secs(2)).build()?;
    let client = ServiceBuilder::new()
        .layer(LimitLayer::client(limiter.clone()).refuse_by_error())
        .service(Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>());

    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..60 {
        let client = client.clone();
        tasks.spawn(async move {
            for _ in 0..30 {
                let request = Request::get(format!("http://{address}/")).body(Empty::new()).expect("a valid request");
                match client.clone().oneshot(request).await {
                    // Reading the body to its end is what gives the place back.
                    Ok(response) => drop(response.into_body().collect().await),
                    Err(error) => match error.downcast_ref::<Rejected>() {
                        Some(rejected) => println!("did not leave this process: {rejected}"),
                        None => println!("failed: {error}"),
                    },
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
    let now = limiter.snapshot();
    println!(
        "served {}, throttled {}; at most {} at once; limit now {}",
        now.finished.of(Outcome::Success),
        now.finished.of(Outcome::Throttled),
        peak.load(Ordering::SeqCst),
        now.limit,
    );
    server.abort();
    Ok(())
}
