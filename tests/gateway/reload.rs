//! A config file that changes under load: applied in place within a second, all or nothing.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::harness::*;

fn config(upstream: &Upstream, min: u32, max: u32, rest: &str) -> String {
    format!(
        "[upstreams.default]\nurl = \"http://{}\"\n[limiters.default]\nmin = {min}\nmax = {max}\nlaw = \"fixed\"\n{rest}",
        upstream.address
    )
}

/// Asks again and again, and notes every answer that is not 200 or 503.
struct Load {
    stop: Arc<AtomicBool>,
    clients: Vec<tokio::task::JoinHandle<Vec<String>>>,
    served: Arc<AtomicUsize>,
}

impl Load {
    fn start(gateway: &Gateway, clients: usize) -> Self {
        let (stop, served, address) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)), gateway.address);
        let client = |_| {
            let (stop, served) = (stop.clone(), served.clone());
            tokio::spawn(async move {
                let mut lost = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let answer = get(address, "/").await;
                    match answer.status() {
                        200 if answer.tidy => drop(served.fetch_add(1, Ordering::Relaxed)),
                        503 if answer.tidy => {}
                        _ => lost.push(answer.text),
                    }
                }
                lost
            })
        };
        let clients = (0..clients).map(client).collect();
        Self { stop, clients, served }
    }

    async fn end(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            let lost = client.await.expect("ran");
            assert!(lost.is_empty(), "lost: {lost:?}");
        }
        self.served.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_change_within_a_second_under_load_and_no_request_is_lost() {
    let upstream = Upstream::slow(Duration::from_millis(5)).await;
    let gateway = Gateway::start(&config(&upstream, 4, 4, ""), upstream.address);
    let load = Load::start(&gateway, 16);
    for n in [8, 2, 12, 1, 6] {
        let began = Instant::now();
        write(&gateway.file(), &config(&upstream, n, n, ""));
        gateway.until("the new bounds", |now| now["limit"] == n).await;
        // Printed, not asserted: a loaded machine is no reason to fail.
        println!("limit {n} after {:?}", began.elapsed());
    }
    assert!(load.end().await > 0);
    assert!(upstream.inside.peak() <= 12);
    assert_eq!(gateway.api("/api/v1/config").await["version"], 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lower_limit_binds_at_once_with_a_full_queue() {
    let upstream = Upstream::slow(Duration::from_millis(100)).await;
    let queue = "queue = { length = 1000, wait = \"1m\" }\n";
    let gateway = Gateway::start(&config(&upstream, 20, 20, queue), upstream.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..120).map(|_| tokio::spawn(async move { get(address, "/").await.status() })).collect();
    gateway.until("the queue", |now| now["queued"].as_u64() > Some(50)).await;
    write(&gateway.file(), &config(&upstream, 2, 2, queue));
    gateway.until("the new limit", |now| now["limit"] == 2).await;
    upstream.inside.until("two inside", |inside| inside.now() <= 2).await;
    upstream.inside.forget_peak();
    write(&gateway.file(), &config(&upstream, 2, 2, &format!("{queue}# touched\n")));
    let still = gateway.limiter().await;
    assert!(still["queued"].as_u64() > Some(0), "the queue is still there: {still}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(upstream.inside.peak() <= 2, "{}", upstream.inside.peak());
    write(&gateway.file(), &config(&upstream, 60, 60, queue));
    for client in clients {
        assert_eq!(client.await.expect("ran"), 200, "nobody in the queue is lost");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_flight_and_learned_survives_a_reload() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let gateway = Gateway::start(&config(&upstream, 1, 500, "initial = 37\n"), upstream.address);
    let holder = tokio::spawn(get(gateway.address, "/"));
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    write(&gateway.file(), &config(&upstream, 1, 400, "initial = 5\n"));
    let now = gateway.until("the new maximum", |now| now["max"] == 400).await;
    assert_eq!((&now["limit"], &now["in_flight"]), (&37.into(), &1.into()), "{now}");
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_file_changes_nothing_and_says_why() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&config(&upstream, 3, 3, ""), upstream.address);
    write(&gateway.file(), &config(&upstream, 5, 2, "mode = \"sahdow\"\n"));
    let began = Instant::now();
    let refused = loop {
        let now = gateway.api("/api/v1/config").await;
        if now["ok"] == false {
            break now;
        }
        assert!(began.elapsed() < PATIENCE, "{now}");
    };
    let error = refused["error"].as_str().expect("why");
    assert!(error.contains("tidegate.toml:5:7: limiters.default.max: max 2 is below min 5"), "{error}");
    assert!(
        error.contains("tidegate.toml:7:8: limiters.default.mode = \"sahdow\": did you mean \"shadow\"?"),
        "{error}"
    );
    let now = gateway.limiter().await;
    assert_eq!((&now["min"], &now["max"], &now["mode"]), (&3.into(), &3.into(), &"enforce".into()));
    assert_eq!(get(gateway.address, "/").await.status(), 200);
    let metrics = get(gateway.admin, "/metrics").await.text;
    for line in
        ["tidegate_config_ok 0", "tidegate_fallback_active{kind=\"config\"} 1", "tidegate_config_refused_total 1"]
    {
        assert!(metrics.lines().any(|l| l == line), "{line}\n{metrics}");
    }
    let ready = get(gateway.admin, "/health/ready").await;
    assert_eq!((ready.status(), &ready.json()["config_ok"]), (200, &false.into()));
    write(&gateway.file(), &config(&upstream, 6, 6, ""));
    gateway.until("the good file", |now| now["limit"] == 6).await;
    assert_eq!(gateway.log().matches("config not applied").count(), 1, "{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_in_pieces_is_never_seen_in_part() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&config(&upstream, 3, 3, ""), upstream.address);
    for n in [5, 9] {
        let text = config(&upstream, n, n, "initial = 5\n").replace("initial = 5", &format!("initial = {n}"));
        let (first, second) = text.split_at(text.find("max").expect("there"));
        // Truncate, stall, half, stall, rest: the half is a valid config with the default maximum.
        let mut file = std::fs::File::create(gateway.file()).expect("writable");
        for part in [first, second] {
            let until = Instant::now() + Duration::from_millis(450);
            while Instant::now() < until {
                let max = gateway.limiter().await["max"].clone();
                assert!(max == 3 || max == 5, "{max} came from a part");
            }
            file.write_all(part.as_bytes()).expect("writable");
            file.flush().expect("writable");
        }
        drop(file);
        gateway.until("the whole", |now| now["max"] == n).await;
    }
    let log = gateway.log();
    assert!(!log.contains("ERROR"), "{log}");
    assert_eq!(gateway.api("/api/v1/config").await["version"], 3, "one reload for each save");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_to_save_is_seen_and_each_time_again() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&config(&upstream, 1, 1, ""), upstream.address);
    let file = gateway.file();
    let mut n = 1;
    for way in ["rename", "in place", "append", "copy", "gone and back", "rename", "in place"] {
        n += 1;
        let text = config(&upstream, n, n, "");
        match way {
            "rename" => write(&file, &text),
            "in place" => std::fs::write(&file, &text).expect("writable"),
            "append" => {
                std::fs::write(&file, &text).expect("writable");
                let mut file = std::fs::OpenOptions::new().append(true).open(&file).expect("there");
                writeln!(file, "mode = \"enforce\"").expect("writable");
            }
            "copy" => {
                let other = gateway.dir.join("other.toml");
                std::fs::write(&other, &text).expect("writable");
                std::fs::copy(&other, &file).map(drop).expect("writable");
            }
            _ => {
                std::fs::remove_file(&file).expect("there");
                tokio::time::sleep(Duration::from_millis(50)).await;
                std::fs::write(&file, &text).expect("writable");
            }
        }
        gateway.until(way, |now| now["max"] == n).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_swaps_are_each_applied_once() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let dir = fresh_dir();
    let version = |n: u32| {
        let data = dir.join(format!("..t{n}"));
        std::fs::create_dir(&data).expect("writable");
        std::fs::write(data.join("tidegate.toml"), config(&upstream, n, n, "")).expect("writable");
        std::os::unix::fs::symlink(&data, dir.join("..data_tmp")).expect("writable");
        std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).expect("writable");
        let _ = std::fs::remove_dir_all(dir.join(format!("..t{}", n - 1)));
    };
    version(1);
    let file = dir.join("tidegate.toml");
    std::os::unix::fs::symlink("..data/tidegate.toml", &file).expect("writable");
    let gateway = Gateway::with_args(&["--config", file.to_str().expect("text")]);
    for n in 2..=4 {
        version(n);
        gateway.until("the swap", |now| now["max"] == n).await;
        assert_eq!(gateway.api("/api/v1/config").await["version"], n);
    }
    let _ = std::fs::remove_dir_all(dir);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_the_command_line_survive_reloads() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let dir = fresh_dir();
    let file = dir.join("tidegate.toml");
    let text = |min: u32| format!("[limiters.default]\nmin = {min}\nmax = 900\n");
    std::fs::write(&file, text(3)).expect("writable");
    let url = format!("http://{}", upstream.address);
    let gateway = Gateway::with_args(&["--upstream", &url, "--max", "40", "--config", file.to_str().expect("text")]);
    assert_eq!(gateway.limiter().await["max"], 40);
    write(&file, &text(4));
    let now = gateway.until("the new minimum", |now| now["min"] == 4).await;
    assert_eq!(now["max"], 40);
    assert_eq!(get(gateway.address, "/").await.status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hangup_makes_it_look() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&config(&upstream, 3, 3, ""), upstream.address);
    write(&gateway.file(), &config(&upstream, 4, 4, ""));
    gateway.signal("HUP");
    gateway.until("the change", |now| now["limit"] == 4).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limiter_that_is_removed_drains_and_its_queue_is_told() {
    let upstream = Upstream::slow(Duration::from_secs(2)).await;
    let queue = "queue = { length = 5, wait = \"5m\" }\n";
    let gateway = Gateway::start(&config(&upstream, 1, 1, queue), upstream.address);
    let address = gateway.address;
    let holder = tokio::spawn(async move { get(address, "/").await });
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    let waiter = tokio::spawn(async move { get(address, "/").await });
    gateway.until("the waiter", |now| now["queued"] == 1).await;
    write(&gateway.file(), &config(&upstream, 1, 1, queue).replace("limiters.default", "limiters.other"));
    let told = waiter.await.expect("ran");
    assert_eq!((told.status(), told.header("tidegate-rejected")), (503, Some("closed")), "{}", told.text);
    assert_eq!(holder.await.expect("ran").status(), 200, "who is in flight finishes");
    assert_eq!(get(gateway.admin, "/api/v1/limiters/default").await.status(), 404);
}
