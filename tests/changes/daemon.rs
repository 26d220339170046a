//! A gateway that can be started again in the same place.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::harness::{Answer, PATIENCE, Upstream, get, raw};

/// A directory with a config file and an audit log; removed when dropped.
pub(crate) struct Place {
    pub(crate) dir: tempfile::TempDir,
    /// Another user to run as; only root can.
    pub(crate) user: Option<u32>,
}

impl Place {
    pub(crate) fn new(config: &str) -> Self {
        let place = Self { dir: tempfile::tempdir().expect("a directory"), user: None };
        place.write(config);
        place
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("tidegate.toml")
    }

    pub(crate) fn audit(&self) -> PathBuf {
        self.dir.path().join("audit")
    }

    /// Puts another file in the place of the config file.
    pub(crate) fn write(&self, config: &str) {
        let beside = self.dir.path().join("tidegate.toml.new");
        std::fs::write(&beside, self.fill(config)).expect("writable");
        std::fs::rename(beside, self.file()).expect("writable");
    }

    /// `AUDIT` in a config stands for the directory of the log.
    pub(crate) fn fill(&self, config: &str) -> String {
        config.replace("AUDIT", self.audit().to_str().expect("text"))
    }

    pub(crate) fn start(&self, args: &[&str]) -> Daemon {
        let log = self.dir.path().join("log");
        let log_file = std::fs::File::options().create(true).append(true).open(&log).expect("writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--config"])
            .arg(self.file())
            .args(args)
            .env("TIDEGATE_ADMIN_TOKEN", "alice: let-me-in, bob: me-too")
            .stdout(Stdio::piped())
            .stderr(log_file);
        if let Some(user) = self.user {
            command.uid(user);
        }
        let mut child = command.spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut address = |word: &str| -> SocketAddr {
            let Some(Ok(line)) = lines.next() else {
                panic!("the gateway ended: {}", std::fs::read_to_string(&log).unwrap_or_default());
            };
            line.strip_prefix(word).expect(word).trim().parse().expect("an address")
        };
        let (address, admin) = (address("listening"), address("admin"));
        Daemon { child, address, admin, log }
    }

    /// The audit log's records.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.audit().join("audit.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Results and actors of the records.
    pub(crate) fn results(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        self.records().iter().map(|record| (text(&record["result"]), text(&record["actor"]))).collect()
    }

    /// Runs the binary as a tool.
    pub(crate) fn tool(&self, args: &[&str]) -> (bool, String) {
        let done = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(args)
            .current_dir(self.dir.path())
            .env("TIDEGATE_ADMIN_TOKEN", "bob: me-too")
            .output()
            .expect("the binary starts");
        let said = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&said).into_owned())
    }
}

/// A running gateway; killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("ours");
        self.child.wait().expect("ours");
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The config's state.
    pub(crate) async fn config(&self) -> Value {
        get(self.admin, "/api/v1/config").await.json()
    }

    pub(crate) async fn limiter(&self) -> Value {
        get(self.admin, "/api/v1/limiters/default").await.json()
    }

    /// Waits until the config's state is as wanted.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let now = self.config().await;
            if wanted(&now) {
                return now;
            }
            assert!(began.elapsed() < PATIENCE, "{what} does not come: {now:#}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until the limiter's maximum is this.
    pub(crate) async fn until_max(&self, max: u32) {
        let began = Instant::now();
        while self.limiter().await["max"] != max {
            assert!(began.elapsed() < PATIENCE, "max {max} does not come\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// A request with a token to the admin port.
    pub(crate) async fn ask(&self, method: &str, path: &str, token: &str, body: &str) -> Answer {
        let length = body.len();
        raw(
            self.admin,
            format!(
                "{method} {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\
                 content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            ),
        )
        .await
    }

    /// New bounds as alice.
    pub(crate) async fn set(&self, body: &str) -> Answer {
        self.ask("PUT", "/api/v1/limiters/default/bounds", "let-me-in", body).await
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A limiter that stays at `max`, with an audit log. `rest` comes last.
pub(crate) fn config(upstream: &Upstream, max: u32, rest: &str) -> String {
    format!(
        "# ours\n[audit]\ndir = \"AUDIT\"\n[upstreams.default]\nurl = \"http://{}\"\n\
         [limiters.default]\nmin = 1\nmax = {max} # agreed\ninitial = {max}\nlaw = \"fixed\"\n{rest}",
        upstream.address
    )
}
