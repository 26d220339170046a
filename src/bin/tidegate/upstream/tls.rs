//! TLS towards an upstream.

use std::io;
use std::sync::Arc;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tidegate::config::UpstreamConfig;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Whom to trust and whom to expect.
pub(crate) struct Client {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl Client {
    pub(super) fn new(upstream: &UpstreamConfig) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        match upstream.tls_ca() {
            None => roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned()),
            Some(path) => {
                let read = || format!("tls_ca {}", path.display());
                for cert in CertificateDer::pem_file_iter(path).with_context(read)? {
                    roots.add(cert.with_context(read)?).with_context(read)?;
                }
                anyhow::ensure!(!roots.is_empty(), "tls_ca {}: no certificate in it", path.display());
            }
        }
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![if upstream.http2() { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        let host = upstream.url().host().to_owned();
        let name = ServerName::try_from(host).context("the upstream's host is no name for TLS")?;
        Ok(Self { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(super) async fn connect(&self, tcp: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), tcp).await
    }
}
