//! A circuit breaker that knows pressure from failure.
//!
//! What it decides is in `circuit`, a pure value; this shell owns the clock, the dice and the lock. It
//! moves no limit and holds nobody off: a destination that is busy is a limiter's and a
//! [`HoldOff`](crate::HoldOff)'s business. Nothing in the crate uses a breaker by itself; it is for
//! those who call what may be down.

mod circuit;
#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "breaker/silent.rs"]
mod events;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use circuit::{BreakerOpen, BreakerState};

use self::circuit::{Circuit, Settings, Ticket};
use crate::clock::Clock;
use crate::limiter::thread::roll;
use crate::outcome::Outcome;

/// Stops calls to a destination that fails, and finds out by a few calls when it works again.
///
/// Faults are failures ([`Outcome::Fault`]). Good answers, the caller's own mistakes, throttles and
/// used-up accounts come from a destination that works. Overload and time-outs say neither: a busy
/// destination must not be taken for a dead one, and calls that nobody waited for tell nothing.
///
/// Cheap to clone; clones are the same breaker.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Breaker, Classifier, Outcome};
/// use tidegate::breaker::BreakerState;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let breaker = Breaker::builder("partner").failure_rate(0.5).least_calls(4).build();
/// let classifier = Classifier::default();
///
/// // A destination that answers 429 is not down, however often it says so.
/// for status in [200, 429, 429, 429, 429, 429, 404] {
///     let call = breaker.try_call().expect("closed");
///     // ... send the request ...
///     call.end(classifier.classify_head(status, &()));
/// }
/// assert_eq!(breaker.state(), BreakerState::Closed);
///
/// // One that answers 500 is.
/// while let Ok(call) = breaker.try_call() {
///     call.end(classifier.classify_head(500, &()));
/// }
/// assert_eq!(breaker.state(), BreakerState::Open);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: Arc<str>,
    clock: Clock,
    circuit: Mutex<Circuit>,
    opened: AtomicU64,
    refused: AtomicU64,
}

/// Builds a [`Breaker`]. Values out of range are brought into it.
#[derive(Clone, Debug)]
pub struct BreakerBuilder {
    name: Arc<str>,
    settings: Settings,
}

impl BreakerBuilder {
    /// How long a call counts, from 10 ms to 1 hour. Default 10 s.
    #[must_use]
    pub fn window(mut self, window: Duration) -> Self {
        self.settings.window = window.clamp(Duration::from_millis(10), Duration::from_secs(3600));
        self
    }

    /// The share of failures from which it opens, above 0, at most 1. Default 0.5.
    #[must_use]
    pub fn failure_rate(mut self, share: f64) -> Self {
        self.settings.failure_rate = if share.is_nan() { 1.0 } else { share.clamp(0.001, 1.0) };
        self
    }

    /// With fewer calls in the window that say something it stays closed; at least 1. Default 20.
    #[must_use]
    pub fn least_calls(mut self, calls: u32) -> Self {
        self.settings.least_calls = calls.max(1);
        self
    }

    /// How long it is open at first, at least 1 ms, default 5 s, and at most, default 60 s; it doubles
    /// each time a probe fails. Up to a tenth is added at random.
    #[must_use]
    pub fn open_for(mut self, first: Duration, at_most: Duration) -> Self {
        let first = first.clamp(Duration::from_millis(1), Duration::from_secs(86_400));
        (self.settings.open_for, self.settings.open_at_most) =
            (first, at_most.clamp(first, Duration::from_secs(86_400)));
        self
    }

    /// How many calls go at a time while it is half-open, and how many good ones close it; at least 1.
    /// Default 1.
    #[must_use]
    pub fn probes(mut self, probes: u32) -> Self {
        self.settings.probes = probes.max(1);
        self
    }

    /// The breaker, closed.
    pub fn build(self) -> Breaker {
        let shared = Shared {
            name: self.name,
            clock: Clock::new(),
            circuit: Mutex::new(Circuit::new(self.settings)),
            opened: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        Breaker { shared: Arc::new(shared) }
    }
}

impl Breaker {
    /// Begins to build one; the name stands in errors, metrics and logs.
    pub fn builder(name: impl Into<Arc<str>>) -> BreakerBuilder {
        let settings = Settings {
            window: Duration::from_secs(10),
            least_calls: 20,
            failure_rate: 0.5,
            open_for: Duration::from_secs(5),
            open_at_most: Duration::from_secs(60),
            probes: 1,
        };
        BreakerBuilder { name: name.into(), settings }
    }

    /// Begins a call; never waits.
    ///
    /// # Errors
    /// [`BreakerOpen`] while it is open, or half-open with its probes out.
    pub fn try_call(&self) -> Result<Call, BreakerOpen> {
        let now = self.shared.clock.now();
        match self.circuit().ask(now) {
            Ok(ticket) => Ok(Call { breaker: self.clone(), ticket: Some(ticket) }),
            Err(retry_after) => {
                self.shared.refused.fetch_add(1, Ordering::Relaxed);
                Err(BreakerOpen { breaker: self.shared.name.clone(), retry_after })
            }
        }
    }

    /// Where it stands.
    pub fn state(&self) -> BreakerState {
        let now = self.shared.clock.now();
        self.circuit().state(now)
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.shared.name
    }

    /// How often it opened.
    pub fn opened(&self) -> u64 {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// How many calls it refused.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    fn ended(&self, ticket: Ticket, outcome: Outcome) {
        let now = self.shared.clock.now();
        let dice = f64::from(roll()) / (f64::from(u32::MAX) + 1.0);
        let changed = self.circuit().ended(ticket, outcome, now, dice);
        if changed == Some(BreakerState::Open) {
            self.shared.opened.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(state) = changed {
            events::changed(&self.shared.name, state);
        }
    }

    fn circuit(&self) -> MutexGuard<'_, Circuit> {
        self.shared.circuit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call under way. Dropped without an outcome it ends as cancelled, which tells nothing.
#[derive(Debug)]
#[must_use = "a call that is dropped tells the breaker nothing"]
pub struct Call {
    breaker: Breaker,
    ticket: Option<Ticket>,
}

impl Call {
    /// Ends it with its outcome.
    pub fn end(mut self, outcome: Outcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.ended(ticket, outcome);
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.finish(Outcome::Cancelled);
    }
}
