//! A redis-server of the test's own, and a proxy that delays what it forwards.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Stopped when dropped, also by a panic.
pub(crate) struct Redis {
    pub(crate) port: u16,
    child: Child,
    args: Vec<String>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(crate) fn start_with(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let redis = Self { port, child: launch(port, &args), args };
        redis.is_up();
        redis
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Empty, on the same port.
    pub(crate) fn restart(&mut self) {
        self.child = launch(self.port, &self.args);
        self.is_up();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends one command, gives the answer as it is written.
    pub(crate) fn tell(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
        let mut answer = vec![0; 4096];
        let n = stream.read(&mut answer).unwrap();
        String::from_utf8_lossy(&answer[..n]).into_owned()
    }

    fn is_up(&self) {
        for _ in 0..1000 {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("redis-server did not start");
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(port: u16, args: &[String]) -> Child {
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

/// Forwards to a port, each piece later by a delay that can be changed.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    delay_ms: Arc<AtomicU64>,
}

impl Proxy {
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { port: listener.local_addr().unwrap().port(), delay_ms: Arc::default() };
        let delay = Arc::clone(&proxy.delay_ms);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                }
                pass(client.try_clone().unwrap(), server.try_clone().unwrap(), Arc::clone(&delay));
                pass(server, client, Arc::default());
            }
        });
        proxy
    }

    pub(crate) fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Ordering::Relaxed);
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, delay_ms: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut piece = vec![0; 65_536];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            std::thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
            if to.write_all(&piece[..n]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}
