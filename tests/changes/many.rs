//! Many reloads in a row under load: nobody is lost, and nothing grows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::daemon::{Daemon, Place, config};
use super::harness::*;

/// How many; `TIDEGATE_RELOADS` says another number.
fn times() -> u32 {
    std::env::var("TIDEGATE_RELOADS").ok().and_then(|n| n.parse().ok()).unwrap_or(25)
}

/// Resident memory in KiB, and open descriptors.
fn measured(daemon: &Daemon) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("alive");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("resident memory");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    (kib, std::fs::read_dir(format!("/proc/{}/fd", daemon.pid())).expect("alive").count())
}

#[tokio::test(flavor = "multi_thread")]
async fn many_reloads_under_load_lose_nobody_and_nothing_grows() {
    let upstream = Upstream::slow(Duration::from_millis(2)).await;
    let place = Place::new(&config(&upstream, 50, ""));
    let daemon = place.start(&[]);
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, served, address) = (stop.clone(), served.clone(), daemon.address);
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = get(address, "/").await;
                    assert!(answer.status() == 200 && answer.tidy, "lost: {}", answer.text);
                    served.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
        })
        .collect();
    let mut after_warm_up = (0, 0);
    for n in 0..times() {
        place.write(&config(&upstream, 50 + n % 7 + 1, &format!("# {n}\n")));
        let version = n + 2;
        let began = std::time::Instant::now();
        while daemon.config().await["version"] != version {
            assert!(began.elapsed() < PATIENCE, "version {version} does not come\n{}", daemon.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if n == times() / 5 {
            after_warm_up = measured(&daemon);
        }
        if n % 500 == 499 {
            println!("{} reloads: {:?}, {} served", n + 1, measured(&daemon), served.load(Ordering::Relaxed));
        }
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("nobody was lost");
    }
    let (memory, descriptors) = measured(&daemon);
    println!(
        "{} reloads, {} served: {after_warm_up:?} -> {:?}",
        times(),
        served.load(Ordering::Relaxed),
        (memory, descriptors)
    );
    let now = daemon.limiter().await;
    assert_eq!(now["in_flight"], 0, "nobody is stuck: {now}");
    assert!(descriptors <= after_warm_up.1 + 8, "{after_warm_up:?} -> {descriptors} descriptors");
    assert!(memory <= after_warm_up.0 + after_warm_up.0 / 4 + 4096, "{after_warm_up:?} -> {memory} KiB");
    let found = tidegate::audit::verify(&place.audit(), None).expect("readable");
    assert_eq!((found.broken, found.torn), (0, 0));
}
