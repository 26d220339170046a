//! The service behind the gateway: where it is, and how long it may take.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::check::Check;
use super::file::UpstreamSection;
use super::placed::Spanned;

/// One service behind the gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamConfig {
    url: Url,
    connect_timeout: Duration,
    response_timeout: Duration,
    idle_timeout: Duration,
    keep_alive: Duration,
    http2: bool,
    host: HostHeader,
    tls_ca: Option<PathBuf>,
}

/// Which host the upstream is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HostHeader {
    /// The one the client asked for.
    Client,
    /// The one in the upstream's URL.
    Upstream,
}

impl UpstreamConfig {
    pub(super) fn check(name: &Spanned<String>, raw: &UpstreamSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("upstreams.{}.{field}", name.get_ref());
        check.name(&format!("upstreams.{}", name.get_ref()), name);
        let url = Url::check(&key("url"), name, raw, check);
        let ms = Duration::from_millis;
        let mut time = |field, raw, default, least, most| check.duration(&key(field), raw, default, least..=most);
        let connect_timeout = time("connect_timeout", &raw.connect_timeout, ms(1000), ms(10), ms(60_000));
        let response_timeout = time("response_timeout", &raw.response_timeout, ms(30_000), ms(10), ms(3_600_000));
        let idle_timeout = time("idle_timeout", &raw.idle_timeout, ms(300_000), ms(1000), ms(86_400_000));
        let keep_alive = time("keep_alive", &raw.keep_alive, ms(30_000), ms(0), ms(3_600_000));
        let host = [("client", HostHeader::Client), ("upstream", HostHeader::Upstream)];
        let host = if raw.host.is_some() {
            check.word(&key("host"), &raw.host, &host)
        } else {
            if url.is_tls() { HostHeader::Upstream } else { HostHeader::Client }
        };
        Self {
            connect_timeout,
            response_timeout,
            idle_timeout,
            keep_alive,
            http2: raw.http2.as_ref().is_some_and(|on| *on.get_ref()),
            host,
            tls_ca: raw.tls_ca.as_ref().map(|path| path.get_ref().into()),
            url,
        }
    }

    /// Where it is.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// How long making a connection may take, TLS included. Default 1 s.
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// How long the response head may take from the moment the request is sent. Default 30 s.
    pub fn response_timeout(&self) -> Duration {
        self.response_timeout
    }

    /// How long a response body or an upgraded connection may stand still. Default 5 min.
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// How long an unused connection is kept; 0 keeps none. Best below the upstream's own. Default 30 s.
    pub fn keep_alive(&self) -> Duration {
        self.keep_alive
    }

    /// Whether it speaks HTTP/2 from the first byte.
    pub fn http2(&self) -> bool {
        self.http2
    }

    /// Which host it is told. The client's by default, the upstream's own when it speaks TLS.
    pub fn host(&self) -> HostHeader {
        self.host
    }

    /// Certificates to trust instead of the public ones, PEM.
    pub fn tls_ca(&self) -> Option<&Path> {
        self.tls_ca.as_deref()
    }
}

/// `http://host[:port]` or `https://host[:port]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    tls: bool,
    host: String,
    port: u16,
}

impl Url {
    fn check(key: &str, name: &Spanned<String>, raw: &UpstreamSection, check: &mut Check) -> Self {
        let nowhere = Self { tls: false, host: "127.0.0.1".into(), port: 80 };
        let Some(raw) = &raw.url else {
            check.wrong_at(key, name.span(), "is missing; needed: a URL such as \"http://127.0.0.1:9000\"");
            return nowhere;
        };
        Self::parse(raw.get_ref()).unwrap_or_else(|| {
            check.wrong_text(key, raw, "must be http://host[:port] or https://host[:port], without a path");
            nowhere
        })
    }

    /// Parses an upstream's URL; `None` when it is none, or has a path, a query or a user.
    pub fn parse(text: &str) -> Option<Self> {
        let (tls, rest) = match text.strip_prefix("http://") {
            Some(rest) => (false, rest),
            None => (true, text.strip_prefix("https://")?),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let after_brackets = authority.rfind(']').map_or(0, |i| i + 1);
        let (host, port) = match authority[after_brackets..].rfind(':') {
            Some(colon) => {
                let (host, port) = authority.split_at(after_brackets + colon);
                (host, port[1..].parse().ok().filter(|&port| port != 0)?)
            }
            None => (authority, if tls { 443 } else { 80 }),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        let bare = match host.strip_prefix('[') {
            Some(v6) => v6.strip_suffix(']').filter(|v6| v6.parse::<std::net::Ipv6Addr>().is_ok())?,
            None => host,
        };
        let ok = !bare.is_empty() && (bare.len() < host.len() || host.chars().all(is_host));
        ok.then(|| Self { tls, host: host.to_owned(), port })
    }

    /// Whether it speaks TLS.
    pub fn is_tls(&self) -> bool {
        self.tls
    }

    /// The host without brackets, to be looked up.
    pub fn host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host and port as they stand in a Host header: the port only when it is not the usual one.
    pub fn authority(&self) -> String {
        if self.port == if self.tls { 443 } else { 80 } {
            return self.host.clone();
        }
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_their_defaults() {
        for (text, host, port, authority) in [
            ("http://127.0.0.1:9000", "127.0.0.1", 9000, "127.0.0.1:9000"),
            ("http://api.local/", "api.local", 80, "api.local"),
            ("https://api.example.com", "api.example.com", 443, "api.example.com"),
            ("http://[::1]:81", "::1", 81, "[::1]:81"),
        ] {
            let url = Url::parse(text).expect(text);
            assert_eq!((url.host(), url.port(), url.authority().as_str()), (host, port, authority));
        }
    }

    #[test]
    fn what_is_no_upstream_is_refused() {
        for text in [
            "",
            "127.0.0.1:80",
            "ftp://x",
            "http://",
            "http://:80",
            "http://a b",
            "http://x/path",
            "http://u@x",
            "http://x:0",
            "http://[zz]:1",
            "http://x:99999",
        ] {
            assert_eq!(Url::parse(text), None, "{text}");
        }
    }
}
