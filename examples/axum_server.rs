//! An axum server behind a limiter, and a crowd that overloads it for a moment.
//!
//! Run: `cargo run --example axum_server --features tower`. It ends by itself; the first two parts
//! are what a service needs.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use http_body_util::Empty;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tidegate::Limiter;
use tidegate::tower::{LimitLayer, RefusalStatus};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// The slow thing behind the server: four at a time, 20 ms each.
async fn report(Extension(workers): Extension<Arc<Semaphore>>) -> &'static str {
    let _worker = workers.acquire().await.expect("it is never closed");
    tokio::time::sleep(Duration::from_millis(20)).await;
    "a report\n"
}

fn app(limiter: Limiter) -> Router {
    let layer = LimitLayer::new(limiter)
        .refusal_status(RefusalStatus::TooManyRequests)
        .exempt(|request| request.uri.path() == "/healthz");
    Router::new()
        .route("/report", get(report))
        .route("/healthz", get(|| async { "fine\n" }))
        .layer(Extension(Arc::new(Semaphore::new(4))))
        .layer(layer)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let limiter =
        Limiter::builder("reports").bounds(2, 64).initial(8).waiting_room(8, Duration::from_millis(200)).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = tokio::spawn({
        let app = app(limiter.clone());
        async move { axum::serve(listener, app).await }
    });

    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let client = client.clone();
        crowd.spawn(async move {
            let (mut served, mut refused) = (0, 0);
            for _ in 0..20 {
                let response = client.get(format!("http://{address}/report").parse()?).await?;
                if response.status().is_success() {
                    served += 1;
                } else {
                    refused += 1;
                    // A caller that minds Retry-After would wait for a second or more.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>((served, refused))
        });
    }
    let (mut served, mut refused) = (0, 0);
    while let Some(one) = crowd.join_next().await {
        let (s, r) = one??;
        (served, refused) = (served + s, refused + r);
    }
    let healthy = client.get(format!("http://{address}/healthz").parse()?).await?.status();
    let now = limiter.snapshot();
    println!("served {served}, refused {refused}; health probe: {healthy}");
    println!("limit {} (bounds {:?}), typical latency {:?}", now.limit, now.bounds, now.typical_latency);
    server.abort();
    Ok(())
}
