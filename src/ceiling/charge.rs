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
    receipt: Receipt,
}

/// A charge that can be kept beside its ceiling: see [`Charge::receipt`].
#[derive(Debug)]
pub struct Receipt {
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

impl<'a> Charge<'a> {
    pub(super) fn new(core: &'a Core, units: u32, at: Nanos, from: From) -> Self {
        Self { core, receipt: Receipt { units, at, from } }
    }

    /// How many units.
    pub fn units(&self) -> u32 {
        self.receipt.units
    }

    /// Gives the units back, because the attempt was never made. What time has paid off since they were
    /// taken is gone: it made room for others already.
    pub fn refund(self) {
        self.core.refund(&self.receipt);
    }

    /// Tells how the attempt went; may be called while it still runs, or as its end.
    ///
    /// A throttle cuts the rate, unless the units were taken before the last cut: then it says nothing
    /// of the rate since. Success lets the rate recover. Other outcomes say nothing of a rate.
    pub fn observe(&self, outcome: Outcome) {
        self.core.observe(outcome, self.receipt.at);
    }

    /// The charge without its hold on the ceiling, to be kept in a struct beside it: for
    /// [`Ceiling::refund`](super::Ceiling::refund) and [`Ceiling::settle`](super::Ceiling::settle).
    pub fn receipt(self) -> Receipt {
        self.receipt
    }
}
