//! A request's deadline: read on arrival, kept through the queue, told to the upstream, and met.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use http::Response;

use super::harness::*;

/// Notes the values of a header, and answers `/slow` only after a long time.
async fn noting(header: &'static str) -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let upstream = Upstream::start(move |request, inside| {
        let notes = notes.clone();
        async move {
            let _visit = inside.enter();
            let value = request.headers().get(header).map(|value| value.to_str().expect("text").to_owned());
            notes.lock().expect("whole").push(value.unwrap_or_else(|| "none".into()));
            if request.uri().path() == "/slow" {
                tokio::time::sleep(Duration::from_secs(600)).await;
            }
            Response::new(full("hello"))
        }
    })
    .await;
    (upstream, seen)
}

const ROUTE: &str = "[[routes]]\nupstream = \"default\"\nlimiter = \"default\"\n";

async fn with_header(gateway: &Gateway, path: &str, header: &str) -> Answer {
    raw(gateway.address, format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{header}\r\n\r\n")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_deadline_is_told_to_the_upstream() {
    let (upstream, seen) = noting("x-timeout").await;
    let route = format!("{ROUTE}deadline = {{ header = \"x-timeout\", unit = \"s\", budget = \"20s\" }}\n");
    let gateway = Gateway::start(&format!("{}{route}", fixed(4)), upstream.address);
    assert_eq!(with_header(&gateway, "/", "x-timeout: 5.0").await.status(), 200);
    assert_eq!(with_header(&gateway, "/", "x-timeout: 500").await.status(), 200);
    assert_eq!(with_header(&gateway, "/", "x-timeout: soon").await.status(), 200);
    let seen: Vec<f64> = seen.lock().expect("whole").iter().map(|text| text.parse().expect("a number")).collect();
    assert!(seen[0] < 5.0 && seen[0] > 0.0, "less what was spent: {seen:?}");
    assert!(seen[1..].iter().all(|left| *left < 20.0 && *left > 0.0), "the route's budget is the most: {seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_wait_for_the_upstream_and_counts_as_overload() {
    let (upstream, _) = noting("x-timeout-ms").await;
    let route = format!("{ROUTE}deadline = {{ header = \"x-timeout-ms\" }}\n");
    let gateway = Gateway::start(&format!("{}{route}", fixed(4)), upstream.address);
    let answer = with_header(&gateway, "/slow", "x-timeout-ms: 200").await;
    assert_eq!((answer.status(), answer.json()["error"].as_str()), (504, Some("deadline_exceeded")));
    upstream.inside.until("the call to be dropped", |inside| inside.now() == 0).await;
    assert_eq!(gateway.limiter().await["finished"]["overloaded"], 1);
    let late = with_header(&gateway, "/", "x-timeout-ms: 0").await;
    assert_eq!((late.status(), late.header("tidegate-rejected")), (503, Some("deadline_unmeetable")));
    assert_eq!(upstream.inside.total(), 1, "what comes too late is not passed on");
}

#[tokio::test(flavor = "multi_thread")]
async fn time_in_the_queue_comes_off_what_the_upstream_is_told() {
    let (upstream, seen) = noting("x-timeout-ms").await;
    let route = format!("{ROUTE}deadline = {{ header = \"x-timeout-ms\" }}\n");
    let config = format!("{}queue = {{ length = 5, wait = \"1m\" }}\n{route}", fixed(1));
    let gateway = Gateway::start(&config, upstream.address);
    let slow = with_header(&gateway, "/slow", "x-timeout-ms: 1000");
    let began = Instant::now();
    let queued = async {
        upstream.inside.until("the holder", |inside| inside.now() == 1).await;
        with_header(&gateway, "/", "x-timeout-ms: 20000").await
    };
    let (slow, queued) = tokio::join!(slow, queued);
    assert_eq!((slow.status(), queued.status()), (504, 200));
    let left: u64 = seen.lock().expect("whole")[1].parse().expect("a number");
    // It waited for the holder's deadline, less the moment in which the holder came to the upstream.
    assert!(began.elapsed() >= Duration::from_secs(1) && left < 19_900, "{left} ms left");
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_timeouts_travel_too() {
    let (upstream, seen) = noting("grpc-timeout").await;
    let config = format!("[upstreams.default]\nurl = \"UPSTREAM\"\nhttp2 = true\n[limiters.default]\n{ROUTE}");
    let gateway = Gateway::start(&config, upstream.address);
    let mut client = http2(gateway.address).await;
    let mut call = async |timeout: &str| {
        let mut request = http::Request::post("http://a/x.Y/Z").body(full("")).expect("valid");
        request.headers_mut().insert("content-type", "application/grpc".parse().expect("value"));
        if !timeout.is_empty() {
            request.headers_mut().insert("grpc-timeout", timeout.parse().expect("value"));
        }
        client.send_request(request).await.expect("an answer").status().as_u16()
    };
    assert_eq!((call("2S").await, call("").await), (200, 200));
    let seen = seen.lock().expect("whole").clone();
    let left = tidegate::deadline::parse_grpc_timeout(&seen[0]).expect("a timeout");
    assert!(left < Duration::from_secs(2) && left > Duration::ZERO, "{seen:?}");
    assert_eq!(seen[1], "none", "who brings no deadline is given none");
}
