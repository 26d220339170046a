//! What a local ceiling promises: exact, fair, changeable, cancel-safe.
#![expect(clippy::disallowed_methods, reason = "tests measure")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::ceiling::{Ceiling, InvalidCeiling};
use tidegate::{Outcome, RejectReason};
use tokio::time::{Instant, advance, sleep};

fn ceiling(rate: f64, burst: u32) -> Ceiling {
    Ceiling::builder("partner").rate(rate).burst(burst).build().unwrap()
}

fn take_all(ceiling: &Ceiling) -> u32 {
    (0..).take_while(|_| ceiling.try_take(1).is_ok()).count().try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_who_why_and_exactly_when() {
    let ceiling = ceiling(100.0, 10);
    assert_eq!(take_all(&ceiling), 10);
    let refused = ceiling.try_take(3).unwrap_err();
    assert_eq!((refused.reason, &*refused.limiter, refused.limit), (RejectReason::Ceiling, "partner", 100));
    assert_eq!(refused.retry_after.as_micros(), 30_000);
    assert!(refused.to_string().contains("ceiling \"partner\" refused before the downstream was asked"), "{refused}");
    advance(refused.retry_after - Duration::from_millis(1)).await;
    assert!(ceiling.try_take(3).is_err());
    advance(Duration::from_millis(1)).await;
    assert!(ceiling.try_take(3).is_ok());
}

#[tokio::test(start_paused = true)]
async fn fifty_waiting_callers_have_the_rate_and_a_burst_and_not_one_more() {
    let ceiling = ceiling(100.0, 10);
    let calls = Arc::new(AtomicU32::new(0));
    for _ in 0..50 {
        let (ceiling, calls) = (ceiling.clone(), calls.clone());
        tokio::spawn(async move {
            loop {
                drop(ceiling.take(1, None).await.unwrap());
                calls.fetch_add(1, Ordering::Relaxed);
                sleep(Duration::from_millis(30)).await;
            }
        });
    }
    for window in 1..=10 {
        sleep(Duration::from_secs(1)).await;
        let so_far = calls.load(Ordering::Relaxed);
        let most = 100 * window + 10;
        assert!((most - 20..=most).contains(&so_far), "{so_far} after {window} s");
    }
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_in_order_and_nobody_passes() {
    let ceiling = ceiling(10.0, 1);
    take_all(&ceiling);
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for i in 0..5 {
        let (ceiling, sender) = (ceiling.clone(), sender.clone());
        tokio::spawn(async move {
            drop(ceiling.take(1, None).await.unwrap());
            sender.send(i).unwrap();
        });
        tokio::task::yield_now().await;
    }
    sleep(Duration::from_millis(250)).await;
    let refused = ceiling.try_take(1).unwrap_err();
    assert_eq!((refused.queued, refused.retry_after.as_millis()), (3, 350), "three are first, and a part has passed");
    drop(sender);
    let mut served = Vec::new();
    while let Some(i) = order.recv().await {
        served.push(i);
    }
    assert_eq!(served, [0, 1, 2, 3, 4]);
    let now = ceiling.snapshot();
    assert_eq!((now.waiting, now.waited, now.consumed), (0, 5, 6));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_takes_nothing_wherever_it_stands() {
    for leaves in 0..3 {
        let ceiling = ceiling(1.0, 1);
        take_all(&ceiling);
        let began = Instant::now();
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let ceiling = ceiling.clone();
                tokio::spawn(async move { drop(ceiling.take(1, None).await.unwrap()) })
            })
            .collect();
        sleep(Duration::from_millis(500)).await;
        waiters[leaves].abort();
        let mut served = 0;
        for waiter in waiters {
            served += u32::from(waiter.await.is_ok());
        }
        assert_eq!(served, 2);
        assert_eq!(began.elapsed().as_secs(), 2, "the others do not wait for the one that left");
        assert_eq!((ceiling.snapshot().consumed, ceiling.snapshot().waiting), (3, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_is_refused_on_arrival() {
    let ceiling = ceiling(10.0, 1);
    take_all(&ceiling);
    let began = Instant::now();
    let refused = ceiling.take(1, Some((began + Duration::from_millis(99)).into_std())).await.unwrap_err();
    assert_eq!((refused.retry_after.as_millis(), began.elapsed()), (100, Duration::ZERO));
    drop(ceiling.take(1, Some((began + Duration::from_millis(101)).into_std())).await.unwrap());
    assert!((100..=101).contains(&began.elapsed().as_millis()), "timers tick once a millisecond");
}

#[tokio::test(start_paused = true)]
async fn the_line_is_bounded_in_length_and_time() {
    let wait = Duration::from_secs(3);
    let ceiling = Ceiling::builder("partner").rate(1.0).burst(1).waiting(2, wait).build().unwrap();
    take_all(&ceiling);
    let waiters: Vec<_> = (0..2)
        .map(|_| {
            let ceiling = ceiling.clone();
            tokio::spawn(async move { ceiling.take(1, None).await.is_ok() })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(ceiling.take(1, None).await.unwrap_err().queued, 2, "the line is full");
    for waiter in waiters {
        assert!(waiter.await.unwrap());
    }
    drop(ceiling.take(4, None).await.unwrap());
    assert!(ceiling.take(1, None).await.is_err(), "four seconds are more than anyone may wait");
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_at_once_for_those_who_wait_and_gives_nothing_free() {
    let ceiling = ceiling(0.1, 1);
    take_all(&ceiling);
    let began = Instant::now();
    let waiter = {
        let ceiling = ceiling.clone();
        tokio::spawn(async move { ceiling.take(1, None).await.is_ok() })
    };
    sleep(Duration::from_secs(1)).await;
    ceiling.set_rate(10.0).unwrap();
    assert!(ceiling.try_take(1).is_err(), "no free burst");
    assert!(waiter.await.unwrap());
    assert!((1090..=1091).contains(&began.elapsed().as_millis()), "a tenth was paid off at the old rate");
    ceiling.set(10.0, 50.0, (10.0, 10.0)).unwrap();
    assert_eq!(take_all(&ceiling), 0);
}

#[tokio::test(start_paused = true)]
async fn a_throttle_cuts_once_for_all_that_was_under_way_and_success_recovers() {
    let ceiling = Ceiling::builder("partner").rate(100.0).burst(10).bounds(5.0, 100.0).build().unwrap();
    let under_way: Vec<_> = (0..10).map(|_| ceiling.try_take(1).unwrap()).collect();
    advance(Duration::from_millis(30)).await;
    under_way.iter().for_each(|charge| charge.observe(Outcome::Throttled));
    drop(under_way);
    let cut = ceiling.snapshot();
    assert_eq!((cut.rate.round(), cut.cuts, cut.throttled), (63.0, 1, 10));
    assert!((cut.burst - 6.3).abs() < 1e-9, "the burst is worth the same time: {}", cut.burst);
    for _ in 0..2000 {
        ceiling.take(1, None).await.unwrap().observe(Outcome::Success);
    }
    assert!(ceiling.snapshot().rate > 85.0, "{:?}", ceiling.snapshot());
}

#[tokio::test(start_paused = true)]
async fn success_without_pressure_teaches_nothing() {
    let ceiling = Ceiling::builder("partner").rate(50.0).burst(10).bounds(5.0, 100.0).build().unwrap();
    for _ in 0..600 {
        ceiling.try_take(1).unwrap().observe(Outcome::Success);
        advance(Duration::from_millis(100)).await;
    }
    assert_eq!(ceiling.snapshot().rate, 50.0);
}

#[tokio::test(start_paused = true)]
async fn refunded_units_serve_who_waits() {
    let ceiling = ceiling(0.01, 2);
    let charge = ceiling.try_take(2).unwrap();
    let waiter = {
        let ceiling = ceiling.clone();
        let until = Instant::now() + Duration::from_secs(1000);
        tokio::spawn(async move { ceiling.take(2, Some(until.into_std())).await.is_ok() })
    };
    sleep(Duration::from_secs(1)).await;
    charge.refund();
    let began = Instant::now();
    assert!(waiter.await.unwrap());
    assert_eq!(began.elapsed().as_secs(), 0);
    assert_eq!(ceiling.snapshot().refunded, 2);
}

#[test]
fn threads_together_have_no_more_than_rate_and_burst() {
    let ceiling = ceiling(20_000.0, 100);
    let began = std::time::Instant::now();
    let had: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..200_000).filter(|_| ceiling.try_take(1).is_ok()).count() as u64))
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    let allowed = 20_000.0 * began.elapsed().as_secs_f64() + 100.0;
    assert!(had as f64 <= allowed, "{had} in a time that allows {allowed}");
    assert_eq!(ceiling.snapshot().consumed, had);
}

#[test]
fn wrong_settings_say_what_is_allowed() {
    let build = |rate, burst, (min, max)| {
        Ceiling::builder("a").rate(rate).burst(burst).bounds(min, max).build().unwrap_err().to_string()
    };
    assert!(build(0.0, 1, (1.0, 1.0)).contains("rate = 0 is not allowed"));
    assert!(build(1.0, 0, (1.0, 1.0)).contains("need 1 to"));
    assert!(build(5.0, 1, (6.0, 9.0)).contains("min <= rate <= max"));
    assert!(build(f64::NAN, 1, (1.0, 1.0)).contains("NaN"));
    assert_eq!(Ceiling::builder("").rate(1.0).build().unwrap_err(), InvalidCeiling::NoName);
    assert!(Ceiling::builder("a").rate(1.0).build().unwrap().set_rate(1e9).is_err());
}
