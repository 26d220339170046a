//! Programs of the system's packages, and processes that end with the test.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A program by its name; `None` where it is not installed, which is no excuse in CI.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "{name} is not installed (apt-get install prometheus)");
        eprintln!("{name} is not installed: nothing tested");
    }
    found
}

/// A child that is killed when the test is over.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory that goes with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port()
}
