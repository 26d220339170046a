//! In flight never passes the limit, refusals are quick and honest, exempt paths pass.

use std::time::Duration;

use http::Response;

use super::harness::*;

/// Answers at once with a head, then streams until it is told to end or dropped.
async fn streaming(chunks: usize, pause: Duration) -> Upstream {
    Upstream::start(move |_, inside| async move {
        let visit = inside.enter();
        let (frames, body) = stream();
        tokio::spawn(async move {
            let _visit = visit;
            for _ in 0..chunks {
                if !send(&frames, "chunk\n").await {
                    return;
                }
                tokio::time::sleep(pause).await;
            }
        });
        Response::new(body)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_holds_its_place_until_its_body_ends() {
    let upstream = streaming(10, Duration::from_millis(30)).await;
    let gateway = Gateway::start(&fixed(8), upstream.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..100).map(|_| tokio::spawn(async move { get(address, "/").await.status() })).collect();
    let (mut good, mut refused) = (0, 0);
    for client in clients {
        match client.await.expect("ran") {
            200 => good += 1,
            503 => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(good >= 8 && refused > 0, "{good} {refused}");
    assert!(upstream.inside.peak() <= 8, "{} bodies at once", upstream.inside.peak());
    let now = gateway.until("the end", |now| now["in_flight"] == 0).await;
    assert_eq!(now["finished"]["success"], good);
    assert_eq!(now["rejected"]["limit_reached"], refused);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_permit_end_head_a_stream_gives_its_place_back_early() {
    let upstream = streaming(1000, Duration::from_millis(20)).await;
    let gateway = Gateway::start(&format!("{}permit_end = \"head\"\n", fixed(1)), upstream.address);
    let mut streams = Vec::new();
    for n in 1..=3 {
        let request = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let mut tcp = tokio::net::TcpStream::connect(gateway.address).await.expect("listening");
        tokio::io::AsyncWriteExt::write_all(&mut tcp, request.as_bytes()).await.expect("taken");
        upstream.inside.until("another stream", |inside| inside.now() == n).await;
        gateway.until("the place back", |now| now["in_flight"] == 0).await;
        streams.push(tcp);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_says_who_why_and_when_to_come_back() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let gateway = Gateway::start(&format!("{}reject_status = 429\n", fixed(1)), upstream.address);
    let address = gateway.address;
    let holder = tokio::spawn(get(address, "/"));
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    let refused = get(address, "/").await;
    assert_eq!(refused.status(), 429);
    assert!(
        refused.header("retry-after").and_then(|s| s.parse::<u64>().ok()).is_some_and(|s| s >= 1),
        "{}",
        refused.head()
    );
    assert_eq!(refused.header("tidegate-rejected"), Some("limit_reached"));
    let said = refused.json();
    assert_eq!((&said["limiter"], &said["reason"]), (&"default".into(), &"limit_reached".into()));
    assert_eq!((&said["limit"], &said["in_flight"], &said["queued"]), (&1.into(), &1.into(), &0.into()));
    assert!(said["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0), "{said}");
    assert_eq!((&said["error"], &said["side"]), (&"rejected".into(), &"inbound".into()));
    assert!(said["message"].as_str().is_some_and(|m| m.contains("refused before the downstream was asked")), "{said}");
    assert_eq!(upstream.inside.total(), 1, "the upstream was not asked");
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn exempt_paths_pass_a_full_limiter_uncounted() {
    let upstream = Upstream::start(|request, inside| async move {
        let _visit = inside.enter();
        if request.uri().path().starts_with("/work") {
            tokio::time::sleep(Duration::from_secs(600)).await;
        }
        Response::new(full("well"))
    })
    .await;
    let gateway = Gateway::start(
        &format!("exempt = [\"/healthz\", \"/grpc.health.v1.Health/\"]\n{}", fixed(1)),
        upstream.address,
    );
    let holder = tokio::spawn(get(gateway.address, "/work"));
    gateway.until("the holder", |now| now["in_flight"] == 1).await;
    for path in ["/healthz", "/grpc.health.v1.Health/Check"] {
        assert_eq!(get(gateway.address, path).await.status(), 200, "{path}");
    }
    for path in ["/healthz/deeper", "/other"] {
        assert_eq!(get(gateway.address, path).await.status(), 503, "{path}");
    }
    let now = gateway.limiter().await;
    assert_eq!((&now["finished"]["success"], &now["in_flight"]), (&0.into(), &1.into()));
    holder.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_is_served_in_turn_or_refused_in_time_and_leaves_nothing_behind() {
    let upstream = Upstream::slow(Duration::from_millis(100)).await;
    let config = format!("{}queue = {{ length = 3, wait = \"20s\" }}\n", fixed(1));
    let gateway = Gateway::start(&config, upstream.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..4).map(|_| tokio::spawn(async move { get(address, "/").await.status() })).collect();
    for client in clients {
        assert_eq!(client.await.expect("ran"), 200);
    }
    assert_eq!(upstream.inside.peak(), 1);
    let now = gateway.until("the end", |now| now["in_flight"] == 0).await;
    assert_eq!((&now["queued"], &now["waited"]), (&0.into(), &3.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_the_queue_is_forgotten_and_the_upstream_never_asked() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let config = format!("{}queue = {{ length = 50, wait = \"1m\" }}\n", fixed(1));
    let gateway = Gateway::start(&config, upstream.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..31).map(|_| tokio::spawn(get(address, "/"))).collect();
    gateway.until("the queue", |now| now["queued"] == 30).await;
    for client in clients {
        client.abort();
    }
    gateway.until("nobody", |now| now["queued"] == 0 && now["in_flight"] == 0).await;
    assert_eq!(upstream.inside.total(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn shadow_mode_admits_all_and_counts_what_it_would_have_refused() {
    let upstream = Upstream::slow(Duration::from_millis(50)).await;
    let gateway = Gateway::start(&format!("{}mode = \"shadow\"\n", fixed(2)), upstream.address);
    let address = gateway.address;
    let clients: Vec<_> = (0..20).map(|_| tokio::spawn(async move { get(address, "/").await.status() })).collect();
    for client in clients {
        assert_eq!(client.await.expect("ran"), 200);
    }
    let now = gateway.limiter().await;
    assert!(now["would_reject"].as_u64().is_some_and(|n| n > 0), "{now}");
    assert_eq!(now["rejected"]["limit_reached"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_with_nothing_but_an_upstream() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let gateway = Gateway::with_args(&["--upstream", &format!("http://{}", upstream.address)]);
    assert_eq!(get(gateway.address, "/").await.body(), "hello");
    assert!(gateway.address.ip().is_loopback());
}
