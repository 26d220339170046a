//! Stands in for `events` when the `tracing` feature is off.

use super::BreakerState;

pub(super) fn changed(_: &str, _: BreakerState) {}
