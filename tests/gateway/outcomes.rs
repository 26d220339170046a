//! What the gateway makes of its upstream's answers, and how it leaves an upstream alone that asks for it.

use http::Response;
use tokio::io::AsyncWriteExt;

use super::harness::*;

/// Answers as the path says: `/429?retry-after=2` and so on; the body is the rest of the query.
async fn obliging() -> Upstream {
    Upstream::start(|request, inside| async move {
        let _visit = inside.enter();
        let path = request.uri().path().trim_start_matches('/').to_owned();
        let mut answer =
            Response::builder().status(path.split('/').next_back().and_then(|s| s.parse().ok()).unwrap_or(200));
        for (name, value) in request.headers() {
            if let Some(name) = name.as_str().strip_prefix("answer-") {
                answer = answer.header(name, value);
            }
        }
        let body = request.headers().get("body").and_then(|body| body.to_str().ok()).unwrap_or("hello").to_owned();
        answer.body(full(body)).expect("a valid response")
    })
    .await
}

async fn ask(gateway: &Gateway, path: &str, headers: &str) -> Answer {
    raw(gateway.address, format!("GET {path} HTTP/1.1\r\nhost: a.b\r\nconnection: close\r\n{headers}\r\n")).await
}

async fn metrics(gateway: &Gateway) -> String {
    get(gateway.admin, "/metrics").await.text
}

fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find(|line| line.starts_with(series)).unwrap_or_else(|| panic!("{series} in {metrics}"));
    line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_told_to_wait_waits_and_the_others_go_on() {
    let upstream = obliging().await;
    let config = format!(
        "{}[[routes]]\nprefix = \"/a\"\nupstream = \"default\"\nlimiter = \"default\"\n\
         [[routes]]\nupstream = \"default\"\nlimiter = \"default\"\n",
        fixed(8)
    );
    let gateway = Gateway::start(&config, upstream.address);
    let told = ask(&gateway, "/a/429", "answer-retry-after: 30\r\n").await;
    assert_eq!((told.status(), told.header("retry-after"), told.body()), (429, Some("30"), "hello"), "as it was sent");
    assert_eq!(told.header("tidegate-rejected"), None);
    let held = ask(&gateway, "/a/200", "").await;
    assert_eq!((held.status(), held.header("tidegate-rejected")), (503, Some("hold_off")));
    let after: u64 = held.header("retry-after").and_then(|after| after.parse().ok()).expect("seconds");
    assert!((29..=36).contains(&after), "{after}");
    let said = held.json();
    assert_eq!((&said["reason"], &said["limiter"]), (&"hold_off".into(), &"default".into()));
    assert_eq!(ask(&gateway, "/b/200", "").await.status(), 200, "another route");
    assert_eq!(upstream.inside.total(), 2, "the one that was held did not arrive");

    let now = gateway.limiter().await;
    assert_eq!((&now["rejected"]["hold_off"], &now["finished"]["throttled"]), (&1.into(), &1.into()), "{now:#}");
    let metrics = metrics(&gateway).await;
    assert!(value(&metrics, "tidegate_hold_off_seconds{destination=\"default\"}") > 25.0);
    assert_eq!(value(&metrics, "tidegate_hold_off_opened_total{destination=\"default\",source=\"retry_after\"}"), 1.0);
    assert_eq!(value(&metrics, "tidegate_rejections_total{limiter=\"default\",reason=\"hold_off\"}"), 1.0);
    assert!(gateway.log().contains("hold-off"), "{}", gateway.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_off_is_by_account_when_the_config_says_so_and_can_be_switched_off() {
    let upstream = obliging().await;
    let keyed = format!("{}[upstreams.default.hold_off]\nby_header = \"authorization\"\n", fixed(8));
    let gateway = Gateway::start(&keyed, upstream.address);
    let secret = "authorization: Bearer S3CRET\r\n";
    ask(&gateway, "/429", &format!("{secret}answer-retry-after: 30\r\n")).await;
    assert_eq!(ask(&gateway, "/200", secret).await.status(), 503);
    assert_eq!(ask(&gateway, "/200", "authorization: Bearer other\r\n").await.status(), 200);
    assert!(!gateway.log().contains("S3CRET") && !metrics(&gateway).await.contains("S3CRET"));

    let off = format!("{}[upstreams.default.hold_off]\nmode = \"off\"\n", fixed(8));
    write(&gateway.file(), &off.replace("UPSTREAM", &format!("http://{}", upstream.address)));
    let began = std::time::Instant::now();
    while ask(&gateway, "/200", secret).await.status() != 200 {
        assert!(began.elapsed() < PATIENCE, "{}", gateway.log());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_tell_what_heads_do_not_and_pass_unchanged() {
    let upstream = obliging().await;
    let own = "[[classify]]\nname = \"partner\"\nstatus = 409\ntext = [\"too busy\"]\noutcome = \"overloaded\"\n";
    let gateway = Gateway::start(&format!("{}{own}", fixed(8)), upstream.address);
    for (path, headers, body, outcome) in [
        ("/429", "", r#"{"error":{"code":"insufficient_quota"}}"#, "exhausted"),
        ("/400", "", r#"{"__type":"ThrottlingException"}"#, "throttled"),
        ("/409", "", "We are Too Busy", "overloaded"),
        ("/409", "", "taken", "caller"),
        (
            "/200",
            "answer-content-type: application/x-amz-json-1.0\r\n",
            r#"{"UnprocessedItems":{"t":[{}]}}"#,
            "throttled",
        ),
        (
            "/200",
            "answer-content-type: text/event-stream\r\n",
            r#"data: {"error":{"code":"overloaded"}}"#,
            "overloaded",
        ),
    ] {
        let before = gateway.limiter().await["finished"][outcome].as_u64().expect("a number");
        let answer = ask(&gateway, path, &format!("{headers}body: {body}\r\n")).await;
        assert!(answer.tidy && answer.body().contains(body), "{}", answer.text);
        let now = gateway.until("the end", |now| now["in_flight"] == 0).await;
        assert_eq!(now["finished"][outcome], before + 1, "{path} {body}: {:#}", now["finished"]);
    }
    let now = gateway.limiter().await;
    let total: u64 = now["finished"].as_object().expect("counts").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(total, 6, "each counts once: {:#}", now["finished"]);
    let metrics = metrics(&gateway).await;
    for (rule, outcome) in
        [("partner", "overloaded"), ("throttle-code", "throttled"), ("account-exhausted", "exhausted")]
    {
        let labels = format!("{{upstream=\"default\",rule=\"{rule}\",outcome=\"{outcome}\"}}");
        assert_eq!(value(&metrics, &format!("tidegate_answers_total{labels}")), 1.0, "{rule}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_a_refusal_unread_does_not_hide_it() {
    let upstream = Upstream::start(|_, inside| async move {
        let visit = inside.enter();
        let (frames, body) = stream();
        tokio::spawn(async move {
            let _visit = visit;
            while send(&frames, "wait, there is more\n").await {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
        Response::builder().status(429).body(body).expect("valid")
    })
    .await;
    let gateway = Gateway::start(&fixed(8), upstream.address);
    let mut tcp = tokio::net::TcpStream::connect(gateway.address).await.expect("listening");
    tcp.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.expect("taken");
    upstream.inside.until("the request", |inside| inside.now() == 1).await;
    tcp.readable().await.expect("an answer");
    drop(tcp);
    let now = gateway.until("the end", |now| now["in_flight"] == 0 && now["finished"]["throttled"] == 1).await;
    assert_eq!(now["finished"]["cancelled"], 0);
}
