//! The limiter by itself, around a call of your own. Run: `cargo run --example embed`.

use std::time::Duration;

use tidegate::{Admit, Limiter, Outcome, Rejected};

/// Stands for a database that answers two requests at a time.
async fn query(limiter: &Limiter, n: u32) -> Result<u32, Rejected> {
    let permit = limiter.acquire(Admit::new().class("query")).await?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    permit.finish(Outcome::Success);
    Ok(n * n)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = Limiter::builder("database").bounds(1, 2).waiting_room(3, Duration::from_millis(500)).build()?;

    // Ten at once: two are served, three wait, five are told why not.
    let calls = (0..10).map(|n| query(&limiter, n));
    for answer in futures_util::future::join_all(calls).await {
        match answer {
            Ok(square) => println!("answer: {square}"),
            Err(rejected) => println!("refused: {rejected}"),
        }
    }

    // Without waiting, and without an outcome: a dropped permit counts as cancelled.
    drop(limiter.try_acquire()?);
    let now = limiter.snapshot();
    println!("limit {}, in flight {}", now.limit, now.in_flight);
    for outcome in [Outcome::Success, Outcome::Cancelled] {
        println!("{outcome}: {}", now.finished.of(outcome));
    }
    Ok(())
}
