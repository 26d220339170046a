//! Bounds that can be trusted: each change recorded before it counts, guarded, taken back, put back;
//! by a real process on a real file system.
#![allow(clippy::disallowed_methods, reason = "real processes take real time")]

#[expect(dead_code, reason = "shared with the gateway's tests, which need more of it")]
#[path = "gateway/harness.rs"]
mod harness;

#[path = "changes/api.rs"]
mod api;
#[path = "changes/audit.rs"]
mod audit;
#[path = "changes/crash.rs"]
mod crash;
#[path = "changes/daemon.rs"]
mod daemon;
#[path = "changes/files.rs"]
mod files;
#[path = "changes/guard.rs"]
mod guard;
#[path = "changes/many.rs"]
mod many;
#[path = "changes/share.rs"]
mod share;
