//! The limiter's promises through its public face.

#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidegate::law::{Aimd, Fixed};
use tidegate::{Admit, Bounds, Limiter, Mode, Outcome, RejectReason};
use tokio::time::{Instant, advance, timeout};

const MS: Duration = Duration::from_millis(1);

fn fixed(limit: u32) -> Limiter {
    Limiter::builder("test").bounds(1, 1000).initial(limit).law(Box::new(Fixed)).build().expect("valid")
}

fn in_ms(ms: u32) -> std::time::Instant {
    (Instant::now() + ms * MS).into_std()
}

#[test]
fn admits_up_to_the_limit_and_says_why_not_beyond() {
    let limiter = fixed(2);
    let permits: Vec<_> = (0..2).map(|_| limiter.try_acquire().expect("room")).collect();
    let rejected = limiter.try_acquire().expect_err("full");
    assert_eq!(
        (rejected.reason, rejected.limit, rejected.in_flight, rejected.queued, &*rejected.limiter),
        (RejectReason::LimitReached, 2, 2, 0, "test")
    );
    drop(permits);
    assert!(limiter.try_acquire().is_ok());
}

#[test]
fn a_permit_is_given_back_once_however_it_ends() {
    let limiter = fixed(10);
    limiter.try_acquire().expect("room").finish(Outcome::Success);
    drop(limiter.try_acquire().expect("room"));
    let mut observed = limiter.try_acquire().expect("room");
    observed.observe(Outcome::Success);
    drop(observed);
    let mut broke = limiter.try_acquire().expect("room");
    broke.observe(Outcome::Success);
    broke.finish(Outcome::Fault);
    let carried = limiter.try_acquire().expect("room");
    std::thread::spawn(move || carried.finish(Outcome::Caller)).join().expect("no panic");
    let panics = limiter.clone();
    let panicked = std::thread::spawn(move || {
        let _permit = panics.try_acquire().expect("room");
        panic!("while in flight");
    });
    assert!(panicked.join().is_err());

    let now = limiter.snapshot();
    assert_eq!(now.in_flight, 0);
    let counts = [Outcome::Success, Outcome::Cancelled, Outcome::Fault, Outcome::Caller].map(|o| now.finished.of(o));
    assert_eq!(counts, [2, 2, 1, 1], "a stream that broke counts once, as a fault");
}

#[test]
fn wrong_settings_are_refused_with_what_is_allowed() {
    for (builder, says) in [
        (Limiter::builder("").bounds(1, 2), "needs a name"),
        (Limiter::builder("x").bounds(0, 2), "1 <= min"),
        (Limiter::builder("x").bounds(50, 10), "min = 50, max = 10"),
        (Limiter::builder("x").bounds(4, 10).initial(11), "need 4..=10"),
        (Limiter::builder("x").waiting_room(u32::MAX, MS), "at most"),
    ] {
        let error = builder.build().expect_err("must be refused").to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_for_a_place_and_gets_it_in_order() {
    let limiter = fixed(1);
    let permit = limiter.try_acquire().expect("room");
    let order = Arc::new(AtomicU32::new(0));
    let waiters: Vec<_> = (0..3)
        .map(|i| {
            let (limiter, order) = (limiter.clone(), Arc::clone(&order));
            tokio::spawn(async move {
                let permit = limiter.acquire(Admit::new()).await.expect("its turn comes");
                assert_eq!(order.fetch_add(1, Ordering::Relaxed), i);
                permit.finish(Outcome::Success);
            })
        })
        .collect();
    tokio::task::yield_now().await;
    assert_eq!(limiter.snapshot().queued, 3);
    permit.finish(Outcome::Success);
    for waiter in waiters {
        waiter.await.expect("no panic");
    }
    assert_eq!(limiter.snapshot().waited, 3);
}

#[tokio::test(start_paused = true)]
async fn the_room_is_bounded_in_length_and_in_time() {
    let limiter = fixed(1);
    limiter.set_waiting_room(1, 30 * MS);
    let _held = limiter.try_acquire().expect("room");
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { (Instant::now(), limiter.acquire(Admit::new()).await.expect_err("time is up"), Instant::now()) }
    });
    tokio::task::yield_now().await;
    let full = limiter.acquire(Admit::new()).await.expect_err("the room is full");
    assert_eq!((full.reason, full.queued), (RejectReason::QueueFull, 1));
    let (began, rejected, ended) = waiter.await.expect("no panic");
    assert_eq!(rejected.reason, RejectReason::QueueTimeout);
    assert!((30 * MS..32 * MS).contains(&(ended - began)), "{:?}", ended - began);
    assert_eq!(limiter.snapshot().queued, 0);
    limiter.set_waiting_room(0, MS);
    let rejected = limiter.acquire(Admit::new()).await.expect_err("nobody may wait");
    assert_eq!(rejected.reason, RejectReason::LimitReached);
}

#[tokio::test(start_paused = true)]
async fn the_shorter_of_two_deadlines_wins_and_is_named() {
    let limiter = fixed(1);
    limiter.set_waiting_room(10, 60_000 * MS);
    let _held = limiter.try_acquire().expect("room");
    for (client_ms, reason, after) in
        [(2_000, RejectReason::ClientDeadline, 2_000), (120_000, RejectReason::QueueTimeout, 60_000)]
    {
        let began = Instant::now();
        let rejected = limiter.acquire(Admit::new().deadline(in_ms(client_ms))).await.expect_err("no capacity");
        assert_eq!(rejected.reason, reason);
        assert!((after * MS..(after + 2) * MS).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_cannot_be_met_is_refused_on_arrival() {
    let limiter = fixed(1);
    limiter.set_waiting_room(100, 60_000 * MS);
    for _ in 0..40 {
        let permit = limiter.try_acquire().expect("room");
        advance(100 * MS).await;
        permit.finish(Outcome::Success);
    }
    let _held = limiter.try_acquire().expect("room");
    let began = Instant::now();
    let rejected = limiter.acquire(Admit::new().deadline(in_ms(150))).await.expect_err("100 ms wait, 100 ms work");
    assert_eq!((rejected.reason, began.elapsed()), (RejectReason::DeadlineUnmeetable, Duration::ZERO));
    let past = limiter.acquire(Admit::new().deadline(in_ms(0))).await.expect_err("passed already");
    assert_eq!(past.reason, RejectReason::DeadlineUnmeetable);
    // One that can be met waits, and is served when its turn comes.
    let meets = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(Admit::new().deadline(in_ms(1_000))).await.map(|p| p.finish(Outcome::Success)) }
    });
    tokio::task::yield_now().await;
    assert_eq!(limiter.snapshot().queued, 1);
    drop(_held);
    assert!(meets.await.expect("no panic").is_ok());
}

#[tokio::test(start_paused = true)]
async fn dropped_waits_leave_nothing_behind_at_head_middle_and_tail() {
    for dropped in 0..3 {
        let limiter = fixed(1);
        limiter.set_waiting_room(10, 60_000 * MS);
        let held = limiter.try_acquire().expect("room");
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(
                    async move { limiter.acquire(Admit::new()).await.expect("its turn").finish(Outcome::Success) },
                )
            })
            .collect();
        tokio::task::yield_now().await;
        waiters[dropped].abort();
        tokio::task::yield_now().await;
        assert_eq!(limiter.snapshot().queued, 2);
        drop(held);
        for (i, waiter) in waiters.into_iter().enumerate() {
            assert_eq!(waiter.await.is_ok(), i != dropped);
        }
        assert_eq!((limiter.snapshot().in_flight, limiter.snapshot().queued), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn waits_as_long_as_the_work_lose_no_place() {
    // Time-out and hand-over fall into the same moment, again and again.
    let limiter = fixed(1);
    limiter.set_waiting_room(4, 250 * MS);
    for _ in 0..2_000 {
        let Ok(held) = limiter.try_acquire() else { panic!("a place was lost") };
        let waiter = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.acquire(Admit::new()).await.map(|p| p.finish(Outcome::Success)) }
        });
        tokio::task::yield_now().await;
        tokio::time::sleep(250 * MS).await;
        held.finish(Outcome::Success);
        let _ = waiter.await.expect("no panic");
        assert_eq!((limiter.snapshot().in_flight, limiter.snapshot().queued), (0, 0));
    }
}

#[test]
fn new_bounds_bind_before_the_call_returns() {
    let limiter = Limiter::builder("test").bounds(1, 1000).initial(500).law(Box::new(Fixed)).build().expect("valid");
    let mut permits: Vec<_> = (0..500).map(|_| limiter.try_acquire().expect("room")).collect();
    limiter.set_bounds(Bounds::new(1, 50).expect("valid"));
    assert_eq!((limiter.snapshot().limit, limiter.snapshot().in_flight), (50, 500));
    while limiter.snapshot().in_flight > 50 {
        assert!(limiter.try_acquire().is_err());
        permits.pop();
    }
    permits.pop();
    assert!(limiter.try_acquire().is_ok());
    let decision = limiter.decisions().into_iter().find(|d| d.reason.as_str() == "bounds").expect("recorded");
    assert_eq!((decision.old, decision.new), (500, 50));
}

#[test]
fn over_weight_requests_are_admitted_alone_and_never_locked_out() {
    let limiter = fixed(4);
    let heavy = Admit::new().weight(100);
    let light = limiter.try_acquire().expect("room");
    assert!(limiter.try_acquire_with(&heavy).is_err(), "not alone");
    drop(light);
    let alone = limiter.try_acquire_with(&heavy).expect("alone");
    assert_eq!((alone.weight(), limiter.snapshot().in_flight), (100, 100));
    assert!(limiter.try_acquire().is_err(), "nobody beside it");
    drop(alone);
    assert_eq!(limiter.try_acquire_with(&Admit::new().weight(0)).expect("room").weight(), 1, "zero counts as one");
}

#[tokio::test(start_paused = true)]
async fn an_over_weight_waiter_gets_its_turn_under_a_stream_of_light_ones() {
    let limiter = fixed(4);
    limiter.set_waiting_room(100, 60_000 * MS);
    let mut light: Vec<_> = (0..4).map(|_| limiter.try_acquire().expect("room")).collect();
    let heavy = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(Admit::new().weight(9)).await.map(|p| p.finish(Outcome::Success)) }
    });
    tokio::task::yield_now().await;
    while let Some(permit) = light.pop() {
        assert!(limiter.try_acquire().is_err(), "nobody walks past it");
        drop(permit);
    }
    assert!(heavy.await.expect("no panic").is_ok());
}

#[test]
fn shadow_admits_everything_and_counts_what_would_have_been_refused() {
    let limiter = fixed(2);
    limiter.set_mode(Mode::Shadow);
    let permits: Vec<_> = (0..5).map(|_| limiter.try_acquire().expect("shadow refuses nobody")).collect();
    let now = limiter.snapshot();
    assert_eq!((now.mode, now.in_flight, now.would_reject, now.rejected_total()), (Mode::Shadow, 5, 3, 0));
    drop(permits);
    limiter.set_mode(Mode::Off);
    let permits: Vec<_> = (0..5).map(|_| limiter.try_acquire().expect("off refuses nobody")).collect();
    assert_eq!(limiter.snapshot().would_reject, 3, "off judges nothing");
    limiter.set_mode(Mode::Enforce);
    assert!(limiter.try_acquire().is_err(), "what came in before is counted");
    drop(permits);
    assert_eq!(limiter.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_closed_limiter_refuses_newcomers_and_waiters_and_keeps_permits_valid() {
    let limiter = fixed(1);
    let held = limiter.try_acquire().expect("room");
    let waiter = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.acquire(Admit::new()).await.expect_err("closed").reason }
    });
    tokio::task::yield_now().await;
    limiter.close();
    assert_eq!(waiter.await.expect("no panic"), RejectReason::Closed);
    assert_eq!(limiter.try_acquire().expect_err("closed").reason, RejectReason::Closed);
    held.finish(Outcome::Success);
    assert_eq!(limiter.snapshot().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn the_limit_follows_the_downstream_and_says_why() {
    let limiter = Limiter::builder("test").bounds(2, 100).law(Box::new(Aimd::default())).build().expect("valid");
    for _ in 0..200 {
        let permits: Vec<_> = std::iter::from_fn(|| limiter.try_acquire().ok()).collect();
        advance(50 * MS).await;
        permits.into_iter().for_each(|p| p.finish(Outcome::Success));
    }
    let grown = limiter.snapshot();
    assert!(grown.limit > 30, "grew while it bound: {}", grown.limit);
    assert!(limiter.decisions().iter().any(|d| d.reason.as_str() == "grow" && d.new > d.old));
    for _ in 0..1_000 {
        let permits: Vec<_> = std::iter::from_fn(|| limiter.try_acquire().ok()).collect();
        advance(50 * MS).await;
        permits.into_iter().for_each(|p| p.finish(Outcome::Overloaded));
    }
    assert_eq!(limiter.snapshot().limit, 2, "reaches the minimum though nothing succeeds");
    let decision = &limiter.decisions()[0];
    assert_eq!(decision.reason.as_str(), "shrink_overload");
    assert!(decision.inputs.iter().any(|(name, value)| name == "overloaded" && value > 0.0));
}

#[tokio::test(start_paused = true)]
async fn an_unused_limit_does_not_grow() {
    let limiter = Limiter::builder("test").bounds(2, 1000).law(Box::new(Aimd::default())).build().expect("valid");
    for _ in 0..5_000 {
        let permits = [(); 2].map(|()| limiter.try_acquire().expect("room"));
        advance(20 * MS).await;
        permits.into_iter().for_each(|p| p.finish(Outcome::Success));
    }
    assert_eq!(limiter.snapshot().limit, 20);
    assert_eq!(limiter.decisions()[0].reason.as_str(), "hold_app_limited");
}

#[tokio::test(start_paused = true)]
async fn a_stall_is_noticed_though_nothing_finishes_and_is_not_health() {
    let limiter = Limiter::builder("test").bounds(2, 100).law(Box::new(Aimd::default())).build().expect("valid");
    for _ in 0..40 {
        let permits: Vec<_> = (0..10).map(|_| limiter.try_acquire().expect("room")).collect();
        advance(50 * MS).await;
        permits.into_iter().for_each(|p| p.finish(Outcome::Success));
    }
    let before = limiter.snapshot();
    assert_eq!(before.fallback, None);
    let hung: Vec<_> = std::iter::from_fn(|| limiter.try_acquire().ok()).collect();
    for _ in 0..20 {
        advance(100 * MS).await;
        assert!(limiter.try_acquire().is_err());
    }
    let now = limiter.snapshot();
    assert_eq!(now.fallback.map(|f| f.as_str()), Some("signal"));
    assert_eq!(now.last_decision.expect("some").reason.as_str(), "hold_stalled");
    assert!(now.limit <= before.limit, "a stall is not health");
    assert_eq!(now.unfinished.0 as usize, hung.len());
    assert!(now.unfinished.1 >= Duration::from_secs(2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn never_above_the_limit_under_a_race_with_weights_waits_and_changes() {
    let limiter = Limiter::builder("race").bounds(1, 64).initial(8).law(Box::new(Fixed)).build().expect("valid");
    limiter.set_waiting_room(1000, Duration::from_secs(60));
    // The highest limit that was ever in force: in flight must never pass it.
    let inside = Arc::new(AtomicU32::new(0));
    let tasks: Vec<_> = (0..64_u32)
        .map(|task| {
            let (limiter, inside) = (limiter.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                for round in 0..300_u32 {
                    let weight = 1 + (task + round) % 3;
                    let acquire = limiter.acquire(Admit::new().weight(weight));
                    let permit = if round % 7 == 0 {
                        let Ok(permit) = timeout(Duration::from_micros(50), acquire).await else { continue };
                        permit.expect("room")
                    } else {
                        acquire.await.expect("room")
                    };
                    let now = inside.fetch_add(weight, Ordering::SeqCst) + weight;
                    assert!(now <= 16, "{now} inside");
                    tokio::task::yield_now().await;
                    inside.fetch_sub(weight, Ordering::SeqCst);
                    permit.finish(Outcome::Success);
                }
            })
        })
        .collect();
    for i in 0..2_000 {
        let max = 3 + i % 14;
        limiter.set_bounds(Bounds::new(max, max).expect("valid"));
        tokio::task::yield_now().await;
    }
    for task in tasks {
        timeout(Duration::from_secs(60), task).await.expect("nobody is lost").expect("no panic");
    }
    assert_eq!((limiter.snapshot().in_flight, limiter.snapshot().queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn requests_cancelled_by_impatient_callers_do_not_move_the_limit() {
    let limiter = Limiter::builder("test").bounds(2, 100).law(Box::new(Aimd::default())).build().expect("valid");
    for _ in 0..100 {
        let permits: Vec<_> = (0..15).map(|_| limiter.try_acquire().expect("room")).collect();
        advance(50 * MS).await;
        permits.into_iter().take(6).for_each(drop);
    }
    assert_eq!(limiter.snapshot().limit, 20);
}

#[tokio::test(start_paused = true)]
async fn answers_that_begin_well_and_are_refused_inside_lower_the_limit() {
    for end in [Outcome::Overloaded, Outcome::Throttled, Outcome::Success] {
        let limiter = Limiter::builder("model").bounds(1, 100).initial(40).build().expect("good");
        for _ in 0..200 {
            let held: Vec<_> = (0..20).map_while(|_| limiter.try_acquire().ok()).collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
            for mut permit in held {
                permit.observe(Outcome::Success);
                permit.finish(end);
            }
        }
        let limit = limiter.snapshot().limit;
        assert_eq!(limit < 20, end != Outcome::Success, "{end:?}: {limit}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_mistakes_are_counted_and_teach_no_latency() {
    let limiter = Limiter::builder("api").bounds(1, 100).initial(40).build().expect("good");
    for _ in 0..200 {
        let (good, bad) = (limiter.try_acquire().expect("room"), limiter.try_acquire().expect("room"));
        tokio::time::sleep(Duration::from_millis(1)).await;
        bad.finish(Outcome::Caller);
        tokio::time::sleep(Duration::from_millis(99)).await;
        good.finish(Outcome::Success);
    }
    let now = limiter.snapshot();
    assert_eq!(now.finished.of(Outcome::Caller), 200);
    assert!(now.typical_latency >= Duration::from_millis(99), "{:?}", now.typical_latency);
}
