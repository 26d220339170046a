//! A change that bakes: kept when all stays well, taken back by itself when things get worse.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::daemon::{Daemon, Place, config};
use super::harness::*;

/// Clients that ask again and again until this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start(daemon: &Daemon, clients: usize) -> Self {
        let (stop, address) = (Arc::new(AtomicBool::new(false)), daemon.address);
        for _ in 0..clients {
            let stop = stop.clone();
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    get(address, "/").await;
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until so many requests have finished.
async fn finished(daemon: &Daemon, wanted: u64) {
    let began = std::time::Instant::now();
    loop {
        let now = daemon.limiter().await;
        if now["finished"]["success"].as_u64() >= Some(wanted) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{now}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_makes_things_worse_is_taken_back_and_not_tried_again() {
    let upstream = Upstream::slow(Duration::from_millis(20)).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let mut daemon = place.start(&[]);
    let load = Load::start(&daemon, 10);
    finished(&daemon, 200).await;
    // One place for ten clients: nine of ten are refused from now on.
    place.write(&config(&upstream, 1, "[change]\nreason = \"save\"\nbake = \"1m\"\n"));
    daemon.until_max(1).await;
    assert!(daemon.config().await["baking_for_s"].as_f64() > Some(0.0));
    let now = daemon.until("the change back", |now| now["reverted"] == 1).await;
    assert_eq!(daemon.limiter().await["max"], 20);
    assert!(now["error"].as_str().expect("why").contains("taken back: default: refused:"), "{now}");
    assert_eq!((&now["reverted"], &now["baking_for_s"]), (&1.into(), &serde_json::Value::Null));
    assert_eq!(daemon.limiter().await["limit"], 20, "the limit that the change cut is back too");
    let records = place.records();
    let reverted = records.last().expect("a record");
    assert_eq!((&reverted["result"], &reverted["actor"]), (&"reverted".into(), &"tidegate".into()), "{reverted}");
    assert_eq!(reverted["in_force"], records[0]["in_force"]);
    assert_eq!(reverted["source"]["hash"], records[1]["in_force"]);
    assert!(reverted["note"].as_str().expect("figures").contains("p = "), "{reverted}");
    let metrics = get(daemon.admin, "/metrics").await.text;
    assert!(metrics.lines().any(|line| line == "tidegate_config_reverted_total 1"), "{metrics}");
    drop(load);
    daemon.kill();
    let daemon = place.start(&[]);
    assert_eq!(daemon.limiter().await["max"], 20, "not tried again at a restart");
    assert_eq!(daemon.config().await["ok"], false);
    place.write(&config(&upstream, 20, ""));
    daemon.until("the file is in force again", |now| now["ok"] == true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_gateway_wrote_itself_it_takes_out_of_the_file_again() {
    let upstream = Upstream::slow(Duration::from_millis(20)).await;
    let place = Place::new(&config(&upstream, 20, "").replace("initial = 20\n", ""));
    let daemon = place.start(&[]);
    let before = std::fs::read(place.file()).expect("there");
    let _load = Load::start(&daemon, 10);
    finished(&daemon, 200).await;
    assert_eq!(daemon.set("{\"max\": 1, \"bake\": \"1m\"}").await.status(), 200);
    let second = daemon.set("{\"max\": 2}").await;
    assert_eq!(second.status(), 409, "{}", second.text);
    assert!(second.json()["error"].as_str().expect("why").contains("another change bakes"), "{}", second.text);
    daemon.until_max(20).await;
    daemon.until("the file is what is in force", |now| now["ok"] == true).await;
    assert_eq!(std::fs::read(place.file()).expect("there"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_good_change_is_kept_and_the_next_one_waits_for_that() {
    let upstream = Upstream::slow(Duration::from_millis(5)).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    let _load = Load::start(&daemon, 4);
    finished(&daemon, 50).await;
    // A machine that is busy with other tests may well answer later; that is not asked here.
    place.write(&config(&upstream, 30, "[change]\nbake = \"3s\"\nmax_rise = { p99 = 100.0 }\n"));
    daemon.until_max(30).await;
    place.write(&config(&upstream, 40, ""));
    daemon.until("the wait", |now| now["pending"]["why"] == "waiting").await;
    assert_eq!(daemon.limiter().await["max"], 30);
    daemon.until_max(40).await;
    let results: Vec<String> = place.results().into_iter().map(|(result, _)| result).collect();
    assert_eq!(results, ["started", "applied", "waiting", "kept", "applied"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_version_before_ends_a_bake_at_once() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    place.write(&config(&upstream, 30, "[change]\nbake = \"1h\"\n"));
    daemon.until_max(30).await;
    place.write(&config(&upstream, 20, ""));
    daemon.until_max(20).await;
    assert_eq!(daemon.config().await["baking_for_s"], serde_json::Value::Null);
    assert_eq!(place.results().pop().expect("a record").0, "restored");
}
