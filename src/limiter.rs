//! The limiter: the public face of admission, permits, windows and laws.
//!
//! [`Limiter::try_acquire`] and [`Limiter::acquire`] give a [`Permit`] or say why not. Beneath them,
//! in reading order: `core` (the shell that owns clock, gate, counters and control), `gate` (the
//! admission values made safe for threads), `recorder` (counters and timed requests), `permit`.
//!
//! Invariant: in flight never exceeds the limit that was in force at admission, except for one
//! over-weight request that is alone.

mod admit;
mod builder;
mod classes;
mod core;
#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "limiter/silent.rs"]
mod events;
mod gate;
mod lane;
mod permit;
mod recorder;
mod snapshot;
mod tenants;
pub(crate) mod thread;
mod timely;

use std::sync::Arc;
use std::time::Duration;

pub use admit::Admit;
pub use builder::{InvalidLimiter, LimiterBuilder, MOST_WAITING};
pub use classes::{ClassId, InvalidClasses};
pub use permit::{Permit, PermitRef};
pub use snapshot::{ClassSnapshot, Fallback, Shadow, Snapshot};
pub use tenants::Tenants;

use self::core::Core;
use self::gate::Refusal;
use self::lane::Lanes;
use crate::admission::{Class, Mode};
use crate::bounds::Bounds;
use crate::control::Record;
use crate::law::Law;
use crate::rejection::{RejectReason, Rejected, Rejection};

/// Guards one downstream resource: finds how many requests may be in flight, and refuses the rest.
///
/// Cheap to clone; clones are the same limiter. Nothing here blocks: changes of bounds, limit or
/// mode take effect at once and never wait for requests to finish.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidegate::{Admit, Limiter, Outcome};
///
/// let limiter = Limiter::builder("payments").bounds(4, 200).build()?;
/// let permit = limiter.acquire(Admit::new().class("query")).await?;
/// // ... call the downstream ...
/// permit.finish(Outcome::Success);
/// assert_eq!(limiter.snapshot().in_flight, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Limiter {
    core: Arc<Core>,
    lanes: Lanes,
}

impl Limiter {
    /// Begins to build a limiter; its name stands in metrics, refusals and logs.
    pub fn builder(name: impl Into<Arc<str>>) -> LimiterBuilder {
        LimiterBuilder::new(name.into())
    }

    /// Admits one unit now or refuses; never waits.
    ///
    /// # Errors
    /// [`Rejected`] when the limit is reached, somebody waits already, or the limiter is closed.
    #[inline]
    pub fn try_acquire(&self) -> Result<Permit, Rejected> {
        self.try_acquire_with(&Admit::new())
    }

    /// Admits a request now or refuses; never waits.
    ///
    /// # Errors
    /// As [`Limiter::try_acquire`], and when its deadline cannot be met.
    #[inline(always)]
    pub fn try_acquire_with(&self, admit: &Admit<'_>) -> Result<Permit, Rejected> {
        self.timely(admit)?;
        match self.core.enter(admit) {
            Ok(held) => Ok(Permit::new(self.lanes.own(), held)),
            Err(refusal) => Err(self.full(admit, refusal)),
        }
    }

    /// Admits a request now if there is room. A request that finds none is neither counted nor
    /// answered, nor is one whose deadline cannot be met: this is the first look of a caller that will
    /// [wait](Limiter::acquire) next.
    #[inline]
    pub fn acquire_if_free(&self, admit: &Admit<'_>) -> Option<Permit> {
        if !self.is_timely(admit) {
            return None;
        }
        let held = self.core.enter(admit).ok()?;
        Some(Permit::new(self.lanes.own(), held))
    }

    /// Like [`Limiter::try_acquire`], with a permit that borrows the limiter.
    ///
    /// # Errors
    /// As [`Limiter::try_acquire`].
    #[inline]
    pub fn try_acquire_ref(&self) -> Result<PermitRef<'_>, Rejected> {
        self.try_acquire_ref_with(&Admit::new())
    }

    /// Like [`Limiter::try_acquire_with`], with a permit that borrows the limiter.
    ///
    /// # Errors
    /// As [`Limiter::try_acquire`].
    #[inline]
    pub fn try_acquire_ref_with(&self, admit: &Admit<'_>) -> Result<PermitRef<'_>, Rejected> {
        self.timely(admit)?;
        match self.core.enter(admit) {
            Ok(held) => Ok(PermitRef::new(&self.core, held)),
            Err(refusal) => Err(self.full(admit, refusal)),
        }
    }

    #[cold]
    fn full(&self, admit: &Admit<'_>, refusal: Refusal) -> Rejected {
        self.core.reject(admit, refusal.reason())
    }

    /// Admits a request, after a wait in the waiting room if need be.
    ///
    /// Waits for its turn, at most as long as the waiting room allows and the request's own deadline
    /// permits. A deadline that cannot be met is refused on arrival. Turns go by class, then by tenant,
    /// then by the class's [`Order`](crate::Order); without classes and tenants, in order of arrival.
    ///
    /// # Errors
    /// [`Rejected`] with the reason.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the waiting room at once; a place that was given in that moment
    /// goes to the next.
    ///
    /// # Panics
    /// When it has to wait outside of a tokio runtime with its time driver enabled.
    pub async fn acquire(&self, admit: Admit<'_>) -> Result<Permit, Rejected> {
        self.timely(&admit)?;
        let held = match self.core.enter(&admit) {
            Ok(held) => held,
            Err(_) => self.core.wait(&admit).await?,
        };
        Ok(Permit::new(self.lanes.own(), held))
    }

    /// Counts a refusal that was decided in front of this limiter, by a [hold-off](crate::HoldOff) say,
    /// and says it with this limiter's numbers.
    #[cold]
    pub fn refuse(&self, admit: &Admit<'_>, reason: RejectReason, retry_after: Duration) -> Rejected {
        Rejection { retry_after, ..(*self.core.reject(admit, reason)).clone() }.into()
    }

    /// Changes the bounds at once: the limit is held within them before this returns. A lower
    /// maximum binds with a full queue too: nobody is admitted until in flight has fallen below it.
    pub fn set_bounds(&self, bounds: Bounds) {
        self.core.change(|control, now| {
            control.set_bounds(now, bounds);
        });
    }

    /// Changes the mode at once. Leaving `enforce` admits everybody who waits.
    pub fn set_mode(&self, mode: Mode) {
        if self.core.gate.set_mode(mode) {
            self.core.gate.serve();
        }
    }

    /// Changes how many may wait, and how long. Those who wait already keep their time.
    pub fn set_waiting_room(&self, len: u32, longest: Duration) {
        self.core.set_room(len, longest);
    }

    /// Divides the limit between other classes, at once. Those who are in flight or wait keep their
    /// places; those of a class that is gone belong to it until they end. Without any class everything
    /// belongs to the default class.
    ///
    /// # Errors
    /// [`InvalidClasses`]; then nothing has changed.
    pub fn set_classes(&self, classes: &[Class]) -> Result<(), InvalidClasses> {
        self.core.set_classes(classes)
    }

    /// Whether [`Limiter::set_classes`] would take these classes. Changes nothing.
    ///
    /// # Errors
    /// As that one.
    pub fn check_classes(&self, classes: &[Class]) -> Result<(), InvalidClasses> {
        self.core.classes.place(classes).map(drop)
    }

    /// A class by its name, for callers that would rather not look for it with each request.
    pub fn class_id(&self, name: &str) -> Option<ClassId> {
        self.core.classes.find(name).map(|at| ClassId(at as u8))
    }

    /// Changes how those who wait take turns by tenant.
    pub fn set_tenants(&self, tenants: &Tenants) {
        self.core.set_tenants(tenants);
    }

    /// Puts another law in place. It starts from the limit in force and has learned nothing.
    pub fn set_law(&self, law: Box<dyn Law>) {
        self.core.change(|control, _| control.set_law(law));
    }

    /// Lets a second law run beside the live one on the same windows; it moves nothing. `None` ends it.
    pub fn set_shadow_law(&self, law: Option<Box<dyn Law>>) {
        self.core.change(|control, _| control.set_shadow(law));
    }

    /// Admits nobody any more and refuses those who wait. Permits that are out stay valid.
    pub fn close(&self) {
        self.core.gate.close();
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.core.name
    }

    /// All numbers at this moment. Closes the window first if one is due, so that a stall shows
    /// though nothing finishes.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::of(&self.core)
    }

    /// The last decisions, newest first, each with its reason and inputs; at most
    /// [`Control::MOST_RECORDS`](crate::control::Control::MOST_RECORDS).
    pub fn decisions(&self) -> Vec<Record> {
        self.core.controlled().control.records().cloned().collect()
    }

    /// How long ago a [`Record`] was taken.
    pub fn age_of(&self, record: &Record) -> Duration {
        self.core.clock.now().since(record.at)
    }
}
