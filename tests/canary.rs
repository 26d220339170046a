//! A process that is overloaded itself: the canary notices, and the limiter acts whatever the downstream says.
#![allow(clippy::disallowed_methods, reason = "a test may read the clock")]

use std::time::{Duration, Instant};

use tidegate::law::{Fixed, Reason};
use tidegate::{Canary, Limiter, Outcome};

/// Keeps the runtime busy for `spell` at a time, for ever, and passes a request through in between.
async fn hog(limiter: Limiter, spell: Duration) {
    loop {
        let permits: Vec<_> = (0..8).map_while(|_| limiter.try_acquire().ok()).collect();
        std::thread::sleep(spell);
        for permit in permits {
            permit.finish(Outcome::Success);
        }
        tokio::task::yield_now().await;
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_runtime_that_is_late_all_the_time_cuts_the_limit_though_every_answer_is_good() {
    let canary = Canary::start(Duration::from_millis(10));
    let limiter = Limiter::builder("search")
        .bounds(2, 100)
        .initial(50)
        .law(Box::new(Fixed))
        .canary(&canary)
        .build()
        .expect("good settings");
    let hog = tokio::spawn(hog(limiter.clone(), Duration::from_millis(25)));
    until("the limit falls", || limiter.snapshot().limit < 8).await;
    assert!(canary.delay() >= Duration::from_millis(10), "{:?}", canary.delay());
    assert!(limiter.decisions().iter().any(|record| record.reason == Reason::ShrinkLocal));
    hog.abort();
    until("the runtime is on time again", || canary.delay() < Duration::from_millis(10)).await;
}

#[tokio::test]
async fn without_a_threshold_lateness_is_measured_and_moves_nothing() {
    let canary = Canary::new(1);
    drop(tokio::spawn(canary.watch(0)));
    let limiter = Limiter::builder("search").initial(50).law(Box::new(Fixed)).canary(&canary).build().expect("good");
    let hog = tokio::spawn(hog(limiter.clone(), Duration::from_millis(25)));
    until("the delay shows", || canary.delay() >= Duration::from_millis(10)).await;
    until("windows close", || limiter.decisions().len() > 3).await;
    assert_eq!(limiter.snapshot().limit, 50);
    hog.abort();
}
