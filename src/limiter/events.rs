//! What a limiter says by `tracing`: state changes only, never a request.

use crate::control::Record;

/// The limit moved.
pub(super) fn limit_changed(limiter: &str, record: &Record) {
    tracing::debug!(limiter, old = record.old, new = record.new, reason = record.reason.as_str(), "limit changed");
}

/// A stall began: full, and nothing finishes.
pub(super) fn stall_began(limiter: &str, in_flight: u32) {
    tracing::warn!(limiter, in_flight, "stalled: full, and nothing finishes");
}

/// The stall is over.
pub(super) fn stall_ended(limiter: &str) {
    tracing::info!(limiter, "requests finish again");
}
