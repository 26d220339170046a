//! Whether an upstream asked to be left alone, and telling its hold-off what came back.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::Request;
use tidegate::classify::Verdict;
use tidegate::tower::Reading;
use tidegate::{Admit, HoldOff, Outcome, RejectReason, Rejected};

use super::answers::Answers;
use crate::route::{Guard, Holding, Route};

/// Tells the hold-off what came back, under the key that the request went out with.
pub(crate) struct Watch {
    hold_off: Option<HoldOff>,
    key: String,
    answers: Arc<Answers>,
}

impl Watch {
    pub(super) fn see(&self, verdict: &Verdict<'_>) {
        self.answers.note(verdict);
        if let Some(hold_off) = &self.hold_off {
            hold_off.see(verdict, &self.key);
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
pub(super) fn look<B>(route: &Route, guard: Option<&Guard>, request: &Request<B>) -> Result<(), Rejected> {
    let Some(holding) = enforced(route, guard) else { return Ok(()) };
    match holding.hold_off.remaining(&key(holding, route, request)) {
        // Counted and jittered as a refusal of the hold-off's own, or told in full by the limiter.
        Some(_) => pass(route, guard, request).map(drop),
        None => Ok(()),
    }
}

/// Right before the request goes out: refuses while held; who passes is watched.
pub(super) fn pass<B>(route: &Route, guard: Option<&Guard>, request: &Request<B>) -> Result<Option<Watch>, Rejected> {
    let holding = &route.holding;
    let key = key(holding, route, request);
    if enforced(route, guard).is_some()
        && let Err(held) = holding.hold_off.check(&key)
    {
        return Err(match guard {
            Some(guard) => guard.limiter.refuse(&Admit::new(), RejectReason::HoldOff, held.retry_after),
            None => held,
        });
    }
    let hold_off = holding.on.then(|| holding.hold_off.clone());
    Ok(Some(Watch { hold_off, key, answers: holding.answers.clone() }))
}

/// A limiter that refuses nobody lets nobody be refused for a hold-off either.
fn enforced<'a>(route: &'a Route, guard: Option<&Guard>) -> Option<&'a Holding> {
    Some(&route.holding).filter(|holding| holding.on && guard.is_none_or(|guard| guard.enforces))
}

/// The route's prefix, or a fingerprint of the header that the config names: it may be a secret.
fn key<B>(holding: &Holding, route: &Route, request: &Request<B>) -> String {
    match &holding.by_header {
        Some(name) => {
            let mut fingerprint = DefaultHasher::new();
            request.headers().get_all(name).iter().for_each(|value| value.as_bytes().hash(&mut fingerprint));
            format!("{:016x}", fingerprint.finish())
        }
        None => route.prefix.to_string(),
    }
}
