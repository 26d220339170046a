//! A reqwest client with all that stands before a partner: a limit, a rate, a hold-off, retries.
//!
//! ```text
//! cargo run --example reqwest_client --features reqwest -- 2000 http://127.0.0.1:9000/
//! ```
//!
//! Without an address it starts a partner of its own, which allows 100 requests a second and refuses
//! the rest with 429 and a Retry-After. It prints what passed, and what each part has learned.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tidegate::ceiling::Ceiling;
use tidegate::client::Destination;
use tidegate::client::reqwest::{Chain, RetryMiddleware};
use tidegate::retry::RetryPolicy;
use tidegate::tower::LimitLayer;
use tidegate::{HoldOff, Limiter};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Only needed where another feature brings TLS into reqwest.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut args = std::env::args().skip(1);
    let calls: u64 = args.next().map_or(Ok(400), |n| n.parse())?;
    let url = match args.next() {
        Some(url) => url,
        None => partner().await?,
    };

    let limiter = Limiter::builder("partner").bounds(1, 50).waiting_room(1000, Duration::from_secs(30)).build()?;
    let ceiling = Ceiling::builder("partner").rate(200.0).burst(10).bounds(5.0, 1000.0).build()?;
    let hold_off = HoldOff::builder("partner").cap(Duration::from_secs(10)).build();
    let partner = Destination::new(limiter.clone()).ceiling(ceiling.clone()).hold_off(hold_off.clone());
    let client = Chain::new(LimitLayer::to(partner))
        .retry(RetryMiddleware::new(RetryPolicy::default().attempts(5)))
        .build(reqwest::Client::builder())?;

    let (good, refused) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let workers: Vec<_> = (0..20)
        .map(|worker| {
            let (client, url, good, refused) = (client.clone(), url.clone(), good.clone(), refused.clone());
            tokio::spawn(async move {
                for _ in (worker..calls).step_by(20) {
                    match client.get(&url).send().await {
                        Ok(response) if response.status().is_success() => good.fetch_add(1, Ordering::Relaxed),
                        Ok(response) => {
                            println!("answered {}", response.status());
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                        Err(error) => {
                            println!("failed: {error:?}");
                            refused.fetch_add(1, Ordering::Relaxed)
                        }
                    };
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await?;
    }
    let (rate, waits) = (ceiling.snapshot(), hold_off.snapshot());
    println!("{} calls good, {} not", good.load(Ordering::Relaxed), refused.load(Ordering::Relaxed));
    println!(
        "{} attempts, {} of them throttled; the rate is now {:.0}/s",
        rate.consumed - rate.refunded,
        rate.throttled,
        rate.rate
    );
    println!("limit {}, holds capped {}", limiter.snapshot().limit, waits.capped);
    Ok(())
}

/// Allows 100 requests a second.
async fn partner() -> std::io::Result<String> {
    let allowed = Arc::new(AtomicU64::new(10));
    let filling = allowed.clone();
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        loop {
            ticks.tick().await;
            let _ = filling.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < 10).then_some(n + 1));
        }
    });
    let serve = move || {
        let taken = allowed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
        async move {
            match taken {
                Ok(_) => (StatusCode::OK, [("retry-after", "0")]),
                Err(_) => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "0.05")]),
            }
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(serve))).await });
    Ok(url)
}
