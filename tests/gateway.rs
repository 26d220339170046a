//! The gateway's promises, each kept by a real process in front of real servers.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

#[path = "gateway/harness.rs"]
mod harness;

#[path = "gateway/admin.rs"]
mod admin;
#[path = "gateway/bodies.rs"]
mod bodies;
#[path = "gateway/ceilings.rs"]
mod ceilings;
#[path = "gateway/classes.rs"]
mod classes;
#[path = "gateway/deadlines.rs"]
mod deadlines;
#[path = "gateway/failures.rs"]
mod failures;
#[path = "gateway/headers.rs"]
mod headers;
#[path = "gateway/http2.rs"]
mod http2;
#[path = "gateway/limits.rs"]
mod limits;
#[path = "gateway/outcomes.rs"]
mod outcomes;
#[path = "gateway/reload.rs"]
mod reload;
#[path = "gateway/stop.rs"]
mod stop;
#[path = "gateway/tls.rs"]
mod tls;
#[path = "gateway/upgrades.rs"]
mod upgrades;
