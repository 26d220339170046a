//! Deadlines on arrival: a request that comes too late is refused before it takes a place.
//!
//! Decides only what can be told without waiting. An idle limiter admits whoever has any time left,
//! so that a typical latency learned in bad times can be unlearned.

use std::time::{Duration, Instant};

use super::{Admit, Limiter};
use crate::rejection::{RejectReason, Rejected};

impl Limiter {
    /// Refuses a request that could not be answered in time if it were admitted now.
    #[inline]
    pub(super) fn timely(&self, admit: &Admit<'_>) -> Result<(), Rejected> {
        if self.is_timely(admit) { Ok(()) } else { Err(self.core.reject(admit, RejectReason::DeadlineUnmeetable)) }
    }

    /// Whether it could be answered in time if it were admitted now.
    #[inline]
    pub(super) fn is_timely(&self, admit: &Admit<'_>) -> bool {
        admit.until().is_none_or(|until| self.has_time(until))
    }

    #[inline(never)]
    fn has_time(&self, until: Instant) -> bool {
        let (now, until) = (self.core.clock.now(), self.core.clock.at(until));
        let busy = self.core.gate.in_flight() > 0;
        let work = if busy { self.core.typical_latency() } else { Duration::ZERO };
        now + work < until
    }
}
