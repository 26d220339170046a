//! Permits: the right to be in flight, given back exactly once whatever happens.

use std::sync::Arc;

use super::core::Core;
use crate::outcome::Outcome;
use crate::time::Nanos;
use crate::window::{Sample, level_of};

/// What a permit holds, and what is known of its request.
#[derive(Debug)]
pub(super) struct Held {
    weight: u32,
    in_flight: u32,
    /// When it was admitted; [`Nanos::NEVER`] when it is not timed.
    start: Nanos,
    observed: Option<Outcome>,
    finish: Option<Outcome>,
}

impl Held {
    #[inline]
    pub(super) fn untimed(weight: u32, in_flight: u32) -> Self {
        Self { weight, in_flight, start: Nanos::NEVER, observed: None, finish: None }
    }

    /// Begins to time it.
    pub(super) fn time(&mut self, core: &Core) {
        self.start = core.clock.now();
        core.recorder.unfinished.start(level_of(self.in_flight), self.start);
    }

    fn is_timed(&self) -> bool {
        self.start != Nanos::NEVER
    }

    /// The outcome is known: counts it and takes the latency.
    #[inline]
    fn observe(&mut self, core: &Core, outcome: Outcome) {
        let seen = self.observed.replace(outcome);
        // A later end counts only when it differs; its latency was taken before.
        if seen != Some(outcome) {
            core.recorder.finished(outcome);
        }
        if seen.is_none() && self.is_timed() {
            self.sample(core, outcome);
        }
    }

    fn sample(&self, core: &Core, outcome: Outcome) {
        let end = core.clock.now();
        let sample = Sample { start: self.start, end, in_flight: self.in_flight, outcome };
        core.recorder.unfinished.finish(level_of(self.in_flight), self.start);
        core.recorder.latency.record(sample.latency(), core.recorder.one_in());
        core.recorder.sample(sample);
        core.close_window_if_due(end);
    }

    #[inline]
    fn end(&mut self, core: &Core) {
        if let Some(outcome) = self.finish.or(self.observed.is_none().then_some(Outcome::Cancelled)) {
            self.observe(core, outcome);
        }
        if self.is_timed() {
            self.record_hold(core);
        }
        core.gate.leave(self.weight);
    }

    fn record_hold(&self, core: &Core) {
        core.recorder.hold.record(core.clock.now().since(self.start), core.recorder.one_in());
    }
}

macro_rules! permit_methods {
    () => {
        /// Takes the outcome and the latency now (at the response head, say) and keeps the place.
        ///
        /// Later observations count only when the outcome differs: a stream that broke after a
        /// good head is a success in latency and one fault more in the counts.
        pub fn observe(&mut self, outcome: Outcome) {
            self.held.observe(&self.core, outcome);
        }

        /// Ends the request with its outcome and gives the place back.
        #[inline]
        pub fn finish(mut self, outcome: Outcome) {
            self.held.finish = Some(outcome);
        }

        /// Units it takes.
        pub fn weight(&self) -> u32 {
            self.held.weight
        }

        /// Units that were in flight right after its admission, its own included.
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
    core: Arc<Core>,
    held: Held,
}

impl Permit {
    #[inline]
    pub(super) fn new(core: Arc<Core>, held: Held) -> Self {
        Self { core, held }
    }

    permit_methods!();
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        self.held.end(&self.core);
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
        self.held.end(self.core);
    }
}
