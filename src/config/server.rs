//! How the gateway listens, and how long it lets others take.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::check::Check;
use super::file::{AdminSection, ServerSection, Text, TlsSection};

/// The listening side. A change of `listen`, `threads`, `max_connections`, `header_timeout` or `tls` takes
/// effect at the next start.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    listen: SocketAddr,
    threads: usize,
    max_connections: u32,
    header_timeout: Duration,
    idle_timeout: Duration,
    body_limit: Option<u64>,
    peek: u64,
    drain: Duration,
    overload_delay: Option<Duration>,
    forwarded: Forwarded,
    tls: Option<TlsFiles>,
}

/// What becomes of the X-Forwarded-* headers that a request brings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forwarded {
    /// Kept, and the peer's address appended: right behind another proxy.
    #[default]
    Append,
    /// Replaced by what this gateway sees: right where clients connect directly.
    Replace,
}

/// Where certificate chain and private key lie, both PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, the server's own first.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl ServerConfig {
    pub(super) fn check(raw: &ServerSection, check: &mut Check) -> Self {
        let seconds = Duration::from_secs;
        Self {
            listen: listen(check, "server.listen", &raw.listen, SocketAddr::from(([127, 0, 0, 1], 8080))),
            threads: check.whole("server.threads", &raw.threads, 0, 1..=256) as usize,
            max_connections: check.whole("server.max_connections", &raw.max_connections, 10_000, 1..=1_000_000),
            header_timeout: check.duration(
                "server.header_timeout",
                &raw.header_timeout,
                seconds(10),
                Duration::from_millis(100)..=seconds(300),
            ),
            idle_timeout: check.duration(
                "server.idle_timeout",
                &raw.idle_timeout,
                seconds(60),
                seconds(1)..=seconds(3600),
            ),
            body_limit: check.size("server.body_limit", &raw.body_limit, 0..=1 << 40),
            peek: check.size("server.peek", &raw.peek, 0..=64 << 10).unwrap_or(4 << 10),
            drain: check.duration("server.drain", &raw.drain, seconds(10), Duration::ZERO..=seconds(3600)),
            overload_delay: raw.overload_delay.as_ref().map(|_| {
                let (least, most) = (Duration::from_millis(1), seconds(10));
                check.duration("server.overload_delay", &raw.overload_delay, most, least..=most)
            }),
            forwarded: check.word(
                "server.forwarded",
                &raw.forwarded,
                &[("append", Forwarded::Append), ("replace", Forwarded::Replace)],
            ),
            tls: raw.tls.as_ref().and_then(|tls| TlsFiles::check(tls.get_ref(), tls.span(), check)),
        }
    }

    /// The address to listen on; port 0 takes a free one. Default 127.0.0.1:8080.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Worker threads; 0 (the default) takes one for each core.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Connections held at a time; further ones wait in the kernel's queue. Default 10,000.
    pub fn max_connections(&self) -> u32 {
        self.max_connections
    }

    /// How long a client may take to send a request head, and how long a kept-alive connection may
    /// stand idle. Default 10 s.
    pub fn header_timeout(&self) -> Duration {
        self.header_timeout
    }

    /// How long a client may leave a body it sends or reads without progress. Default 60 s.
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout
    }

    /// The largest request body in bytes; no limit by default.
    pub fn body_limit(&self) -> Option<u64> {
        self.body_limit
    }

    /// How many bytes of an answer's body are looked at, at its beginning and at its end. Default 4 KiB.
    pub fn peek(&self) -> u64 {
        self.peek
    }

    /// How long requests may go on after the gateway was told to stop. Default 10 s.
    pub fn drain(&self) -> Duration {
        self.drain
    }

    /// The standing delay of the gateway's own threads that counts as overload; none by default.
    pub fn overload_delay(&self) -> Option<Duration> {
        self.overload_delay
    }

    /// What becomes of incoming X-Forwarded-* headers.
    pub fn forwarded(&self) -> Forwarded {
        self.forwarded
    }

    /// Certificate and key; plain HTTP without.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }
}

impl TlsFiles {
    fn check(raw: &TlsSection, place: std::ops::Range<usize>, check: &mut Check) -> Option<Self> {
        let (Some(cert), Some(key)) = (&raw.cert, &raw.key) else {
            check.wrong_at("server.tls", place, "needs both cert and key, paths of PEM files");
            return None;
        };
        Some(Self { cert: cert.get_ref().into(), key: key.get_ref().into() })
    }
}

/// The admin side: metrics, health, state, and writes for those who hold a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdminConfig {
    listen: Option<SocketAddr>,
    token_file: Option<PathBuf>,
}

impl AdminConfig {
    pub(super) fn check(raw: &AdminSection, check: &mut Check) -> Self {
        let none = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            listen: raw.listen.as_ref().map(|_| listen(check, "admin.listen", &raw.listen, none)),
            token_file: raw.token_file.as_ref().map(|path| path.get_ref().into()),
        }
    }

    /// The address of the admin port; there is none without.
    pub fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// The file with the tokens for writes, one a line; without one nobody may write.
    pub fn token_file(&self) -> Option<&std::path::Path> {
        self.token_file.as_deref()
    }
}

fn listen(check: &mut Check, key: &str, raw: &Text, default: SocketAddr) -> SocketAddr {
    let Some(raw) = raw else { return default };
    raw.get_ref().parse().unwrap_or_else(|_| {
        check.wrong_text(key, raw, "must be an address with a port, such as 127.0.0.1:8080 or [::1]:8080");
        default
    })
}
