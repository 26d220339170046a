use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::extract::Query;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::Value;
use tokio::net::TcpListener;

use super::files::{dashboards, queries};
use super::system::{Dir, Process, free_port, program};

/// Nothing in a config makes a shadow law run, and the gateway has no breaker, so these have no series.
const WITHOUT_SERIES: [&str; 3] = ["tidegate_shadow_limit", "tidegate_shadow_would_reject_total", "tidegate_breaker_"];

#[derive(serde::Deserialize)]
struct Ask {
    status: Option<u16>,
    ms: Option<u64>,
}

/// Serves what it is given; answers as it is asked to.
async fn serve(router: Router) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move { axum::serve(listener, router).await });
    port
}

async fn answer(Query(ask): Query<Ask>) -> (StatusCode, HeaderMap) {
    tokio::time::sleep(Duration::from_millis(ask.ms.unwrap_or(10))).await;
    let status = StatusCode::from_u16(ask.status.unwrap_or(200)).expect("a status");
    let mut headers = HeaderMap::new();
    if status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert("retry-after", HeaderValue::from(1));
    }
    (status, headers)
}

fn config(upstream: u16, hook: u16, audit: &Path) -> String {
    format!(
        "[audit]\ndir = \"{}\"\n[alerts.webhooks.hook]\nurl = \"http://127.0.0.1:{hook}/\"\n\
         [upstreams.main]\nurl = \"http://127.0.0.1:{upstream}\"\n\
         [limiters.main]\nmin = 2\nmax = 8\nlaw = \"knee\"\nqueue = {{ length = 4, wait = \"50ms\" }}\n\
         [limiters.main.classes.query]\nreserve = \"25%\"\nlend = \"allowed\"\n\
         [limiters.watched]\nmin = 1\nmax = 2\nmode = \"shadow\"\n\
         [ceilings.partner]\nrate = 50\nmin = 5\nmax = 100\nburst = 5\n\
         shared = {{ url = \"redis://127.0.0.1:9\", members = 2 }}\n\
         [[routes]]\nprefix = \"/paced\"\nupstream = \"main\"\nceiling = \"partner\"\n\
         [[routes]]\nprefix = \"/watched\"\nupstream = \"main\"\nlimiter = \"watched\"\n\
         [[routes]]\nprefix = \"/\"\nupstream = \"main\"\nlimiter = \"main\"\n",
        audit.display()
    )
}

/// Clients that ask for everything that can happen, until they are dropped.
fn load(gateway: u16) -> tokio::task::JoinSet<()> {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let asks =
        ["/", "/?ms=20", "/?status=429", "/?status=503", "/?status=500", "/?status=404", "/watched?ms=30", "/paced"];
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..24_usize {
        let client = client.clone();
        clients.spawn(async move {
            for turn in n.. {
                let ask = if turn % 3 == 0 { asks[turn / 3 % asks.len()] } else { "/" };
                let asked = client.get(format!("http://127.0.0.1:{gateway}{ask}")).timeout(Duration::from_secs(5));
                // Refusals are what this is about.
                let _ = asked.send().await;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
    }
    clients
}

/// Query and what it is for, with Grafana's variables filled in.
fn filled_in() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (path, dashboard) in dashboards() {
        let limiter = if path.contains("limiter") { "main" } else { ".*" };
        for (title, expr) in queries(&dashboard) {
            if WITHOUT_SERIES.iter().any(|name| expr.contains(name)) {
                continue;
            }
            let expr = expr.replace("$__rate_interval", "10s").replace("$limiter", limiter).replace("$instance", ".*");
            assert!(!expr.contains('$'), "{path}: {title}: {expr}");
            all.push((format!("{path}: {title}"), expr));
        }
    }
    all
}

async fn series(prometheus: u16, expr: &str) -> usize {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let mut query = String::new();
    expr.bytes().for_each(|byte| write!(query, "%{byte:02x}").expect("text"));
    let asked = client.get(format!("http://127.0.0.1:{prometheus}/api/v1/query?query={query}")).send().await;
    let Ok(answer) = asked else { return 0 };
    let answer: Value = answer.json().await.unwrap_or_default();
    answer["data"]["result"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_panel_draws_what_a_real_prometheus_scraped_from_a_real_gateway() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Some(binary) = program("prometheus") else { return };
    let dir = Dir::new("dashboards");
    let upstream = serve(Router::new().fallback(answer)).await;
    let hook = serve(Router::new().fallback(async || StatusCode::OK)).await;
    let (gateway, admin, prometheus) = (free_port(), free_port(), free_port());
    let file = dir.0.join("tidegate.toml");
    std::fs::write(&file, config(upstream, hook, &dir.0.join("audit"))).expect("written");
    let _gateway = Process::start(
        Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", &format!("127.0.0.1:{gateway}"), "--admin", &format!("127.0.0.1:{admin}")])
            .arg("--config")
            .arg(&file),
    );
    let rules = std::env::current_dir().expect("a directory").join("dashboards/prometheus/rules/tidegate.yml");
    let scrape = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: ['{}']\nscrape_configs:\n\
         - job_name: tidegate\n  static_configs: [{{ targets: ['127.0.0.1:{admin}'] }}]\n",
        rules.display()
    );
    let scrapes = dir.0.join("prometheus.yml");
    std::fs::write(&scrapes, scrape).expect("written");
    let _prometheus = Process::start(
        Command::new(binary)
            .arg(format!("--config.file={}", scrapes.display()))
            .arg(format!("--storage.tsdb.path={}", dir.0.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{prometheus}")),
    );
    let _load = load(gateway);
    let mut missing = filled_in();
    assert!(missing.len() > 40);
    let all_there = async {
        while !missing.is_empty() {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut still = Vec::new();
            for (title, expr) in std::mem::take(&mut missing) {
                if series(prometheus, &expr).await == 0 {
                    still.push((title, expr));
                }
            }
            missing = still;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(120), all_there).await;
    assert!(done.is_ok(), "without series: {missing:#?}");
    for recorded in ["tidegate:rejections:ratio5m", "tidegate:utilisation:ratio", "tidegate:latency_seconds:p99_5m"] {
        assert!(series(prometheus, recorded).await > 0, "{recorded}");
    }
    // What was refused is an alert by now.
    assert!(series(prometheus, "tidegate_alerts_firing{kind=\"rejections\"} > 0").await > 0);
    assert!(series(prometheus, "tidegate_alerts_delivered_total > 0").await > 0);
}
