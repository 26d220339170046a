//! A gateway process, upstreams of all kinds, and clients that see every byte. Loopback, free ports.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A running gateway; killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) dir: PathBuf,
}

impl Gateway {
    /// With this config; `UPSTREAM` in it stands for the upstream's URL.
    pub(crate) fn start(config: &str, upstream: SocketAddr) -> Self {
        let dir = fresh_dir();
        let file = dir.join("tidegate.toml");
        std::fs::write(&file, config.replace("UPSTREAM", &format!("http://{upstream}"))).expect("writable");
        Self::launch(dir, &["--config", file.to_str().expect("text")])
    }

    /// With these arguments besides listen and admin addresses.
    pub(crate) fn with_args(args: &[&str]) -> Self {
        Self::launch(fresh_dir(), args)
    }

    fn launch(dir: PathBuf, args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(args)
            .env("TIDEGATE_ADMIN_TOKEN", "let-me-in")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(dir.join("log")).expect("writable"))
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut address = |word: &str| -> SocketAddr {
            let Some(Ok(line)) = lines.next() else {
                panic!("the gateway ended: {}", std::fs::read_to_string(dir.join("log")).unwrap_or_default());
            };
            line.strip_prefix(word).expect(word).trim().parse().expect("an address")
        };
        let (address, admin) = (address("listening"), address("admin"));
        Self { child, address, admin, dir }
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.join("tidegate.toml")
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.child.id().to_string()]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// The exit code, once it has ended.
    pub(crate) async fn ended(&mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("ours") {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < PATIENCE, "the gateway does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// JSON of the admin port.
    pub(crate) async fn api(&self, path: &str) -> serde_json::Value {
        let answer = get(self.admin, path).await;
        serde_json::from_str(answer.body()).unwrap_or_else(|_| panic!("no JSON: {}", answer.text))
    }

    pub(crate) async fn limiter(&self) -> serde_json::Value {
        self.api("/api/v1/limiters/default").await
    }

    /// Waits until the limiter's JSON is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&serde_json::Value) -> bool) -> serde_json::Value {
        let began = Instant::now();
        loop {
            let now = self.limiter().await;
            if wanted(&now) {
                return now;
            }
            assert!(began.elapsed() < PATIENCE, "{what} does not come: {now:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

pub(crate) fn fresh_dir() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("tidegate-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).expect("writable");
    dir
}

pub(crate) fn write(path: &Path, text: &str) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).expect("writable");
    std::fs::rename(&beside, path).expect("writable");
}

pub(crate) type Body = UnsyncBoxBody<Bytes, std::io::Error>;

pub(crate) fn full(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).map_err(|never| match never {}).boxed_unsync()
}

pub(crate) type Frames = tokio::sync::mpsc::Sender<Result<hyper::body::Frame<Bytes>, std::io::Error>>;

/// A body that is fed piece by piece; it ends when the sender is dropped, and the sender sees when
/// nobody reads any more.
pub(crate) fn stream() -> (Frames, Body) {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let frames = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let frame = receiver.recv().await?;
        Some((frame, receiver))
    });
    let body = http_body_util::StreamBody::new(Box::pin(frames));
    (sender, BodyExt::boxed_unsync(body))
}

/// Sends a piece of text; false when nobody reads any more.
pub(crate) async fn send(frames: &Frames, text: &'static str) -> bool {
    frames.send(Ok(hyper::body::Frame::data(Bytes::from_static(text.as_bytes())))).await.is_ok()
}

/// An HTTP/1.1 and h2c server with one handler, which counts who is inside until bodies end.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    pub(crate) inside: Arc<Inside>,
}

#[derive(Default)]
pub(crate) struct Inside {
    now: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicUsize,
}

impl Inside {
    pub(crate) fn enter(self: &Arc<Self>) -> Visit {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        self.total.fetch_add(1, Ordering::SeqCst);
        Visit(self.clone())
    }

    pub(crate) fn now(&self) -> usize {
        self.now.load(Ordering::SeqCst)
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::SeqCst)
    }

    pub(crate) fn forget_peak(&self) {
        self.peak.store(0, Ordering::SeqCst);
    }

    pub(crate) fn total(&self) -> usize {
        self.total.load(Ordering::SeqCst)
    }

    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let began = Instant::now();
        while !wanted(self) {
            assert!(began.elapsed() < PATIENCE, "{what} does not come: {} inside of {}", self.now(), self.total());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Somebody is inside while this lives.
pub(crate) struct Visit(Arc<Inside>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Upstream {
    pub(crate) async fn start<F, Fut>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>, Arc<Inside>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Response<Body>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free port");
        let address = listener.local_addr().expect("bound");
        let inside = Arc::new(Inside::default());
        let shared = inside.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let (handler, inside) = (handler.clone(), shared.clone());
                let service = service_fn(move |request| {
                    let answer = handler(request, inside.clone());
                    async move { Ok::<_, std::convert::Infallible>(answer.await) }
                });
                tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection_with_upgrades(TokioIo::new(tcp), service).await;
                });
            }
        });
        Self { address, inside }
    }

    /// Answers each request after `delay` with "hello".
    pub(crate) async fn slow(delay: Duration) -> Self {
        Self::start(move |request, inside| async move {
            let _visit = inside.enter();
            let _ = request.into_body().collect().await;
            tokio::time::sleep(delay).await;
            Response::new(full("hello"))
        })
        .await
    }
}

/// An answer as it came over the wire.
pub(crate) struct Answer {
    pub(crate) text: String,
    /// Whether the connection ended in order.
    pub(crate) tidy: bool,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    pub(crate) fn head(&self) -> &str {
        self.text.split("\r\n\r\n").next().unwrap_or("")
    }

    pub(crate) fn body(&self) -> &str {
        self.text.split_once("\r\n\r\n").map_or("", |(_, body)| body)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head().lines().skip(1);
        lines.filter_map(|line| line.split_once(": ")).find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.body()).unwrap_or_else(|_| panic!("no JSON: {}", self.text))
    }
}

/// Sends bytes, reads until the other side closes.
pub(crate) async fn raw(address: SocketAddr, request: impl AsRef<[u8]>) -> Answer {
    let mut tcp = TcpStream::connect(address).await.expect("listening");
    tcp.write_all(request.as_ref()).await.expect("taken");
    read_all(tcp).await
}

pub(crate) async fn read_all(mut tcp: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, tcp.read_to_end(&mut bytes)).await.expect("an end");
    Answer { text: String::from_utf8_lossy(&bytes).into_owned(), tidy: read.is_ok() }
}

/// A plain GET on a connection of its own.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    raw(address, format!("GET {path} HTTP/1.1\r\nhost: a.b\r\nconnection: close\r\n\r\n")).await
}

/// An HTTP/2 connection without TLS.
pub(crate) async fn http2(address: SocketAddr) -> hyper::client::conn::http2::SendRequest<Body> {
    let tcp = TcpStream::connect(address).await.expect("listening");
    let io = TokioIo::new(tcp);
    let (sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.expect("h2");
    tokio::spawn(connection);
    sender
}

/// A limiter that never moves, with room for `n` and for nobody to wait.
pub(crate) fn fixed(n: u32) -> String {
    format!("[upstreams.default]\nurl = \"UPSTREAM\"\n[limiters.default]\nmin = {n}\nmax = {n}\nlaw = \"fixed\"\n")
}
