//! TLS towards clients and towards upstreams, HTTP/1.1 and HTTP/2 by ALPN. The certificate and key
//! beside this file are for these tests alone.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::harness::*;

const CERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/tls/cert.pem");
const KEY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gateway/tls/key.pem");

fn serving_tls() -> String {
    format!("[server.tls]\ncert = \"{CERT}\"\nkey = \"{KEY}\"\n{}", fixed(5))
}

fn towards_tls(http2: bool) -> String {
    let upstream = format!("tls_ca = \"{CERT}\"\nhttp2 = {http2}\n");
    fixed(5).replace("url = \"UPSTREAM\"\n", &format!("url = \"UPSTREAM\"\n{upstream}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_speaks_tls_on_both_sides() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let inner = Gateway::start(&serving_tls(), upstream.address);
    for http2 in [false, true] {
        let config = towards_tls(http2).replace("UPSTREAM", &format!("https://localhost:{}", inner.address.port()));
        let outer = Gateway::start(&config, upstream.address);
        for _ in 0..3 {
            let answer = get(outer.address, "/").await;
            assert_eq!((answer.status(), answer.body()), (200, "hello"), "{http2} {}", answer.text);
        }
    }
    let seen = upstream.inside.total();
    assert_eq!(seen, 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_with_a_strange_certificate_is_not_believed() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let inner = Gateway::start(&serving_tls(), upstream.address);
    // The public roots do not know it.
    let config = fixed(5).replace("UPSTREAM", &format!("https://localhost:{}", inner.address.port()));
    let outer = Gateway::start(&config, upstream.address);
    let answer = get(outer.address, "/").await;
    assert_eq!((answer.status(), &answer.json()["error"]), (502, &"upstream_unreachable".into()), "{}", answer.text);
    assert_eq!(upstream.inside.total(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_told_to_the_upstream_as_https() {
    let upstream = Upstream::start(|request, _| async move {
        let proto = request.headers()["x-forwarded-proto"].to_str().expect("text").to_owned();
        http::Response::new(full(proto))
    })
    .await;
    let gateway = Gateway::start(&serving_tls(), upstream.address);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(CERT).expect("there")).expect("usable");
    let config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    let tcp = TcpStream::connect(gateway.address).await.expect("listening");
    let name = ServerName::try_from("localhost").expect("a name");
    let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("TLS");
    tls.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.expect("taken");
    let mut text = String::new();
    let _ = tokio::io::AsyncReadExt::read_to_string(&mut tls, &mut text).await;
    assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("https"), "{text}");
}
