//! Whether an upstream asked to be left alone, and telling its hold-off what came back.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::Request;
use tidegate::classify::Verdict;
use tidegate::tower::Reading;
use tidegate::{Admit, Outcome, RejectReason, Rejected};

use super::paced::Paid;
use crate::route::{Guard, Holding, Route};

/// Tells the hold-off what came back, under the key that the request went out with, and the ceiling.
pub(crate) struct Watch {
    route: Arc<Route>,
    /// `None` for the route's own.
    key: Option<String>,
    paid: Option<Paid>,
}

impl Watch {
    pub(super) fn see(&self, verdict: &Verdict<'_>) {
        let holding = &self.route.holding;
        holding.answers.note(verdict);
        if holding.on {
            holding.hold_off.see(verdict, self.key.as_deref().unwrap_or(&self.route.prefix));
        }
        if let Some(paid) = &self.paid {
            paid.settle(verdict.outcome);
        }
    }

    /// The request went out for this charge.
    pub(super) fn paying(self, paid: Option<Paid>) -> Self {
        Self { paid, ..self }
    }

    /// The request did not go out.
    pub(super) fn unsent(self) {
        if let Some(paid) = self.paid {
            paid.refund();
        }
    }

    /// Tells what the head tells; itself again when there is more to come.
    pub(super) fn see_head(self, reading: &mut Reading) -> Option<Self> {
        if !reading.is_open() {
            self.see(&reading.end(None));
            return None;
        }
        if reading.so_far() == Outcome::Success {
            self.see(&Verdict::of(Outcome::Success));
        }
        Some(self)
    }
}

/// Before there is a place: refuses what would be held.
pub(super) fn look<B>(route: &Arc<Route>, guard: Option<&Guard>, request: &Request<B>) -> Result<(), Rejected> {
    let Some(holding) = enforced(route, guard) else { return Ok(()) };
    let key = key(holding, request);
    match holding.hold_off.remaining(key.as_deref().unwrap_or(&route.prefix)) {
        // Counted and jittered as a refusal of the hold-off's own, or told in full by the limiter.
        Some(_) => pass(route, guard, request).map(drop),
        None => Ok(()),
    }
}

/// Right before the request goes out: refuses while held; who passes is watched.
pub(super) fn pass<B>(route: &Arc<Route>, guard: Option<&Guard>, request: &Request<B>) -> Result<Watch, Rejected> {
    let key = key(&route.holding, request);
    if let Some(holding) = enforced(route, guard)
        && let Err(held) = holding.hold_off.check(key.as_deref().unwrap_or(&route.prefix))
    {
        return Err(match guard {
            Some(guard) => guard.limiter.refuse(&Admit::new(), RejectReason::HoldOff, held.retry_after),
            None => held,
        });
    }
    Ok(Watch { route: route.clone(), key, paid: None })
}

/// A limiter that refuses nobody lets nobody be refused for a hold-off either.
fn enforced<'a>(route: &'a Route, guard: Option<&Guard>) -> Option<&'a Holding> {
    Some(&route.holding).filter(|holding| holding.on && guard.is_none_or(|guard| guard.enforces))
}

/// A fingerprint of the header that the config names: it may be a secret. Without one, those who take
/// the same route are held off together.
fn key<B>(holding: &Holding, request: &Request<B>) -> Option<String> {
    let name = holding.by_header.as_ref()?;
    let mut fingerprint = DefaultHasher::new();
    request.headers().get_all(name).iter().for_each(|value| value.as_bytes().hash(&mut fingerprint));
    Some(format!("{:016x}", fingerprint.finish()))
}
