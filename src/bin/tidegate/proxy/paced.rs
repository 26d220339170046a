//! The ceiling of a route: charged once for each request that goes out, told what came back.

use std::time::{Duration, Instant};

use tidegate::ceiling::Receipt;
use tidegate::{Admit, Ceiling, Deadline, Outcome, RejectReason, Rejected};

use crate::route::{Guard, Pacing, Route};

/// A request that is paid for.
pub(crate) struct Paid {
    ceiling: Ceiling,
    receipt: Receipt,
}

impl Paid {
    /// How the attempt went.
    pub(super) fn settle(&self, outcome: Outcome) {
        self.ceiling.settle(&self.receipt, outcome);
    }

    /// The request did not go out.
    pub(super) fn refund(self) {
        self.ceiling.refund(self.receipt);
    }
}

/// Pays for a request, after a wait if need be, or refuses it.
pub(super) async fn pay(
    route: &Route,
    guard: Option<&Guard>,
    deadline: Option<Deadline>,
) -> Result<Option<Paid>, Rejected> {
    let Some(Pacing { ceiling, wait }) = &route.pacing else { return Ok(None) };
    let until = Instant::now() + *wait;
    let until = deadline.map_or(until, |deadline| deadline.moment().min(until));
    let charge = match (wait, deadline) {
        (&Duration::ZERO, _) => ceiling.try_take(1),
        _ => ceiling.take(1, Some(until)).await,
    };
    match charge {
        Ok(charge) => Ok(Some(Paid { ceiling: ceiling.clone(), receipt: charge.receipt() })),
        Err(rejected) => {
            if let Some(guard) = guard {
                // Counted with the limiter's own numbers; told with the ceiling's.
                let counted = guard.limiter.refuse(&Admit::new(), RejectReason::Ceiling, rejected.retry_after);
                guard.tally.rejected(&counted, None);
            }
            Err(rejected)
        }
    }
}
