//! Local overload: measures how late an async runtime runs what is ready.
//!
//! A canary is one task a runtime that wakes ten times a second, gives way to whatever else is
//! ready, and looks how long it took to be run again. When the runtime has been late all along
//! (`standing.rs`), it is this process that is overloaded, whatever the downstream says: limiters that
//! were given the canary then hold or cut their limit, and learn nothing from latencies that are their own
//! doing. A canary measures without a threshold too; it then counts as overload for nobody.

mod standing;

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::clock::Clock;
use crate::time::Nanos;
use standing::Standing;

/// How often a runtime is looked at.
const BEAT: Duration = Duration::from_millis(100);
/// tokio's timers count in milliseconds: what they are late by less is not the runtime's doing.
const TIMER_STEP: Duration = Duration::from_millis(2);
/// A runtime that has missed its beat by so much is blocked, and that is read without waiting for it.
const MISSED: Duration = Duration::from_millis(400);

/// Watches one or several runtimes. Cheap to clone; see the [module](self).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use std::time::Duration;
/// use tidegate::{Canary, Limiter};
///
/// let canary = Canary::start(Duration::from_millis(50));
/// let limiter = Limiter::builder("search").canary(&canary).build().expect("the defaults are valid");
/// # assert_eq!(limiter.snapshot().in_flight, 0);
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Canary {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    /// In nanoseconds; `u64::MAX` when it only measures.
    threshold: AtomicU64,
    runtimes: Box<[Beat]>,
}

/// What one runtime's task has seen.
#[derive(Debug, Default)]
struct Beat {
    standing_ns: AtomicU64,
    /// When its next beat is due; 0 until it is watched.
    due_ns: AtomicU64,
    beats: AtomicU64,
}

/// A runtime is late, and has been for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// How late, at least.
    pub(crate) by: Duration,
    /// Grows when there is news: a cut waits for what the cut before it has done.
    pub(crate) news: u64,
}

impl Canary {
    /// A canary for so many runtimes (at least one). Spawn [`Canary::watch`] on each.
    pub fn new(runtimes: usize) -> Self {
        let runtimes = (0..runtimes.max(1)).map(|_| Beat::default()).collect();
        let shared = Shared { clock: Clock::new(), threshold: AtomicU64::new(u64::MAX), runtimes };
        Self { shared: Arc::new(shared) }
    }

    /// A canary that watches the runtime it is called on; a standing delay of `threshold` or more is overload.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(threshold: Duration) -> Self {
        let canary = Self::new(1);
        canary.set_threshold(Some(threshold));
        drop(tokio::spawn(canary.watch(0)));
        canary
    }

    /// From which standing delay on it is overload; `None` only measures. At once, for all who hold it.
    pub fn set_threshold(&self, threshold: Option<Duration>) {
        let ns = threshold.map_or(u64::MAX, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX - 1));
        self.shared.threshold.store(ns, Ordering::Relaxed);
    }

    /// Watches the runtime that polls it, as number `runtime`. Ends when every handle is dropped; can be
    /// dropped at any time. A number that [`Canary::new`] did not ask for is not watched.
    pub fn watch(&self, runtime: usize) -> impl Future<Output = ()> + Send + 'static {
        let (clock, shared) = (self.shared.clock, Arc::downgrade(&self.shared));
        async move {
            let mut standing = Standing::default();
            let mut next = clock.now() + BEAT;
            while note(&shared, runtime, |beat| beat.due_ns.store(next.0, Ordering::Relaxed)) {
                tokio::time::sleep_until(clock.instant_of(next)).await;
                let woken = clock.now();
                tokio::task::yield_now().await;
                let now = clock.now();
                let delay = now.since(woken).max(woken.since(next).saturating_sub(TIMER_STEP));
                let standing = u64::try_from(standing.push(delay).as_nanos()).unwrap_or(u64::MAX);
                note(&shared, runtime, |beat| {
                    beat.standing_ns.store(standing, Ordering::Relaxed);
                    beat.beats.fetch_add(1, Ordering::Relaxed);
                });
                next = now + BEAT;
            }
            note(&shared, runtime, |beat| beat.due_ns.store(0, Ordering::Relaxed));
        }
    }

    /// The standing delay of the runtime that is latest; of one that is blocked, how long it has been.
    pub fn delay(&self) -> Duration {
        let now = self.shared.clock.now();
        self.shared.runtimes.iter().map(|beat| beat.delay(now)).max().unwrap_or_default()
    }

    /// Whether this process is overloaded.
    pub(crate) fn late(&self) -> Option<Late> {
        let threshold = self.shared.threshold.load(Ordering::Relaxed);
        if threshold == u64::MAX {
            return None;
        }
        let by = self.delay();
        let beats: u64 = self.shared.runtimes.iter().map(|beat| beat.beats.load(Ordering::Relaxed)).sum();
        let news = beats / (self.shared.runtimes.len() * Standing::BEATS) as u64;
        (by >= Duration::from_nanos(threshold)).then_some(Late { by, news })
    }
}

impl Beat {
    fn delay(&self, now: Nanos) -> Duration {
        let standing = Duration::from_nanos(self.standing_ns.load(Ordering::Relaxed));
        match self.due_ns.load(Ordering::Relaxed) {
            0 => standing,
            due => {
                let missed = now.since(Nanos(due));
                if missed < MISSED { standing } else { standing.max(missed) }
            }
        }
    }
}

/// Whether anybody still holds the canary, and the runtime is one of its own.
fn note(shared: &Weak<Shared>, runtime: usize, what: impl FnOnce(&Beat)) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    shared.runtimes.get(runtime).map(what).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_runtime_with_nothing_to_do_is_never_late() {
        let canary = Canary::start(Duration::from_millis(1));
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!((canary.delay(), canary.late()), (Duration::ZERO, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocked_runtime_is_seen_while_it_is_blocked() {
        let canary = Canary::new(1);
        drop(tokio::spawn(canary.watch(0)));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(canary.late(), None, "it only measures");
        // Time goes on without the task being run.
        tokio::time::advance(Duration::from_secs(2)).await;
        canary.set_threshold(Some(Duration::from_secs(1)));
        assert!(canary.delay() >= Duration::from_secs(1), "{:?}", canary.delay());
        assert!(canary.late().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_canary_that_nobody_holds_ends_its_task() {
        let canary = Canary::new(1);
        let task = tokio::spawn(canary.watch(0));
        drop(canary);
        tokio::time::timeout(Duration::from_secs(1), task).await.expect("ends").expect("in order");
    }

    #[tokio::test(start_paused = true)]
    async fn a_runtime_it_was_not_made_for_is_not_watched() {
        let canary = Canary::new(1);
        tokio::time::timeout(Duration::from_secs(1), canary.watch(7)).await.expect("ends at once");
    }
}
