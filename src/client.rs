//! A destination as its callers see it: permit, ceiling and hold-off, asked once per attempt.
//!
//! An attempt is one request on the wire. [`Destination::begin`] asks, in this order and under one
//! deadline: the hold-off (is it to be left alone?), the ceiling (is there room in the rate?), the
//! limiter (is there room in flight?), and the hold-off again, since it may have been opened while
//! the others were waited for. Nobody waits with a permit in the hand, and what was taken is given
//! back when a later one refuses. How the attempt ended is told to all three at once.
//!
//! Retries belong above: each is an attempt of its own. See [`retry`](crate::retry).

mod attempt;
#[cfg(feature = "aws")]
pub mod aws;
#[cfg(feature = "reqwest")]
pub mod reqwest;

use std::time::{Duration, Instant};

use tokio::time::timeout_at;

pub use attempt::Attempt;
pub(crate) use attempt::Listeners;

use crate::ceiling::{Budget, Ceiling, Charge, Receipt};
use crate::clock;
use crate::hold_off::HoldOff;
use crate::limiter::{Admit, Limiter, Permit};
use crate::rejection::{RejectReason, Rejected};

/// What stands between callers and one destination: a limiter, and a ceiling and a hold-off if they are
/// wanted. Clones are the same. Where only the rate matters, a limiter in
/// [`Mode::Off`](crate::Mode::Off) stands aside.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use tidegate::ceiling::Ceiling;
/// use tidegate::classify::Verdict;
/// use tidegate::client::{Ask, Destination};
/// use tidegate::{HoldOff, Limiter, Outcome};
///
/// let partner = Destination::new(Limiter::builder("partner").bounds(1, 50).build()?)
///     .ceiling(Ceiling::builder("partner").rate(100.0).bounds(5.0, 100.0).build()?)
///     .hold_off(HoldOff::builder("partner").cap(Duration::from_secs(30)).build());
///
/// let mut attempt = partner.begin(Ask::new()).await?;
/// // ... send the request once ...
/// attempt.observe(&Verdict::of(Outcome::Success));
/// drop(attempt); // gives the permit back
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Destination {
    limiter: Limiter,
    ceiling: Option<Ceiling>,
    hold_off: Option<HoldOff>,
    budget: Option<Budget>,
    longest_wait: Duration,
}

/// What an attempt brings.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    admit: Admit<'a>,
    key: &'a str,
    units: Units,
    deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Units(u32);

impl Default for Units {
    fn default() -> Self {
        Self(1)
    }
}

const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// When to come back after a wait that was too long: nobody knows better.
const SOON: Duration = Duration::from_secs(1);

/// A charge may wait so long for its permit and still count as that of the moment. It bounds by how
/// much more than a burst can leave at once: a tenth of a second's worth.
const FRESH: Duration = Duration::from_millis(100);

impl<'a> Ask<'a> {
    /// One unit of nobody's.
    pub fn new() -> Self {
        Self::default()
    }

    /// What it brings to the limiter.
    #[must_use]
    pub fn admit(mut self, admit: Admit<'a>) -> Self {
        self.admit = admit;
        self
    }

    /// What it counts under at the destination (an account, a model, a route): holds for other keys
    /// do not concern it. Default: the empty key, which only holds for the whole destination concern.
    #[must_use]
    pub fn key(mut self, key: &'a str) -> Self {
        self.key = key;
        self
    }

    /// Units it takes of the ceiling. Default 1; 0 takes none.
    #[must_use]
    pub fn units(mut self, units: u32) -> Self {
        self.units = Units(units);
        self
    }

    /// When its answer is no longer of use.
    #[must_use]
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    fn admit_in_time(&self) -> Admit<'a> {
        self.deadline.map_or(self.admit, |at| self.admit.deadline_at_most(at))
    }
}

impl Destination {
    /// How many may be in flight is up to this limiter.
    pub fn new(limiter: Limiter) -> Self {
        Self { limiter, ceiling: None, hold_off: None, budget: None, longest_wait: LONGEST_WAIT }
    }

    /// How many may leave in a stretch of time.
    #[must_use]
    pub fn ceiling(mut self, ceiling: Ceiling) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    /// For how long it is left alone when its answers ask for it.
    #[must_use]
    pub fn hold_off(mut self, hold_off: HoldOff) -> Self {
        self.hold_off = Some(hold_off);
        self
    }

    /// How many attempts may be made at all. For one run (a backfill, say), put it on a clone of the
    /// destination that the run alone uses. Attempts count, however they end; those that are refused
    /// are none.
    #[must_use]
    pub fn budget(mut self, budget: Budget) -> Self {
        self.budget = Some(budget);
        self
    }

    /// The longest that an attempt waits here in all, also when its deadline is later. Default 60 s.
    /// The parts' own bounds count too.
    #[must_use]
    pub fn longest_wait(mut self, longest: Duration) -> Self {
        self.longest_wait = longest;
        self
    }

    /// As [`Destination::longest_wait`], unless it is shorter already.
    #[must_use]
    pub fn waits_at_most(mut self, longest: Duration) -> Self {
        self.longest_wait = self.longest_wait.min(longest);
        self
    }

    /// Its limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// Asks for one attempt, and waits for it as long as deadline and parts allow.
    ///
    /// # Errors
    /// [`Rejected`] by the one that refused. Nothing is taken then: the attempt was not made.
    ///
    /// # Cancel safety
    /// A dropped future has taken nothing: units of the ceiling that it had while it waited for its
    /// permit are given back.
    ///
    /// # Panics
    /// When it has to wait outside of a tokio runtime with its time driver enabled.
    pub async fn begin(&self, ask: Ask<'_>) -> Result<Attempt, Rejected> {
        let admit = ask.admit_in_time();
        let until = self.until(&ask);
        loop {
            if let Some(hold_off) = &self.hold_off {
                hold_off.wait_out(ask.key, Some(until)).await.map_err(|held| self.held(&ask, &held))?;
            }
            let charge = self.charge(&ask, until).await?;
            let permit = match timeout_at(until.into(), self.limiter.acquire(admit)).await {
                Ok(permit) => permit?,
                Err(_) => return Err(self.limiter.refuse(&ask.admit, RejectReason::QueueTimeout, SOON)),
            };
            let charge = match charge {
                // It waited along for the permit, and others with it: together they would leave at once.
                Some(charge) if !charge.is_fresh() => {
                    drop(charge);
                    match self.charge_now(&ask) {
                        Ok(anew) => anew,
                        Err(_) => continue,
                    }
                }
                charge => charge,
            };
            match self.may_leave(ask.key) {
                Ok(()) => return self.leaves(&ask, permit, charge),
                // It was opened meanwhile: back to the beginning, where it is waited for.
                Err(held) if clock::now() + held.retry_after < until => {}
                Err(held) => return Err(self.held(&ask, &held)),
            }
        }
    }

    /// Asks for one attempt that is made now or not at all.
    ///
    /// # Errors
    /// As [`Destination::begin`].
    pub fn try_begin(&self, ask: Ask<'_>) -> Result<Attempt, Rejected> {
        let charge = self.charge_now(&ask)?;
        let admit = ask.admit_in_time();
        let permit = self.limiter.try_acquire_with(&admit)?;
        self.may_leave(ask.key).map_err(|held| self.held(&ask, &held))?;
        self.leaves(&ask, permit, charge)
    }

    async fn charge(&self, ask: &Ask<'_>, until: Instant) -> Result<Option<Refundable<'_>>, Rejected> {
        match (&self.ceiling, ask.units) {
            (Some(ceiling), Units(units @ 1..)) => Ok(Some(Refundable::new(ceiling.take(units, Some(until)).await?))),
            _ => Ok(None),
        }
    }

    fn charge_now(&self, ask: &Ask<'_>) -> Result<Option<Refundable<'_>>, Rejected> {
        match (&self.ceiling, ask.units) {
            (Some(ceiling), Units(units @ 1..)) => Ok(Some(Refundable::new(ceiling.try_take(units)?))),
            _ => Ok(None),
        }
    }

    fn may_leave(&self, key: &str) -> Result<(), Rejected> {
        self.hold_off.as_ref().map_or(Ok(()), |hold_off| hold_off.check(key))
    }

    fn until(&self, ask: &Ask<'_>) -> Instant {
        let own = clock::now() + self.longest_wait;
        ask.deadline.map_or(own, |theirs| theirs.min(own))
    }

    /// A hold-off's refusal with the limiter's numbers, and counted there.
    fn held(&self, ask: &Ask<'_>, held: &Rejected) -> Rejected {
        self.limiter.refuse(&ask.admit, RejectReason::HoldOff, held.retry_after)
    }

    /// All have agreed. What the budget is asked for is spent, so it comes last.
    fn leaves(&self, ask: &Ask<'_>, permit: Permit, charge: Option<Refundable<'_>>) -> Result<Attempt, Rejected> {
        if self.budget.as_ref().is_some_and(|budget| budget.spend().is_err()) {
            return Err(self.limiter.refuse(&ask.admit, RejectReason::BudgetSpent, LONGEST_WAIT));
        }
        let charged = self.ceiling.clone().zip(charge.map(Refundable::keep));
        let held = self.hold_off.clone().map(|hold_off| (hold_off, ask.key.into()));
        Ok(Attempt::new(permit, Listeners::new(charged, held)))
    }
}

/// A charge that is refunded unless the attempt is made.
struct Refundable<'a> {
    charge: Option<Charge<'a>>,
    at: Instant,
}

impl<'a> Refundable<'a> {
    fn new(charge: Charge<'a>) -> Self {
        Self { charge: Some(charge), at: clock::now() }
    }

    fn is_fresh(&self) -> bool {
        clock::now().saturating_duration_since(self.at) <= FRESH
    }

    fn keep(mut self) -> Receipt {
        self.charge.take().expect("kept or refunded once").receipt()
    }
}

impl Drop for Refundable<'_> {
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            charge.refund();
        }
    }
}
