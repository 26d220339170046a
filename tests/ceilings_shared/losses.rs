//! Every way to lose the store: the ceiling goes on with a safe share, and comes back by itself.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tidegate::RejectReason;
use tidegate::ceiling::{Loss, OnLoss, Sharing, Source, Turn};
use tokio::time::timeout;

use super::store::{Proxy, Redis};
use super::{Member, at};

/// Nobody waits for a store that is lost.
async fn is_served(member: &Member) {
    let taken = timeout(Duration::from_secs(2), member.ceiling.take(1, None)).await;
    drop(taken.expect("a share is there").expect("it is not refused"));
}

async fn falls_back(member: &Member, loss: Loss) {
    let is_lost = |now: &tidegate::ceiling::CeilingSnapshot| now.source.is_fallback() && now.loss == Some(loss);
    member.until(loss.as_str(), is_lost).await;
    is_served(member).await;
}

async fn comes_back(member: &Member) {
    member.is_shared().await;
    assert_eq!(member.ceiling.snapshot().loss, None);
    is_served(member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_and_restarted_empty() {
    let mut redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    redis.kill();
    falls_back(&member, Loss::Unreachable).await;
    redis.restart();
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_and_continued() {
    let redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    redis.signal("-STOP");
    member.until("slow", |now| now.loss.is_some()).await;
    is_served(&member).await;
    redis.signal("-CONT");
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_and_fast_again() {
    let redis = Redis::start();
    let proxy = Proxy::to(redis.port);
    let member = Member::join(at(proxy.port));
    member.is_shared().await;
    proxy.delay(100);
    falls_back(&member, Loss::Slow).await;
    proxy.delay(0);
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_takes_no_writes() {
    let redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    redis.tell("REPLICAOF 127.0.0.1 1");
    falls_back(&member, Loss::ReadOnly).await;
    redis.tell("REPLICAOF NO ONE");
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full() {
    let redis = Redis::start();
    let member = Member::join(at(redis.port));
    member.is_shared().await;
    redis.tell("CONFIG SET maxmemory 1");
    falls_back(&member, Loss::Full).await;
    redis.tell("CONFIG SET maxmemory 0");
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_holds_something_else() {
    let redis = Redis::start();
    redis.tell("SET tidegate:ceiling:{partner} nonsense");
    let member = Member::join(at(redis.port));
    falls_back(&member, Loss::Nonsense).await;
    redis.tell("DEL tidegate:ceiling:{partner}");
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_apart_and_a_corrected_file_is_enough() {
    let redis = Redis::start_with(&["--requirepass", "right"]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let member = Member::join(at(redis.port).password_file(&file));
    falls_back(&member, Loss::Denied).await;
    std::fs::write(&file, "right\n").unwrap();
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn away_from_the_start_refused_or_swallowed() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for port in [silent.local_addr().unwrap().port(), gone] {
        let member = Member::join(at(port));
        is_served(&member).await;
        member.until("lost", |now| now.loss == Some(Loss::Unreachable)).await;
        let now = member.ceiling.snapshot();
        assert_eq!((now.source, now.rate), (Source::Fallback, 125.0), "an eighth, as it was told of eight members");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_store_four_members_have_the_rate_together_and_no_burst_more() {
    let mut redis = Redis::start();
    let members: Vec<_> = (0..4).map(|_| Member::join(at(redis.port))).collect();
    for member in &members {
        member.until("counted", |now| now.members == 4).await;
    }
    redis.kill();
    for member in &members {
        member.until("lost", |now| now.loss == Some(Loss::Unreachable)).await;
    }
    let (began, mut had) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) {
        for member in &members {
            had += (0..).take_while(|_| member.ceiling.try_take(1).is_ok()).count();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let most = 1000.0 * began.elapsed().as_secs_f64() + 101.0;
    assert!((most * 0.8..=most).contains(&(had as f64)), "{had} of {most}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_may_be_told_to_fail_closed() {
    let mut redis = Redis::start();
    let member = Member::join_with(at(redis.port), Sharing::new().on_loss(OnLoss::Refuse));
    member.is_shared().await;
    is_served(&member).await;
    redis.kill();
    member.until("lost", |now| now.source == Source::Fallback).await;
    let refused = member.ceiling.take(1, None).await.unwrap_err();
    assert_eq!((refused.reason, refused.retry_after), (RejectReason::Ceiling, Duration::from_secs(1)));
    assert_eq!(member.ceiling.snapshot().rate, 0.0);
    redis.restart();
    comes_back(&member).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_change_is_told_once() {
    let mut redis = Redis::start();
    let turns: Arc<Mutex<Vec<Turn>>> = Arc::default();
    let told = Arc::clone(&turns);
    let sharing = Sharing::new().observer(Arc::new(move |_, turn| told.lock().unwrap().push(turn)));
    let member = Member::join_with(at(redis.port), sharing);
    member.is_shared().await;
    redis.kill();
    falls_back(&member, Loss::Unreachable).await;
    tokio::time::sleep(Duration::from_millis(700)).await;
    redis.restart();
    comes_back(&member).await;
    let turns = turns.lock().unwrap();
    assert!(matches!(turns[..], [Turn::Joined, Turn::Lost(Loss::Unreachable), Turn::Back(_)]), "{turns:?}");
}
