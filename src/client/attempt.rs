//! An attempt under way: what it holds, and whom its end is told.

use crate::ceiling::{Ceiling, Receipt};
use crate::classify::Verdict;
use crate::hold_off::HoldOff;
use crate::limiter::Permit;
use crate::outcome::Outcome;

/// One request on the wire, from its permit to its end.
///
/// Dropped without an observation it ends as cancelled; what it took of the ceiling stays spent, since
/// it has left. The permit is given back exactly once in every case.
#[derive(Debug)]
#[must_use = "an attempt that is dropped ends as cancelled"]
pub struct Attempt {
    permit: Permit,
    listeners: Listeners,
}

impl Attempt {
    pub(super) fn new(permit: Permit, listeners: Listeners) -> Self {
        Self { permit, listeners }
    }

    /// Tells limiter, ceiling and hold-off what the answer means so far, and takes the latency; the
    /// permit is kept.
    pub fn observe(&mut self, verdict: &Verdict<'_>) {
        self.permit.observe(verdict.outcome);
        self.listeners.tell(verdict);
    }

    /// Ends the attempt and gives the permit back.
    pub fn finish(mut self, verdict: &Verdict<'_>) {
        self.listeners.tell(verdict);
        self.permit.finish(verdict.outcome);
    }

    #[cfg_attr(not(feature = "tower"), expect(dead_code, reason = "only the layer takes it apart"))]
    pub(crate) fn into_parts(self) -> (Permit, Listeners) {
        (self.permit, self.listeners)
    }
}

/// Who besides the limiter hears how an attempt ends.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    charged: Option<(Ceiling, Receipt)>,
    held: Option<(HoldOff, Box<str>)>,
    told: Option<Outcome>,
}

impl Listeners {
    pub(crate) fn new(charged: Option<(Ceiling, Receipt)>, held: Option<(HoldOff, Box<str>)>) -> Self {
        Self { charged, held, told: None }
    }

    /// Says it once for each outcome: a throttle inside of a stream that began well is news, the same
    /// good end a second time is none.
    pub(crate) fn tell(&mut self, verdict: &Verdict<'_>) {
        if self.told == Some(verdict.outcome) {
            return;
        }
        self.told = Some(verdict.outcome);
        if let Some((ceiling, at)) = &self.charged {
            ceiling.settle(at, verdict.outcome);
        }
        if let Some((hold_off, key)) = &self.held {
            hold_off.see(verdict, key);
        }
    }
}
