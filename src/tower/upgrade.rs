//! A permit for a connection that outlives its response.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::limiter::Permit;

/// Keeps the permit of an upgraded connection (WebSocket, CONNECT) in flight.
///
/// It is in the extensions of each request that asks for an upgrade, and of the response that grants
/// it. When the answer is 101, or a success to CONNECT, the permit moves into the guard and ends when
/// the last clone is dropped; its outcome and latency were taken at the response head. When the
/// answer is another, the guard is empty and keeping it does no harm.
///
/// On a client: take it out of the response's extensions before `hyper::upgrade::on(response)`.
#[derive(Clone, Default)]
#[must_use = "the permit ends when the last guard is dropped"]
pub struct UpgradeGuard {
    permit: Arc<Mutex<Option<Permit>>>,
}

impl UpgradeGuard {
    pub(super) fn keep(&self, permit: Permit) {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
    }

    /// Whether the upgrade was granted, so that the guard holds a permit.
    pub fn is_holding(&self) -> bool {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

impl fmt::Debug for UpgradeGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UpgradeGuard").field("is_holding", &self.is_holding()).finish()
    }
}
