//! A gateway process, and a service behind it that answers, or holds what it was given.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A running gateway; killed when dropped.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    dir: PathBuf,
}

impl Gateway {
    /// `UPSTREAM` in the config stands for the service's URL.
    pub(crate) fn start(config: &str, service: &Service) -> Self {
        let dir = super::fresh_dir("gateway");
        let (child, address, admin) = launch(&dir, "127.0.0.1:0", &service.fill(config));
        Self { child, address, admin, dir }
    }

    /// Ends it and starts another one on the same admin port, `between` in the meantime.
    pub(crate) async fn restart(&mut self, between: impl AsyncFnOnce()) {
        let config = std::fs::read_to_string(self.dir.join("tidegate.toml")).expect("there");
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
        between().await;
        (self.child, self.address, _) = launch(&self.dir, &self.admin.to_string(), &config);
    }

    /// Puts another config in the file.
    pub(crate) fn write(&self, config: &str, service: &Service) {
        let beside = self.dir.join("new");
        std::fs::write(&beside, service.fill(config)).expect("writable");
        std::fs::rename(&beside, self.dir.join("tidegate.toml")).expect("writable");
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.admin)
    }

    /// A tool of the same binary, asked about this gateway.
    pub(crate) fn tool(&self, args: &[&str]) -> Output {
        let admin = self.url("");
        Command::new(env!("CARGO_BIN_EXE_tidegate")).args(args).args(["--admin", &admin]).output().expect("it runs")
    }

    /// Sends so many requests at once, each on a connection of its own, and waits for none.
    pub(crate) fn send(&self, n: usize) {
        for _ in 0..n {
            let address = self.address;
            tokio::spawn(async move { get(address, "/", "").await });
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

fn launch(dir: &std::path::Path, admin: &str, config: &str) -> (Child, SocketAddr, SocketAddr) {
    let file = dir.join("tidegate.toml");
    std::fs::write(&file, config).expect("writable");
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", admin, "--config"])
        .arg(&file)
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
    (child, address, admin)
}

/// A service that answers at once, or not at all while it is told to hold.
pub(crate) struct Service {
    address: SocketAddr,
    hold: watch::Sender<bool>,
}

impl Service {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (hold, held) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                tokio::spawn(answer(tcp, held.clone()));
            }
        });
        Self { address, hold }
    }

    pub(crate) fn hold(&self, hold: bool) {
        self.hold.send_replace(hold);
    }

    fn fill(&self, config: &str) -> String {
        config.replace("UPSTREAM", &format!("http://{}", self.address))
    }
}

async fn answer(mut tcp: TcpStream, mut held: watch::Receiver<bool>) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while let Ok(n @ 1..) = tcp.read(&mut piece).await {
        seen.extend_from_slice(&piece[..n]);
        if !seen.ends_with(b"\r\n\r\n") {
            continue;
        }
        seen.clear();
        if held.wait_for(|held| !held).await.is_err() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        if tcp.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.is_err() {
            return;
        }
    }
}

/// A plain GET on a connection of its own; all of the answer.
pub(crate) async fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    let Ok(mut tcp) = TcpStream::connect(address).await else { return String::new() };
    let request = format!("GET {path} HTTP/1.1\r\nhost: a.b\r\nconnection: close\r\n{headers}\r\n");
    let mut bytes = Vec::new();
    let _ = tcp.write_all(request.as_bytes()).await;
    let _ = tokio::time::timeout(super::browser::PATIENCE, tcp.read_to_end(&mut bytes)).await;
    String::from_utf8_lossy(&bytes).into_owned()
}
