//! Classes by route and header, tenants by header: who gets a place when there are not enough.

use std::time::{Duration, Instant};

use http::Response;

use super::harness::*;

fn shared(more: &str) -> String {
    format!(
        "{}{more}\n[[routes]]\nprefix = \"/query\"\nupstream = \"default\"\nlimiter = \"default\"\nclass = \"query\"\n\
         [[routes]]\nupstream = \"default\"\nlimiter = \"default\"\n",
        fixed(8)
    )
}

async fn ask(address: std::net::SocketAddr, path: &str, header: &str) -> u16 {
    raw(address, format!("GET {path} HTTP/1.1\r\nhost: a\r\n{header}connection: close\r\n\r\n")).await.status()
}

fn class(now: &serde_json::Value, name: &str) -> serde_json::Value {
    let all = now["classes"].as_array().expect("classes");
    all.iter().find(|class| class["name"] == name).cloned().unwrap_or_else(|| panic!("{name} in {all:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_by_route_or_header_keeps_its_reserve_while_others_fill_the_rest() {
    let upstream = Upstream::slow(Duration::from_millis(1500)).await;
    let gateway = Gateway::start(
        &shared(
            "class_header = \"x-class\"\n[limiters.default.classes.query]\nreserve = \"25%\"\n[limiters.default.classes.bulk]\ncap = \"2\"",
        ),
        upstream.address,
    );
    let address = gateway.address;
    let start = |n: usize, path: &'static str, header: &'static str| {
        (0..n).map(|_| tokio::spawn(ask(address, path, header))).collect::<Vec<_>>()
    };
    let mut all = start(2, "/other", "x-class: bulk\r\n");
    gateway.until("bulk", |now| class(now, "bulk")["in_flight"] == 2).await;
    assert_eq!(ask(address, "/other", "x-class: bulk\r\n").await, 503);
    all.extend(start(4, "/other", "x-class: nobody knows it\r\n"));
    gateway.until("others", |now| class(now, "default")["in_flight"] == 4).await;
    assert_eq!(ask(address, "/other", "").await, 503, "the rest is reserved");
    all.extend(start(1, "/query", ""));
    all.extend(start(1, "/other", "x-class: query\r\n"));
    let now = gateway.until("queries", |now| class(now, "query")["in_flight"] == 2).await;
    assert_eq!(now["in_flight"], 8);
    assert_eq!(class(&now, "query")["reserve"], 2);
    assert_eq!(class(&now, "bulk")["rejected"]["class_cap"], 1);
    assert_eq!(class(&now, "default")["rejected"]["limit_reached"], 1);
    for one in all {
        assert_eq!(one.await.expect("ran"), 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn classes_are_reloaded_while_requests_are_in_flight() {
    let upstream = Upstream::slow(Duration::from_millis(800)).await;
    let gateway = Gateway::start(&shared("[limiters.default.classes.query]\nreserve = \"6\""), upstream.address);
    let address = gateway.address;
    let early = tokio::spawn(ask(address, "/query", ""));
    gateway.until("one", |now| class(now, "query")["in_flight"] == 1).await;
    let text = std::fs::read_to_string(gateway.file()).expect("a file").replace("reserve = \"6\"", "reserve = \"1\"");
    write(&gateway.file(), &text);
    gateway.until("the new reserve", |now| class(now, "query")["reserve"] == 1).await;
    let others: Vec<_> = (0..7).map(|_| tokio::spawn(ask(address, "/other", ""))).collect();
    for other in others {
        assert_eq!(other.await.expect("ran"), 200);
    }
    assert_eq!(early.await.expect("ran"), 200);
}

/// One tenant floods, five ask one after the other: shares by what each got done.
#[tokio::test(flavor = "multi_thread")]
async fn a_loud_tenant_keeps_no_quiet_one_waiting() {
    let upstream = Upstream::start(|_, inside| async move {
        let _visit = inside.enter();
        tokio::time::sleep(Duration::from_millis(40)).await;
        Response::new(full("done"))
    })
    .await;
    let gateway = Gateway::start(
        &shared(
            "queue = { length = 60, wait = \"5s\" }\ntenants.header = \"x-tenant\"\n[limiters.default.classes.query]\n",
        ),
        upstream.address,
    );
    let address = gateway.address;
    let until = Instant::now() + Duration::from_secs(4);
    let asks = move |tenant: String| async move {
        let mut good = 0_u32;
        while Instant::now() < until {
            good += u32::from(ask(address, "/other", &format!("x-tenant: {tenant}\r\n")).await == 200);
        }
        good
    };
    let loud: Vec<_> = (0..100).map(|_| tokio::spawn(asks("loud".into()))).collect();
    let quiet: Vec<_> = (0..5).map(|n| tokio::spawn(asks(format!("quiet-{n}")))).collect();
    let mut shares = Vec::new();
    for one in quiet {
        shares.push(f64::from(one.await.expect("ran")));
    }
    let mut of_loud = 0;
    for one in loud {
        of_loud += one.await.expect("ran");
    }
    // In order of arrival, each connection would get as much done, whosever it is.
    let jain = shares.iter().sum::<f64>().powi(2) / (5.0 * shares.iter().map(|n| n * n).sum::<f64>());
    assert!(jain > 0.95, "{jain}: {shares:?}");
    let of_a_loud_one = f64::from(of_loud) / 100.0;
    assert!(shares.iter().all(|n| *n > 3.0 * of_a_loud_one), "{shares:?}, loud {of_loud} on 100 connections");
    assert!(f64::from(of_loud) > shares[0], "and the loud one gets the rest: {of_loud}");
}
