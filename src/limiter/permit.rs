//! Permits: the right to be in flight, given back exactly once whatever happens.

use std::sync::Arc;

use super::core::Core;
use super::lane::Lane;
use crate::outcome::Outcome;
use crate::time::Nanos;

/// What a permit holds, and what is known of its request.
///
/// Plain words that stay in registers from admission to end: the fast path is measured in
/// nanoseconds, and a struct that is copied through the stack costs as much as its atomics.
#[derive(Debug)]
pub(super) struct Held {
    /// Its weight, and its class's position plus one above that; 0 once it has ended.
    place: u32,
    in_flight: u32,
    /// When it was admitted; [`Nanos::NEVER`] when it is not timed.
    start: Nanos,
    observed: Observed,
}

/// Enough for [`MAX_WEIGHT`](crate::admission::MAX_WEIGHT).
const WEIGHT_BITS: u32 = 25;

/// The outcome that was observed, as a whole word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Observed(u32);

impl Observed {
    const NOTHING: Self = Self(u32::MAX);

    fn of(outcome: Outcome) -> Self {
        Self(outcome.index() as u32)
    }

    fn outcome(self) -> Option<Outcome> {
        Outcome::ALL.get(self.0 as usize).copied()
    }
}

impl Held {
    #[inline]
    pub(super) fn new(weight: u32, in_flight: u32, start: Nanos) -> Self {
        Self { place: weight, in_flight, start, observed: Observed::NOTHING }
    }

    /// Of a class: its position plus one, 0 for none.
    #[inline]
    pub(super) fn of_class(self, class: u32) -> Self {
        Self { place: self.place | class << WEIGHT_BITS, ..self }
    }

    #[inline]
    fn weight(&self) -> u32 {
        self.place & ((1 << WEIGHT_BITS) - 1)
    }

    /// The outcome is known so far: takes the latency, once. It is counted at the end, when it is final.
    #[inline]
    fn observe(&mut self, core: &Core, outcome: Outcome) {
        let before = self.observed;
        self.observed = Observed::of(outcome);
        if before == Observed::NOTHING && self.start != Nanos::NEVER {
            core.sample(self.start, self.in_flight, outcome);
        }
    }

    #[inline(always)]
    fn end(&mut self, core: &Core, outcome: Option<Outcome>) {
        let outcome = outcome.or(self.observed.outcome()).unwrap_or(Outcome::Cancelled);
        core.recorder.finished(outcome);
        if self.start != Nanos::NEVER {
            let known = self.observed.outcome().is_some_and(|before| before != outcome);
            if known && outcome.is_pressure() {
                core.late_pressure(self.in_flight, outcome);
            }
            core.record_hold(self.start);
        }
        self.observe(core, outcome);
        match self.place >> WEIGHT_BITS {
            0 => core.gate.leave(self.place),
            class => core.gate.leave_place(class, self.weight()),
        }
        self.place = 0;
    }

    #[inline]
    fn drop(&mut self, core: &Core) {
        if self.place > 0 {
            self.end(core, None);
        }
    }
}

macro_rules! permit_methods {
    () => {
        /// Takes the latency now (at the response head, say) with the outcome so far, and keeps the place.
        ///
        /// The request is counted once, when the permit ends, with the last outcome: a stream that
        /// broke after a good head is a success in latency and a fault in the counts.
        pub fn observe(&mut self, outcome: Outcome) {
            self.held.observe(&self.core, outcome);
        }

        /// Ends the request with its outcome and gives the place back.
        #[inline(always)]
        pub fn finish(mut self, outcome: Outcome) {
            self.held.end(&self.core, Some(outcome));
        }

        /// Units it takes.
        pub fn weight(&self) -> u32 {
            self.held.weight()
        }

        /// Units that were in flight right after its admission, its own included. For a request of a
        /// class that is not timed, units held for classes may be counted with them.
        pub fn in_flight_at_start(&self) -> u32 {
            self.held.in_flight
        }
    };
}

/// The right to be in flight. Owned: it may be carried to any task or thread.
///
/// Ends by [`Permit::finish`] with an outcome. Dropped without one (an error, a panic, a dropped
/// future, a client that left) it ends as [`Outcome::Cancelled`], unless one was
/// [observed](Permit::observe) before. The place is given back exactly once in every case.
#[derive(Debug)]
#[must_use = "a permit that is dropped ends its request as cancelled"]
pub struct Permit {
    core: Arc<Lane>,
    held: Held,
}

impl Permit {
    #[inline]
    pub(super) fn new(lane: Arc<Lane>, held: Held) -> Self {
        Self { core: lane, held }
    }

    permit_methods!();
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.held.drop(&self.core);
    }
}

/// A [`Permit`] that borrows its limiter: a little cheaper, for a request that ends where it began.
#[derive(Debug)]
#[must_use = "a permit that is dropped ends its request as cancelled"]
pub struct PermitRef<'a> {
    core: &'a Core,
    held: Held,
}

impl<'a> PermitRef<'a> {
    #[inline]
    pub(super) fn new(core: &'a Core, held: Held) -> Self {
        Self { core, held }
    }

    permit_methods!();
}

impl Drop for PermitRef<'_> {
    #[inline]
    fn drop(&mut self) {
        self.held.drop(self.core);
    }
}
