//! Keeps I/O, locks, clocks, logs and metrics out of the pure modules.

use std::fs;
use std::path::{Path, PathBuf};

/// Modules that are told the time and return what they decided: a file, and the folder of its name.
const PURE: &[&str] = &[
    "admission",
    "alerts/aggregate",
    "alerts/condition",
    "alerts/distinct",
    "alerts/message",
    "alerts/notice",
    "alerts/outbox",
    "alerts/retry",
    "alerts/sketch",
    "alerts/standing",
    "audit/chain",
    "audit/time",
    "bounds",
    "breaker/circuit",
    "canary/standing",
    "ceiling/adaptive",
    "ceiling/bucket",
    "ceiling/lease",
    "ceiling/standing",
    "classify",
    "config/change",
    "config/difference",
    "config/edit",
    "config/settings",
    "control",
    "deadline",
    "guard",
    "hold_off/holds",
    "law",
    "outcome",
    "rejection",
    "retry",
    "sim",
    "time",
    "window",
    "words",
];

const FORBIDDEN: &[&str] = &[
    "tokio",
    "async ",
    ".await",
    "Mutex",
    "RwLock",
    "tracing::",
    "metrics::",
    "::now(",
    ".elapsed(",
    "std::fs",
    "std::net",
    "TcpStream",
    "std::env",
    "std::thread",
    "println!",
    "eprintln!",
    "rand::",
];

/// Shells inside a pure folder: they read files, write reports or use threads, and decide nothing.
const SHELLS: &[&str] = &["src/sim/compare.rs"];

fn rust_files(at: &Path, found: &mut Vec<PathBuf>) {
    if at.is_dir() {
        for entry in fs::read_dir(at).expect("a readable folder") {
            rust_files(&entry.expect("an entry").path(), found);
        }
    } else if at.extension().is_some_and(|e| e == "rs") && !at.ends_with("tests.rs") {
        found.push(at.to_owned());
    }
}

/// What a line of the shipped code says: comments and test modules are left out.
fn shipped_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .map(|(at, line)| (at + 1, line.split("//").next().unwrap_or_default()))
}

fn violations(files: &[PathBuf]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("a readable file");
        for (at, line) in shipped_lines(&text) {
            for word in FORBIDDEN.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{}:{at}: `{}` has no place in a pure module", file.display(), word.trim()));
            }
        }
    }
    found
}

#[test]
fn pure_modules_read_no_clock_take_no_lock_and_do_no_io() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    for module in PURE {
        for path in [src.join(module).with_extension("rs"), src.join(module)] {
            if path.exists() {
                rust_files(&path, &mut files);
            }
        }
    }
    assert!(files.len() > 15, "the pure modules were found: {files:?}");
    files.retain(|file| !SHELLS.iter().any(|shell| file.ends_with(shell)));
    let found = violations(&files);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_check_sees_a_clock_and_overlooks_comments_and_tests() {
    let file = std::env::temp_dir().join(format!("tidegate-architecture-{}.rs", std::process::id()));
    let text = "// Instant::now() in a comment\nlet t = Instant::now();\n#[cfg(test)]\nmod tests { use tokio; }\n";
    fs::write(&file, text).expect("a writable folder");
    let found = violations(std::slice::from_ref(&file));
    fs::remove_file(&file).expect("just written");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains(":2:"), "{found:?}");
}
