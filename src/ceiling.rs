//! Ceilings: rates that all callers contend for.
//!
//! Concurrency is not a rate: 50 workers on calls of 30 ms make 1,650 calls a second. A [`Ceiling`]
//! holds a rate (units a second, and a burst), is charged once for each attempt where the request
//! leaves, and finds the rate that the other side really allows: a throttle cuts it, successes let it
//! recover, between its own bounds. A [`Budget`] counts the attempts of a run.
//!
//! In reading order: `bucket` and `adaptive` are plain values that are told the time; `atomic` makes
//! the bucket safe for threads; `line` keeps those who wait in order; `core` is the shell. For a ceiling
//! that is shared, `lease` sizes what is asked of the [`Store`], `standing` says when it is lost and
//! when to trust it again, `supply` holds the units of leases, and the [`Driver`] does the asking.
//!
//! Invariant: over any stretch of time no more units are taken than the rate allows in it and a burst,
//! however many threads take, and whatever the rate is changed to meanwhile.

mod adaptive;
mod atomic;
mod bucket;
mod budget;
mod builder;
mod charge;
mod core;
mod counts;
mod driver;
#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "ceiling/silent.rs"]
mod events;
mod lease;
mod line;
#[cfg(feature = "redis")]
mod redis;
mod sharing;
mod snapshot;
mod standing;
mod store;
mod supply;

use std::sync::Arc;
use std::time::Instant;

pub use adaptive::{Adaptive, RECOVERY};
pub use bucket::{Level, MAX_RATE, MAX_UNITS, MIN_RATE, Pace};
pub use budget::{Budget, Spent};
pub use builder::{CeilingBuilder, InvalidCeiling};
pub use charge::{Charge, Receipt};
pub use driver::Driver;
pub use lease::{Batch, HEARTBEAT, Lease, Seen};
#[cfg(feature = "redis")]
pub use redis::{InvalidStore, RedisStore, RedisStoreBuilder};
pub use sharing::{Observer, OnLoss, Sharing};
pub use snapshot::{CeilingSnapshot, Source};
pub use standing::{Standing, Turn};
pub use store::{Answer, Ask, Asking, Loss, Store, Terms};

use self::core::Core;
use crate::outcome::Outcome;
use crate::rejection::Rejected;

/// The longest line of waiters.
pub const MOST_WAITING: u32 = 1_000_000;

/// A rate that all callers contend for.
///
/// Cheap to clone; clones are the same ceiling. Taking units that are there is one compare-and-swap,
/// without a lock or an allocation.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::Outcome;
/// use tidegate::ceiling::Ceiling;
///
/// let ceiling = Ceiling::builder("partner").rate(100.0).burst(10).bounds(5.0, 100.0).build()?;
/// let charge = ceiling.take(1, None).await?; // waits for its turn
/// // ... make the attempt ...
/// charge.observe(Outcome::Success);
///
/// let charge = ceiling.try_take(9)?; // never waits
/// charge.refund(); // the attempt was not made
/// let refused = ceiling.try_take(10).expect_err("9 are left");
/// assert!(refused.retry_after.as_millis() <= 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Ceiling {
    core: Arc<Core>,
}

impl Ceiling {
    /// Begins to build the ceiling `name`.
    pub fn builder(name: impl Into<Arc<str>>) -> CeilingBuilder {
        CeilingBuilder::new(name.into())
    }

    /// Takes units for one attempt, or says exactly how long until they are there. Never waits.
    ///
    /// Those who wait in [`Ceiling::take`] come first. More units than the burst are to be had only
    /// while nothing is owed.
    ///
    /// # Errors
    /// [`Rejected`] with the reason `ceiling`; its `retry_after` is exact if nobody else comes.
    #[inline]
    pub fn try_take(&self, units: u32) -> Result<Charge<'_>, Rejected> {
        self.core.try_take(units)
    }

    /// Takes units for one attempt, after a wait if need be: first come, first served.
    ///
    /// Without a deadline, one waits as long as the ceiling was built to allow.
    ///
    /// # Errors
    /// [`Rejected`] with the reason `ceiling`: on arrival when the wait would end after the deadline or
    /// the line is full, later when the deadline comes first.
    ///
    /// # Cancel safety
    /// A dropped future has taken nothing and leaves the line.
    pub async fn take(&self, units: u32, deadline: Option<Instant>) -> Result<Charge<'_>, Rejected> {
        self.core.take(units, deadline).await
    }

    /// Tells how an attempt went when its charge is not at hand: it counts as charged 100 ms ago. See
    /// [`Charge::observe`].
    pub fn observe(&self, outcome: Outcome) {
        self.core.observe_now(outcome);
    }

    /// As [`Charge::observe`], for a charge that is kept as a receipt of this ceiling.
    pub fn settle(&self, receipt: &Receipt, outcome: Outcome) {
        self.core.observe(outcome, receipt.at);
    }

    /// As [`Charge::refund`], for a charge that is kept as a receipt of this ceiling.
    pub fn refund(&self, receipt: Receipt) {
        self.core.refund(&receipt);
    }

    /// Changes rate, burst and bounds at once. What is owed stays owed, and a larger burst fills at the
    /// rate: nothing comes free. When the rate is another one, what throttles had taught is forgotten.
    ///
    /// # Errors
    /// [`InvalidCeiling`] names what is wrong; nothing is changed then.
    pub fn set(&self, rate: f64, burst: f64, bounds: (f64, f64)) -> Result<(), InvalidCeiling> {
        builder::check_rate("rate", rate)?;
        builder::check_burst(burst)?;
        builder::check_bounds(bounds, rate)?;
        self.core.change(|control, now| {
            control.adaptive.set_bounds(bounds);
            if control.rate != rate {
                control.adaptive.set_rate(now, rate);
            }
            (control.rate, control.burst) = (rate, burst);
        });
        Ok(())
    }

    /// Changes the rate at once and forgets what throttles had taught. What is owed stays owed.
    ///
    /// # Errors
    /// [`InvalidCeiling`] when it lies outside of the bounds. Of a ceiling whose bounds are its rate, the
    /// bounds follow.
    pub fn set_rate(&self, rate: f64) -> Result<(), InvalidCeiling> {
        builder::check_rate("rate", rate)?;
        self.core.change(|control, now| {
            let (min, max) = control.adaptive.bounds();
            let bounds = if min == max { (rate, rate) } else { (min, max) };
            builder::check_bounds(bounds, rate)?;
            control.adaptive.set_bounds(bounds);
            control.adaptive.set_rate(now, rate);
            control.rate = rate;
            Ok(())
        })
    }

    /// Changes the smallest and the largest rate at once; the rate in force is held within them.
    ///
    /// # Errors
    /// [`InvalidCeiling`] when `min` is above `max` or one is out of range.
    pub fn set_bounds(&self, min: f64, max: f64) -> Result<(), InvalidCeiling> {
        self.core.change(|control, _| {
            builder::check_bounds((min, max), control.rate.clamp(min.min(max), max.max(min)))?;
            control.adaptive.set_bounds((min, max));
            Ok(())
        })
    }

    /// What is in force right now.
    pub fn snapshot(&self) -> CeilingSnapshot {
        self.core.snapshot()
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.core.name
    }
}
