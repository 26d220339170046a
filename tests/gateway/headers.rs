//! What concerns one connection stays on it; what the upstream needs to know is added.

use http::{Request, Response};
use hyper::body::Incoming;

use super::harness::*;

/// Answers with the request's head as text.
async fn mirror(request: Request<Incoming>) -> Response<Body> {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    let mut response = Response::new(full(text));
    let headers = response.headers_mut();
    headers.insert("keep-alive", "timeout=5".parse().expect("value"));
    headers.insert("connection", "x-hop".parse().expect("value"));
    headers.insert("x-hop", "1".parse().expect("value"));
    headers.insert("x-end", "1".parse().expect("value"));
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn hop_by_hop_headers_reach_neither_side() {
    let upstream = Upstream::start(|request, _| mirror(request)).await;
    let gateway = Gateway::start(&fixed(5), upstream.address);
    let answer = raw(
        gateway.address,
        "GET /a?b=c HTTP/1.1\r\nHost: shop.example\r\nConnection: close, x-secret, HTTP2-Settings\r\nx-secret: 1\r\n\
         HTTP2-Settings: AAAA\r\nKeep-Alive: t=5\r\nTE: trailers\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nx-kept: 1\r\n\r\n",
    )
    .await;
    let seen = answer.body();
    assert_eq!(answer.status(), 200, "{}", answer.text);
    assert!(seen.starts_with("GET /a?b=c\n"), "{seen}");
    for gone in ["x-secret", "http2-settings", "keep-alive", "te:", "proxy-connection", "upgrade", "connection"] {
        assert!(!seen.contains(gone), "{gone} in {seen}");
    }
    for there in [
        "x-kept: 1",
        "host: shop.example",
        "x-forwarded-for: 127.0.0.1",
        "x-forwarded-proto: http",
        "x-forwarded-host: shop.example",
    ] {
        assert!(seen.contains(there), "{there} not in {seen}");
    }
    for gone in ["keep-alive", "x-hop"] {
        assert_eq!(answer.header(gone), None, "{}", answer.head());
    }
    assert_eq!(answer.header("x-end"), Some("1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstreams_connection_headers_do_not_break_http2_clients() {
    let upstream = Upstream::start(|request, _| mirror(request)).await;
    let gateway = Gateway::start(&fixed(5), upstream.address);
    let request =
        Request::get(format!("http://shop.example:{}/x", gateway.address.port())).body(full("")).expect("valid");
    let response = http2(gateway.address).await.send_request(request).await.expect("an answer");
    assert_eq!(response.status(), 200);
    assert!(response.headers().get("keep-alive").is_none() && response.headers().get("x-end").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_framed_in_two_ways_is_framed_once() {
    let upstream = Upstream::start(|request, _| mirror(request)).await;
    let gateway = Gateway::start(&fixed(5), upstream.address);
    let request = "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let answer = raw(gateway.address, request).await;
    if answer.status() != 400 {
        let seen = answer.body();
        assert!(!(seen.contains("content-length") && seen.contains("transfer-encoding")), "{seen}");
        assert!(!seen.contains("content-length: 4"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_of_proxies_is_kept_or_cut_as_configured() {
    let upstream = Upstream::start(|request, _| mirror(request)).await;
    for (policy, chain) in
        [("append", "x-forwarded-for: 9.9.9.9, 127.0.0.1\n"), ("replace", "x-forwarded-for: 127.0.0.1\n")]
    {
        let gateway = Gateway::start(&format!("[server]\nforwarded = \"{policy}\"\n{}", fixed(5)), upstream.address);
        let request = "GET / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 9.9.9.9\r\nconnection: close\r\n\r\n";
        let answer = raw(gateway.address, request).await;
        assert!(answer.body().contains(chain), "{}", answer.body());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_prefix_with_method_and_header_wins() {
    let named = |name: &'static str| Upstream::start(move |_, _| async move { Response::new(full(name)) });
    let (all, api, writes, batch) =
        (named("all").await, named("api").await, named("writes").await, named("batch").await);
    let url = |name: &str, upstream: &Upstream| format!("[upstreams.{name}]\nurl = \"http://{}\"\n", upstream.address);
    let config = format!(
        "{}{}{}{}[[routes]]\nupstream = \"all\"\n[[routes]]\nprefix = \"/api\"\nmethods = [\"POST\"]\nupstream = \"writes\"\n\
         [[routes]]\nprefix = \"/api\"\nheader = {{ name = \"X-Kind\", value = \"batch\" }}\nupstream = \"batch\"\n\
         [[routes]]\nprefix = \"/api\"\nupstream = \"api\"\n",
        url("all", &all),
        url("api", &api),
        url("writes", &writes),
        url("batch", &batch)
    );
    let gateway = Gateway::start(&config, all.address);
    for (request, expected) in [
        ("GET / HTTP/1.1", "all"),
        ("GET /apix HTTP/1.1", "all"),
        ("GET /api HTTP/1.1", "api"),
        ("GET /api/v1?x HTTP/1.1", "api"),
        ("POST /api/v1 HTTP/1.1", "writes"),
        ("GET /api/v1 HTTP/1.1\r\nx-kind: batch", "batch"),
        ("GET /api/v1 HTTP/1.1\r\nx-kind: other", "api"),
    ] {
        let answer = raw(gateway.address, format!("{request}\r\nhost: a\r\nconnection: close\r\n\r\n")).await;
        assert_eq!(answer.body(), expected, "{request}");
    }
}
