//! One process of the backfill: 50 workers behind one ceiling, each with an item until it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate::ceiling::{RedisStore, Sharing};
use tidegate::client::Destination;
use tidegate::client::reqwest::Chain;
use tidegate::tower::LimitLayer;
use tidegate::{Breaker, Ceiling, Classifier, Limiter, Mode, Outcome};

const WORKERS: usize = 50;

pub(crate) async fn run(url: &str, redis: Option<u16>, span: Duration) -> Result<(), Box<dyn std::error::Error>> {
    // Only needed where another feature brings TLS into reqwest.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ceiling = Ceiling::builder("partner").rate(100.0).burst(10).bounds(1.0, 100.0);
    let ceiling = match redis {
        None => ceiling.build()?,
        Some(port) => {
            let store = RedisStore::builder(format!("redis://127.0.0.1:{port}")).build("partner")?;
            let (ceiling, driver) = ceiling.build_shared(store, Sharing::new().members(4))?;
            tokio::spawn(driver.run());
            ceiling
        }
    };
    // Only the rate counts here: the limiter stands aside.
    let limiter = Limiter::builder("partner").mode(Mode::Off).build()?;
    let layer = LimitLayer::to(Destination::new(limiter).ceiling(ceiling.clone()));
    let client = Chain::new(layer).build(reqwest::Client::builder())?;
    let breaker = Breaker::builder("partner").build();
    let (done, pruned) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for _ in 0..WORKERS {
        let (client, url, breaker) = (client.clone(), url.to_owned(), breaker.clone());
        let (done, pruned) = (done.clone(), pruned.clone());
        tokio::spawn(async move {
            loop {
                let outcome = call(&client, &url, &breaker).await;
                match outcome {
                    Outcome::Success => done.fetch_add(1, Ordering::Relaxed),
                    // Only what is wrong with the item itself may be thrown away: a throttle is not.
                    Outcome::Caller => pruned.fetch_add(1, Ordering::Relaxed),
                    _ => 0,
                };
            }
        });
    }
    tokio::time::sleep(span).await;
    println!(
        "  a process: {} items done, {} pruned, breaker opened {} times, rate {:.1}/s by {}",
        done.load(Ordering::Relaxed),
        pruned.load(Ordering::Relaxed),
        breaker.opened(),
        ceiling.snapshot().rate,
        ceiling.snapshot().source,
    );
    Ok(())
}

/// One attempt, and what it means.
async fn call(client: &reqwest_middleware::ClientWithMiddleware, url: &str, breaker: &Breaker) -> Outcome {
    let Ok(call) = breaker.try_call() else { return Outcome::Cancelled };
    let outcome = match client.get(url).send().await {
        Ok(response) => Classifier::default().classify_head(response.status().as_u16(), &()),
        // A refusal of our own: the wait for the rate was too long.
        Err(_) => Outcome::Cancelled,
    };
    call.end(outcome);
    outcome
}
