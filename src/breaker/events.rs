//! What a breaker says by `tracing`: each change of its state.

use super::BreakerState;

pub(super) fn changed(breaker: &str, state: BreakerState) {
    match state {
        BreakerState::Open => tracing::warn!(breaker, "breaker opened: too many calls end in faults"),
        _ => tracing::info!(breaker, state = state.as_str(), "breaker changed"),
    }
}
