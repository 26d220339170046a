//! What a hold-off says by `tracing`: when one begins, and when a probe ends one. Never a key: it may
//! be an account's.

use super::holds::Opened;
use crate::classify::WaitSource;

pub(super) fn opened(destination: &str, whole: bool, opened: &Opened, source: WaitSource) {
    let (seconds, capped, source) = (opened.length.as_secs_f64(), opened.capped, source.as_str());
    tracing::info!(destination, whole, seconds, capped, source, "hold-off: the destination is left alone");
}

pub(super) fn ended(destination: &str) {
    tracing::info!(destination, "hold-off: answered well again");
}
