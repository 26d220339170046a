//! What members have together while the store is up.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate::Outcome;
use tidegate::ceiling::{Ceiling, Source};

use super::store::{Proxy, Redis};
use super::{Member, at};

type Times = Arc<Mutex<Vec<Duration>>>;

/// Takes one after another, and notes when.
fn take_forever(ceiling: &Ceiling, began: Instant, times: &Times) -> tokio::task::JoinHandle<()> {
    let (ceiling, times) = (ceiling.clone(), Arc::clone(times));
    tokio::spawn(async move {
        while ceiling.take(1, None).await.is_ok() {
            times.lock().unwrap().push(began.elapsed());
        }
    })
}

/// The largest number of units that any stretch of time had beyond the rate.
fn largest_burst(times: &Times, rate: f64) -> f64 {
    let mut times = times.lock().unwrap().clone();
    times.sort();
    // Kadane's: each unit adds one, each second takes the rate.
    let (mut beyond, mut most, mut last) = (0.0_f64, 0.0_f64, Duration::ZERO);
    for time in times {
        beyond = (beyond - (time - last).as_secs_f64() * rate).max(0.0) + 1.0;
        most = most.max(beyond);
        last = time;
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_members_together_never_have_more_than_the_rate_and_a_burst() {
    let redis = Redis::start();
    let members: Vec<_> = (0..8).map(|_| Member::join(at(redis.port))).collect();
    for member in &members {
        member.is_shared().await;
    }
    let (began, times) = (Instant::now(), Times::default());
    let tasks: Vec<_> = members
        .iter()
        .flat_map(|m| (0..4).map(|_| take_forever(&m.ceiling, began, &times)).collect::<Vec<_>>())
        .collect();
    tokio::time::sleep(Duration::from_secs(4)).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let burst = largest_burst(&times, 1000.0);
    let had = times.lock().unwrap().len();
    assert!(burst <= 100.5, "{burst} beyond the rate");
    assert!(had > 2500, "the rate is made use of: {had}");
    for member in &members {
        assert_eq!(member.ceiling.snapshot().source, Source::Shared);
    }
    assert_eq!(members[0].ceiling.snapshot().members, 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_throttle_of_one_cuts_the_rate_of_all() {
    let redis = Redis::start();
    let (one, other) = (Member::join(at(redis.port)), Member::join(at(redis.port)));
    one.is_shared().await;
    other.is_shared().await;
    let charge = one.ceiling.take(1, None).await.unwrap();
    charge.observe(Outcome::Throttled);
    one.until("cut", |now| (now.rate - 630.0).abs() < 1.0).await;
    other.until("cut", |now| now.rate < 640.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_script_and_a_slow_but_timely_store_change_nothing() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.port);
    let member = Member::join(at(proxy.port));
    member.is_shared().await;
    proxy.delay(4);
    for round in 0..200 {
        if round % 20 == 0 {
            assert_eq!(redis.tell("SCRIPT FLUSH"), "+OK\r\n");
        }
        drop(member.ceiling.take(1, None).await.unwrap());
        assert_eq!(member.ceiling.snapshot().source, Source::Shared);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_key_expires_and_one_without_expiry_is_repaired() {
    let redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    let key = "tidegate:ceiling:{partner}";
    assert_eq!(redis.tell(&format!("PERSIST {key}")), ":1\r\n");
    for _ in 0..1000 {
        let ttl: i64 = redis.tell(&format!("TTL {key}")).trim_start_matches(':').trim().parse().unwrap();
        if ttl > 0 {
            assert!(ttl <= 61, "{ttl}");
            assert_eq!(redis.tell("DBSIZE"), ":1\r\n");
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the key lives for ever");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_of_the_store_that_moves_prints_nothing_and_locks_nobody_out() {
    let redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    let (began, times) = (Instant::now(), Times::default());
    let task = take_forever(&member.ceiling, began, &times);
    let hour = 3_600_000_000_i64;
    // A clock that goes back an hour is the same as a key that was last used in an hour.
    for (step, fields) in [(hour, "at xt cut seen"), (-hour, "at xt seen")] {
        tokio::time::sleep(Duration::from_millis(700)).await;
        let us = i64::try_from(std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros()).unwrap();
        let pairs: Vec<_> = fields.split(' ').map(|field| format!("{field} {}", us + step)).collect();
        redis.tell(&format!("HSET tidegate:ceiling:{{partner}} {}", pairs.join(" ")));
        let before = times.lock().unwrap().len();
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(times.lock().unwrap().len() > before + 100, "still served");
    }
    task.abort();
    let burst = largest_burst(&times, 1000.0);
    assert!(burst <= 201.0, "each step is worth a burst at most, and only the one forward: {burst}");
}
