//! The admin port: metrics under their promised names, health, limiters with reasons, the config.

use std::time::Duration;

use super::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_the_names_that_others_rely_on() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&fixed(3), upstream.address);
    for _ in 0..5 {
        get(gateway.address, "/").await;
    }
    let text = get(gateway.admin, "/metrics").await.text;
    for line in [
        "tidegate_inflight{limiter=\"default\"} 0",
        "tidegate_limit{limiter=\"default\"} 3",
        "tidegate_limit_min{limiter=\"default\"} 3",
        "tidegate_limit_max{limiter=\"default\"} 3",
        "tidegate_queued{limiter=\"default\"} 0",
        "tidegate_rejections_total{limiter=\"default\",reason=\"limit_reached\"} 0",
        "tidegate_fallback_active{limiter=\"default\",kind=\"signal\"} 0",
        "tidegate_fallback_active{kind=\"config\"} 0",
        "tidegate_finished_total{limiter=\"default\",outcome=\"success\"} 5",
        "tidegate_latency_seconds_count{limiter=\"default\"} 5",
        "tidegate_latency_seconds_bucket{limiter=\"default\",le=\"+Inf\"} 5",
        "tidegate_config_ok 1",
        "tidegate_config_version 1",
        "# TYPE tidegate_rejections_total counter",
        "# HELP tidegate_limit The limit in force",
    ] {
        assert!(text.lines().any(|l| l == line), "{line}\nmissing in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limiters_decisions_and_config_can_be_asked_for() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&fixed(3), upstream.address);
    let all = gateway.api("/api/v1/limiters").await;
    assert_eq!((&all["limiters"][0]["name"], &all["limiters"][0]["limit"]), (&"default".into(), &3.into()));
    write(&gateway.file(), &fixed(7).replace("UPSTREAM", &format!("http://{}", upstream.address)));
    gateway.until("the new bounds", |now| now["limit"] == 7).await;
    let decisions = gateway.api("/api/v1/limiters/default/decisions").await;
    // A window may have closed since.
    let all = decisions["decisions"].as_array().expect("a list");
    let newest = all.iter().find(|decision| decision["reason"] == "bounds").expect("the change");
    assert_eq!((&newest["reason"], &newest["old"], &newest["new"]), (&"bounds".into(), &3.into(), &7.into()));
    assert_eq!(newest["inputs"]["max"], 7.0);
    let config = gateway.api("/api/v1/config").await;
    let text = std::fs::read(gateway.file()).expect("there");
    assert_eq!(config["hash"], tidegate::config::content_hash(&text).as_str());
    assert_eq!((&config["version"], &config["ok"], &config["error"]), (&2.into(), &true.into(), &().into()));
    let missing = get(gateway.admin, "/api/v1/limiters/nobody").await;
    assert_eq!((missing.status(), &missing.json()["limiters"][0]), (404, &"default".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_token_reloads() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&fixed(3), upstream.address);
    let post = async |token: &str| {
        let auth = if token.is_empty() { String::new() } else { format!("authorization: Bearer {token}\r\n") };
        let head =
            format!("POST /api/v1/reload HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{auth}content-length: 0\r\n\r\n");
        raw(gateway.admin, head).await
    };
    for wrong in ["", "let-me", "let-me-in2"] {
        assert_eq!(post(wrong).await.status(), 403, "{wrong}");
    }
    std::fs::write(gateway.file(), "limiters = 1").expect("writable");
    let refused = post("let-me-in").await;
    assert_eq!(refused.status(), 422, "{}", refused.text);
    assert!(refused.body().contains("tidegate.toml:1:"), "{}", refused.body());
    std::fs::write(gateway.file(), fixed(4).replace("UPSTREAM", &format!("http://{}", upstream.address)))
        .expect("writable");
    assert_eq!(post("let-me-in").await.status(), 200);
    assert_eq!(gateway.limiter().await["limit"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_not_taken() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::start(&fixed(3), upstream.address);
    let answer = raw(gateway.admin, "DELETE /api/v1/limiters HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
    assert_eq!(answer.status(), 405);
    assert_eq!(get(gateway.admin, "/nothing").await.status(), 404);
}
