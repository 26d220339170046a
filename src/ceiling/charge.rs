//! Units that were taken from a ceiling, and what becomes of them.

use super::bucket::Level;
use super::core::Core;
use crate::outcome::Outcome;
use crate::time::Nanos;

/// Units taken for one attempt. Dropped, they are spent, and nothing is learned of how it went.
#[derive(Debug)]
#[must_use = "an attempt is paid for; make it, or refund the charge"]
pub struct Charge<'a> {
    core: &'a Core,
    pub(super) units: u32,
    pub(super) at: Nanos,
    pub(super) from: From,
}

/// Where units came from, and what a refund needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum From {
    /// The bucket, which they led to this level.
    Bucket(Level),
    /// A lease that lives until then.
    Lease(Nanos),
}

/// When units were taken, for an attempt that outlives its charge: see
/// [`Ceiling::observe_charged`](super::Ceiling::observe_charged).
#[derive(Clone, Copy, Debug)]
pub struct ChargedAt(pub(super) Nanos);

impl<'a> Charge<'a> {
    pub(super) fn new(core: &'a Core, units: u32, at: Nanos, from: From) -> Self {
        Self { core, units, at, from }
    }

    /// How many units.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Spends the units and keeps only when they were taken.
    pub fn spend(self) -> ChargedAt {
        ChargedAt(self.at)
    }

    /// Gives the units back, because the attempt was never made. What time has paid off since they were
    /// taken is gone: it made room for others already.
    pub fn refund(self) {
        self.core.refund(&self);
    }

    /// Tells how the attempt went; may be called while it still runs, or as its end.
    ///
    /// A throttle cuts the rate, unless the units were taken before the last cut: then it says nothing
    /// of the rate since. Success lets the rate recover. Other outcomes say nothing of a rate.
    pub fn observe(&self, outcome: Outcome) {
        self.core.observe(outcome, self.at);
    }
}
