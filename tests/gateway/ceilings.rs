//! Ceilings in the gateway: charged for each request that goes out, changed live, safe without their store.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::harness::*;

fn config(ceiling: &str) -> String {
    format!(
        "[upstreams.default]\nurl = \"UPSTREAM\"\n[limiters.default]\nceiling = \"partner\"\n[ceilings.partner]\n{ceiling}"
    )
}

/// A sample of the metrics.
async fn metric(gateway: &Gateway, series: &str) -> Option<f64> {
    let text = get(gateway.admin, "/metrics").await.text;
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
    line.map(|value| value.trim().parse().expect("a number"))
}

async fn until_metric(gateway: &Gateway, series: &str, wanted: f64) {
    for _ in 0..3000 {
        if metric(gateway, series).await == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{series} never was {wanted}: {}", get(gateway.admin, "/metrics").await.text);
}

const FALLBACK: &str = "tidegate_fallback_active{ceiling=\"partner\",kind=\"ceiling\"}";

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_passes_and_the_rest_is_refused_with_the_ceilings_numbers() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&config("rate = 0.01\nburst = 5\nwait = \"0s\"\n"), upstream.address);
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(get(gateway.address, "/").await);
    }
    let statuses: Vec<_> = answers.iter().map(Answer::status).collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 503, 503, 503]);
    let refused: serde_json::Value = serde_json::from_str(answers[7].body()).expect("JSON");
    assert_eq!((&refused["reason"], &refused["limiter"]), (&"ceiling".into(), &"partner".into()));
    let wait = refused["retry_after_ms"].as_u64().expect("a number");
    assert!((90_000..=100_000).contains(&wait), "one in 100 s: {wait}");
    let header = answers[7].header("retry-after").expect("a header").parse::<u64>().expect("seconds");
    assert_eq!(header, wait.div_ceil(1000));
    assert_eq!(metric(&gateway, "tidegate_ceiling_consumed_total{ceiling=\"partner\"}").await, Some(5.0));
    let now = gateway.limiter().await;
    assert_eq!((&now["rejected"]["ceiling"], &now["finished"]["success"]), (&3.into(), &5.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_the_limiter_refuses_costs_nothing() {
    let upstream = Upstream::slow(Duration::from_secs(2)).await;
    let text =
        config("rate = 0.01\nburst = 2\n").replace("ceiling = \"partner\"", "ceiling = \"partner\"\nmin = 1\nmax = 1");
    let gateway = Gateway::start(&text, upstream.address);
    let address = gateway.address;
    let first = tokio::spawn(async move { get(address, "/").await.status() });
    upstream.inside.until("the first", |inside| inside.now() == 1).await;
    for _ in 0..5 {
        assert!(get(address, "/").await.text.contains("limit_reached"));
    }
    assert_eq!(first.await.expect("ran"), 200);
    assert_eq!(metric(&gateway, "tidegate_ceiling_refunded_total{ceiling=\"partner\"}").await, Some(5.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_throttle_cuts_the_rate_and_a_reload_changes_it_without_a_free_burst() {
    let upstream = Upstream::start(|_, _| async {
        http::Response::builder().status(429).body(full("slow down")).expect("a response")
    })
    .await;
    let rate = |rate: u32| config(&format!("rate = {rate}\nmin = 1\nmax = 1000\nburst = 3\nwait = \"0s\"\n"));
    let gateway = Gateway::start(&rate(100), upstream.address);
    let series = "tidegate_ceiling_rate{ceiling=\"partner\"}";
    assert_eq!(get(gateway.address, "/").await.status(), 429);
    until_metric(&gateway, "tidegate_ceiling_throttled_total{ceiling=\"partner\"}", 1.0).await;
    let cut = metric(&gateway, series).await.expect("a rate");
    assert!((cut - 63.0).abs() < 0.01, "{cut}");
    write(&gateway.file(), &rate(200).replace("UPSTREAM", &format!("http://{}", upstream.address)));
    until_metric(&gateway, series, 200.0).await;
}

/// Killed when dropped.
struct Redis(Child, u16);

impl Redis {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").expect("a free port").local_addr().expect("bound").port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        Self(child, port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_lost_is_seen_in_metrics_log_and_audit_and_requests_go_on() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let redis = Redis::start();
    let audit = fresh_dir();
    let shared = format!(
        "rate = 1000\nburst = 100\nshared = {{ url = \"redis://127.0.0.1:{}\" }}\n[audit]\ndir = \"{}\"\n",
        redis.1,
        audit.display()
    );
    let gateway = Gateway::start(&config(&shared), upstream.address);
    until_metric(&gateway, FALLBACK, 0.0).await;
    for _ in 0..20 {
        assert_eq!(get(gateway.address, "/").await.status(), 200);
    }
    assert_eq!(metric(&gateway, "tidegate_ceiling_source{ceiling=\"partner\",source=\"shared\"}").await, Some(1.0));
    drop(redis);
    until_metric(&gateway, FALLBACK, 1.0).await;
    for _ in 0..20 {
        assert_eq!(get(gateway.address, "/").await.status(), 200);
    }
    for _ in 0..1000 {
        let records = gateway.api("/api/v1/audit").await.to_string();
        if records.contains("fell_back") && records.contains("cannot be reached") {
            assert_eq!(gateway.log().matches("ceiling falls back").count(), 1, "{}", gateway.log());
            let _ = std::fs::remove_dir_all(&audit);
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("no record: {}", gateway.api("/api/v1/audit").await);
}
