//! Against a real Alertmanager of the system's packages.

use std::io::Write;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use tidegate::RejectReason;
use tidegate::alerts::{Alertmanager, Receiver, Secret, Settings};

use super::receiver::{Hook, alerts, rejection};

/// Its path; `None` where it is not installed, which is no excuse in CI.
fn binary() -> Option<PathBuf> {
    let names = ["prometheus-alertmanager", "alertmanager"];
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&paths).flat_map(|dir| names.map(|name| dir.join(name))).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "prometheus-alertmanager is not installed (apt-get install)");
        eprintln!("prometheus-alertmanager is not installed: nothing tested");
    }
    found
}

struct Running {
    child: Child,
    dir: PathBuf,
    url: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// One that groups by everything but the instance and tells `hook`.
async fn start(binary: PathBuf, hook: &str) -> Running {
    let dir = std::env::temp_dir().join(format!("tidegate-alertmanager-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let config = format!(
        "route:\n  receiver: hook\n  group_by: [alertname, limiter, route, reason]\n  group_wait: 1s\n  \
         group_interval: 1s\n  repeat_interval: 1h\nreceivers:\n- name: hook\n  webhook_configs:\n  - url: {hook}\n"
    );
    let path = dir.join("alertmanager.yml");
    std::fs::File::create(&path).and_then(|mut file| file.write_all(config.as_bytes())).expect("written");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
    let child = Command::new(binary)
        .arg(format!("--config.file={}", path.display()))
        .arg(format!("--storage.path={}", dir.join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let running = Running { child, dir, url: format!("http://127.0.0.1:{port}") };
    until("it is ready", async || get(&running.url, "/-/ready").await.is_some()).await;
    running
}

async fn get(url: &str, path: &str) -> Option<String> {
    let answer = reqwest::Client::builder().no_proxy().build().ok()?.get(format!("{url}{path}")).send().await.ok()?;
    if !answer.status().is_success() {
        return None;
    }
    answer.text().await.ok()
}

async fn json(url: &str, path: &str) -> Value {
    serde_json::from_str(&get(url, path).await.unwrap_or_default()).unwrap_or_default()
}

async fn until(what: &str, so: impl AsyncFn() -> bool) {
    let all = async {
        while !so().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn alertmanager_groups_instances_tells_once_and_hears_the_end() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(binary) = binary() else { return };
    let (hook, hook_url) = Hook::start([]).await;
    let alertmanager = start(binary, &hook_url).await;
    let to = Receiver::Alertmanager(Alertmanager {
        url: Secret::Text(alertmanager.url.clone()),
        labels: [("team".to_owned(), "checkout".to_owned())].into(),
        token: None,
        // An alert that is not sent again ends after four times this.
        resend: Duration::from_secs(1),
        timeout: Duration::from_secs(5),
    });
    let settings = Settings { period: Duration::from_secs(1), quiet: Duration::from_secs(3), ..Settings::default() };
    let gateway = alerts(to, settings);
    let running = tokio::spawn(gateway.clone().run(Vec::new));
    let tally = gateway.tally(&"payments".into(), &"/pay".into());
    let refuse = || tally.rejected(&rejection(RejectReason::QueueFull), Some("acme"));

    refuse();
    let url = alertmanager.url.as_str();
    until("the alert is there", async || json(url, "/api/v2/alerts").await[0].is_object()).await;
    let alert = json(url, "/api/v2/alerts").await[0].clone();
    let labels = [
        ("alertname", "TidegateRejecting"),
        ("limiter", "payments"),
        ("route", "/pay"),
        ("reason", "queue_full"),
        ("instance", "gw-1"),
        ("team", "checkout"),
    ];
    for (label, value) in labels {
        assert_eq!(alert["labels"][label], value);
    }
    // The same from another instance: its own alert, in the same group.
    let other = include_str!("other_instance.json");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let body = other.to_owned();
    let posted = client.post(format!("{url}/api/v2/alerts")).header("content-type", "application/json").body(body);
    assert!(posted.send().await.expect("an answer").status().is_success());
    let groups = async || json(url, "/api/v2/alerts/groups").await.as_array().cloned().unwrap_or_default();
    until("two alerts are one group", async || {
        let groups = groups().await;
        groups.len() == 1 && groups[0]["alerts"].as_array().is_some_and(|alerts| alerts.len() == 2)
    })
    .await;
    // It stays for longer than it would last without being sent again, and is told once.
    for _ in 0..60 {
        refuse();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let firing = |hook: &Hook| hook.taken().iter().filter(|message| message["status"] == "firing").count();
    assert!(json(url, "/api/v2/alerts?filter=instance%3D%22gw-1%22").await[0].is_object(), "still there");
    assert!((1..=2).contains(&firing(&hook)), "once for each instance that joined: {}", firing(&hook));
    // Then it is quiet.
    until("it is resolved", async || {
        hook.taken()
            .iter()
            .flat_map(|m| m["alerts"].as_array().cloned().unwrap_or_default())
            .any(|alert| alert["status"] == "resolved" && alert["labels"]["instance"] == "gw-1")
    })
    .await;
    let status = &gateway.status().receivers[0];
    assert_eq!((status.failed, status.dropped), (0, 0));
    running.abort();
}
