//! A destination's promises under a paused clock: who is asked in which order, and what is given back.

use std::time::Duration;

use tidegate::ceiling::{Budget, Ceiling};
use tidegate::classify::{Verdict, Wait, WaitSource};
use tidegate::client::{Ask, Destination};
use tidegate::{Deadline, HoldOff, Limiter, Outcome, RejectReason};
use tokio::time::{Instant, advance, timeout};

const MS: Duration = Duration::from_millis(1);

fn limiter(limit: u32) -> Limiter {
    Limiter::builder("test").bounds(limit, limit).waiting_room(1000, Duration::from_secs(30)).build().unwrap()
}

fn throttled(ms: u32) -> Verdict<'static> {
    Verdict::of(Outcome::Throttled).with_wait(Wait { length: ms * MS, source: WaitSource::RetryAfter })
}

#[expect(clippy::disallowed_methods, reason = "the paused clock")]
fn now() -> Instant {
    Instant::now()
}

fn spent(ceiling: &Ceiling) -> u64 {
    let now = ceiling.snapshot();
    now.consumed - now.refunded
}

#[tokio::test(start_paused = true)]
async fn an_attempt_tells_all_three_how_it_ended() {
    let limiter = limiter(10);
    let ceiling = Ceiling::builder("test").rate(100.0).bounds(1.0, 100.0).build().unwrap();
    let hold_off = HoldOff::builder("test").jitter(0.0).build();
    let destination = Destination::new(limiter.clone()).ceiling(ceiling.clone()).hold_off(hold_off.clone());
    let mut attempt = destination.begin(Ask::new().key("acme")).await.unwrap();
    attempt.observe(&throttled(500));
    attempt.observe(&throttled(500));
    assert_eq!(limiter.snapshot().in_flight, 1, "its body is still under way");
    drop(attempt);
    assert_eq!(limiter.snapshot().finished.of(Outcome::Throttled), 1);
    assert_eq!((ceiling.snapshot().throttled, spent(&ceiling)), (1, 1));
    assert_eq!((hold_off.remaining("acme"), hold_off.remaining("other")), (Some(500 * MS), None));
}

#[tokio::test(start_paused = true)]
async fn who_is_held_off_waits_and_holds_nothing() {
    let limiter = limiter(1);
    let ceiling = Ceiling::builder("test").rate(100.0).build().unwrap();
    let hold_off = HoldOff::builder("test").jitter(0.0).build();
    let destination = Destination::new(limiter.clone()).ceiling(ceiling.clone()).hold_off(hold_off.clone());
    hold_off.see(&throttled(400), "");
    let began = now();
    let waiting = tokio::spawn({
        let destination = destination.clone();
        async move { destination.begin(Ask::new()).await.map(drop) }
    });
    advance(200 * MS).await;
    assert_eq!((limiter.snapshot().in_flight, spent(&ceiling)), (0, 0));
    waiting.await.unwrap().unwrap();
    assert!(now() - began >= 400 * MS);
    hold_off.see(&throttled(400), "");
    let refused = destination.begin(Ask::new().deadline((now() + 100 * MS).into_std())).await.unwrap_err();
    assert_eq!(refused.reason, RejectReason::HoldOff);
}

#[tokio::test(start_paused = true)]
async fn a_hold_off_that_opens_while_others_wait_holds_them_too() {
    let limiter = limiter(1);
    let hold_off = HoldOff::builder("test").jitter(0.0).build();
    let destination = Destination::new(limiter.clone()).hold_off(hold_off.clone());
    let first = destination.begin(Ask::new()).await.unwrap();
    let left: Vec<_> = (0..5)
        .map(|_| {
            let destination = destination.clone();
            tokio::spawn(async move {
                let attempt = destination.begin(Ask::new()).await.unwrap();
                attempt.finish(&Verdict::of(Outcome::Success));
                now()
            })
        })
        .collect();
    advance(10 * MS).await;
    assert_eq!(limiter.snapshot().queued, 5);
    let told = now();
    first.finish(&throttled(2000));
    for left in left {
        assert!(left.await.unwrap() - told >= 2000 * MS, "nobody leaves before the time");
    }
}

#[tokio::test(start_paused = true)]
async fn a_charge_is_refunded_when_the_limiter_refuses_or_the_caller_leaves() {
    let limiter = limiter(1);
    let ceiling = Ceiling::builder("test").rate(10.0).burst(10).build().unwrap();
    let destination = Destination::new(limiter.clone()).ceiling(ceiling.clone());
    let held = limiter.try_acquire().unwrap();
    assert_eq!(destination.try_begin(Ask::new()).unwrap_err().reason, RejectReason::LimitReached);
    assert_eq!(spent(&ceiling), 0);
    assert!(timeout(50 * MS, destination.begin(Ask::new().units(7))).await.is_err());
    assert_eq!((spent(&ceiling), limiter.snapshot().queued), (0, 0));
    let deadline = Deadline::after(now().into_std(), 100 * MS);
    let late = destination.begin(Ask::new().deadline(deadline.moment())).await.unwrap_err();
    assert_eq!((late.reason, spent(&ceiling)), (RejectReason::ClientDeadline, 0));
    held.finish(Outcome::Success);
    drop(destination.begin(Ask::new().units(0)).await.unwrap());
    assert_eq!(spent(&ceiling), 0, "units of nothing cost nothing");
}

/// Ten a second are allowed; for ten seconds nobody can leave because the limiter is full.
#[tokio::test(start_paused = true)]
async fn those_who_waited_for_the_limiter_do_not_leave_all_at_once() {
    let limiter = limiter(100);
    let ceiling = Ceiling::builder("test").rate(10.0).burst(2).waiting(1000, Duration::from_secs(60)).build().unwrap();
    let destination = Destination::new(limiter.clone()).ceiling(ceiling.clone()).longest_wait(Duration::from_secs(100));
    let full: Vec<_> = (0..100).map(|_| limiter.try_acquire().unwrap()).collect();
    let leaving: Vec<_> = (0..50)
        .map(|_| {
            let destination = destination.clone();
            tokio::spawn(async move {
                let attempt = destination.begin(Ask::new()).await.unwrap();
                let left = now();
                attempt.finish(&Verdict::of(Outcome::Success));
                left
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(limiter.snapshot().queued > 40, "{}", limiter.snapshot().queued);
    drop(full);
    let mut left = Vec::new();
    for leaving in leaving {
        left.push(leaving.await.unwrap());
    }
    left.sort();
    for (i, first) in left.iter().enumerate() {
        let within = left[i..].iter().take_while(|at| **at - *first < Duration::from_secs(1)).count();
        assert!(within <= 10 + 2 + 1, "{within} left within a second");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_counts_attempts_and_refusals_are_none() {
    let limiter = limiter(1);
    let ceiling = Ceiling::builder("test").rate(10.0).burst(10).build().unwrap();
    let budget = Budget::new(2);
    let run = Destination::new(limiter.clone()).ceiling(ceiling.clone()).budget(budget.clone());
    let held = limiter.try_acquire().unwrap();
    assert_eq!(run.try_begin(Ask::new()).unwrap_err().reason, RejectReason::LimitReached);
    held.finish(Outcome::Success);
    assert_eq!(budget.left(), 2);
    for _ in 0..2 {
        run.begin(Ask::new()).await.unwrap().finish(&Verdict::of(Outcome::Fault));
    }
    assert_eq!(run.begin(Ask::new()).await.unwrap_err().reason, RejectReason::BudgetSpent);
    assert_eq!((spent(&ceiling), limiter.snapshot().in_flight), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_longer_than_the_destination_allows() {
    let limiter = limiter(1);
    let ceiling = Ceiling::builder("test").rate(10.0).build().unwrap();
    let destination = Destination::new(limiter.clone()).ceiling(ceiling.clone()).longest_wait(Duration::from_secs(5));
    let _held = limiter.try_acquire().unwrap();
    let began = now();
    let refused = destination.begin(Ask::new()).await.unwrap_err();
    assert_eq!((refused.reason, spent(&ceiling)), (RejectReason::QueueTimeout, 0));
    assert!(now() - began < Duration::from_secs(6), "the waiting room alone would have kept it for thirty");
}
