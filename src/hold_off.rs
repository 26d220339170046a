//! Hold-offs: a destination that says "come back later" is left alone until then, by everybody.
//!
//! One [`HoldOff`] stands for one destination and is shared by all its callers. What it decides is in
//! `holds`, a pure value; this shell owns the clock, the dice, the wake-ups and the counters. It never
//! moves a limit: the law sees the same answers and decides for itself.
//!
//! Invariant: no hold is longer than the cap, and nobody waits for one longer than the cap.

#[cfg(feature = "tracing")]
mod events;
#[cfg(not(feature = "tracing"))]
#[path = "hold_off/silent.rs"]
mod events;
mod holds;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use self::holds::{ALL, Holds, Passage};
use crate::classify::{Scope, Verdict, Wait, WaitSource};
use crate::clock::Clock;
use crate::limiter::thread::roll;
use crate::outcome::Outcome;
use crate::rejection::{RejectReason, Rejected, Rejection};

/// Keeps callers away from a destination for as long as its answers ask.
///
/// Within a destination, each *key* is held apart: an account, a model, a route, whatever a quota
/// belongs to; the empty key stands for the whole destination, and a hold on it holds every key.
/// Keys need to be spelled the same in [`see`](HoldOff::see) and in the questions.
///
/// Cheap to clone; clones are the same. While nothing is held, a question costs one load.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tidegate::classify::{Classifier, Seen};
/// use tidegate::HoldOff;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let hold_off = HoldOff::builder("partner").cap(Duration::from_secs(30)).build();
/// let classifier = Classifier::default();
///
/// // An answer came: 429 with a wait. Everybody with this key sees it.
/// let now = UNIX_EPOCH; // in real code the wall clock, for waits that are dates
/// let verdict = classifier.judge(Seen::Http(429), &[("retry-after", "2")][..], "", now);
/// hold_off.see(&verdict, "acme");
///
/// assert!(hold_off.remaining("acme").is_some());
/// assert!(hold_off.remaining("other").is_none());
/// assert!(hold_off.check("acme").is_err()); // or hold_off.wait("acme", deadline).await
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct HoldOff {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    name: Arc<str>,
    clock: Clock,
    jitter: f64,
    holds: Mutex<Holds>,
    /// Whether there are holds at all; set and cleared under the lock.
    any: AtomicBool,
    ended: Notify,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    opened: [AtomicU64; WaitSource::ALL.len()],
    capped: AtomicU64,
    refused: AtomicU64,
}

/// Builds a [`HoldOff`]. Values out of range are brought into it.
#[derive(Clone, Debug)]
pub struct HoldOffBuilder {
    name: Arc<str>,
    cap: Duration,
    jitter: f64,
    most: usize,
}

impl HoldOffBuilder {
    /// The longest hold, from 1 ms to 1 day. Default 60 s. When more was asked for, one request at a
    /// time is let through after it, until one is answered well.
    #[must_use]
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = within_reason(cap);
        self
    }

    /// By which share a hold is lengthened at most, at random, from 0 to 1. Default 0.1. It keeps
    /// processes and callers from coming back all at once.
    #[must_use]
    pub fn jitter(mut self, share: f64) -> Self {
        self.jitter = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        self
    }

    /// How many keys can be held at a time, at least 1. Default 1024. When a further one is to be
    /// held, the hold that would end first is given up.
    #[must_use]
    pub fn most_keys(mut self, most: usize) -> Self {
        self.most = most.max(1);
        self
    }

    /// The hold-off.
    pub fn build(self) -> HoldOff {
        let shared = Shared {
            name: self.name,
            clock: Clock::new(),
            jitter: self.jitter,
            holds: Mutex::new(Holds::new(self.cap, self.jitter, self.most)),
            any: AtomicBool::new(false),
            ended: Notify::new(),
            counts: Counts::default(),
        };
        HoldOff { shared: Arc::new(shared) }
    }
}

/// A hold-off's numbers at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HoldOffSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Keys that are held.
    pub open: usize,
    /// How long the longest hold still is; zero when none is open.
    pub longest: Duration,
    /// Holds that were cut to the cap, so far.
    pub capped: u64,
    /// Callers that were refused, so far.
    pub refused: u64,
    opened: [u64; WaitSource::ALL.len()],
}

impl HoldOffSnapshot {
    /// Holds that were opened because of this source, so far. One that is only lengthened is none.
    pub const fn opened(&self, source: WaitSource) -> u64 {
        self.opened[source.index()]
    }
}

impl HoldOff {
    /// Begins to build one; the name is the destination's, for refusals, metrics and logs.
    pub fn builder(name: impl Into<Arc<str>>) -> HoldOffBuilder {
        HoldOffBuilder { name: name.into(), cap: Duration::from_secs(60), jitter: 0.1, most: 1024 }
    }

    /// Takes in what an answer means. `key` is what the request counted under.
    ///
    /// Pressure and faults with a [wait](Verdict::wait) open a hold: on `key`, on everything when the
    /// verdict says [`Scope::Destination`], on nothing when it says [`Scope::Request`]. A used-up
    /// account opens none: waiting does not help it, and its answer says more than a refusal would.
    /// A good answer ends a hold that was cut to the cap and let this request through.
    ///
    /// The length of the hold that was opened or lengthened, if one was.
    pub fn see(&self, verdict: &Verdict<'_>, key: &str) -> Option<Duration> {
        match verdict.outcome {
            Outcome::Success | Outcome::Caller => self.answered_well(key),
            Outcome::Throttled | Outcome::Overloaded | Outcome::Fault => {
                let key = match verdict.scope {
                    Scope::Request => return None,
                    Scope::Key => key,
                    Scope::Destination => ALL,
                };
                return self.open(key, verdict.wait?);
            }
            _ => {}
        }
        None
    }

    /// Holds a key, or with an empty one everything, whoever asked for it. The length of the hold;
    /// `None` when it is held for longer already.
    pub fn open(&self, key: &str, wait: Wait) -> Option<Duration> {
        let Shared { name, counts, .. } = &*self.shared;
        let now = self.shared.clock.now();
        let opened = {
            let mut holds = self.holds();
            let opened = holds.open(key, wait.length, now, dice())?;
            self.shared.any.store(true, Ordering::Release);
            opened
        };
        if opened.capped {
            counts.capped.fetch_add(1, Ordering::Relaxed);
        }
        if opened.is_new {
            counts.opened[wait.source.index()].fetch_add(1, Ordering::Relaxed);
            events::opened(name, key.is_empty(), &opened, wait.source);
        }
        Some(opened.length)
    }

    /// Passes, or refuses at once while the key is held. To be asked right before the request goes
    /// out: after a hold that was cut to the cap, who passes is the probe.
    ///
    /// # Errors
    /// [`Rejected`] with [`RejectReason::HoldOff`], and as retry-after what remains, jittered.
    pub fn check(&self, key: &str) -> Result<(), Rejected> {
        match self.ask(key) {
            Passage::Free => Ok(()),
            Passage::Held(left) => Err(self.refuse(left)),
        }
    }

    /// Waits until the key is no longer held; callers come back spread over the jitter. Without a
    /// deadline it waits at most as long as the cap.
    ///
    /// # Errors
    /// [`Rejected`] with [`RejectReason::HoldOff`], at once when the hold ends after the deadline.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    ///
    /// # Panics
    /// When it has to wait outside of a tokio runtime with its time driver enabled.
    pub async fn wait(&self, key: &str, deadline: Option<Instant>) -> Result<(), Rejected> {
        self.until(deadline, || match self.ask(key) {
            Passage::Free => None,
            Passage::Held(left) => Some(left),
        })
        .await
    }

    /// As [`HoldOff::wait`], for a request that does not go out yet: the probe is not spent on it, so
    /// that [`HoldOff::check`] is to be asked when it does.
    ///
    /// # Errors
    /// As [`HoldOff::wait`].
    pub async fn wait_out(&self, key: &str, deadline: Option<Instant>) -> Result<(), Rejected> {
        self.until(deadline, || self.remaining(key)).await
    }

    /// Waits until `held` says that nothing is left.
    async fn until(&self, deadline: Option<Instant>, held: impl Fn() -> Option<Duration>) -> Result<(), Rejected> {
        if !self.shared.any.load(Ordering::Acquire) {
            return Ok(());
        }
        let clock = &self.shared.clock;
        let give_up = deadline.map_or_else(|| clock.now() + self.holds().cap(), |at| clock.at(at));
        loop {
            // Made before the question, so that an end in between is not missed.
            let ended = self.shared.ended.notified();
            let Some(left) = held() else { return Ok(()) };
            let now = clock.now();
            if now + left > give_up {
                return Err(self.refuse(left));
            }
            let back = (now + self.spread(left)).min(give_up);
            // Either way the question is asked again.
            let _ = tokio::time::timeout_at(clock.instant_of(back), ended).await;
        }
    }

    /// How long the key is still held. Changes nothing: a probe is only sent by
    /// [`check`](HoldOff::check) and [`wait`](HoldOff::wait).
    pub fn remaining(&self, key: &str) -> Option<Duration> {
        if !self.shared.any.load(Ordering::Acquire) {
            return None;
        }
        let now = self.shared.clock.now();
        self.holds().remaining(key, now)
    }

    /// Ends all holds at once.
    pub fn clear(&self) {
        let mut holds = self.holds();
        holds.clear();
        self.shared.any.store(false, Ordering::Release);
        drop(holds);
        self.shared.ended.notify_waiters();
    }

    /// Changes the cap at once, from 1 ms to 1 day; holds that are open are shortened too.
    pub fn set_cap(&self, cap: Duration) {
        let now = self.shared.clock.now();
        self.holds().set_cap(within_reason(cap), now);
        self.shared.ended.notify_waiters();
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.shared.name
    }

    /// All numbers at this moment.
    pub fn snapshot(&self) -> HoldOffSnapshot {
        let (open, longest) = self.holds().open_now(self.shared.clock.now());
        let counts = &self.shared.counts;
        HoldOffSnapshot {
            name: self.shared.name.clone(),
            open,
            longest,
            capped: counts.capped.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            opened: WaitSource::ALL.map(|source| counts.opened[source.index()].load(Ordering::Relaxed)),
        }
    }

    fn ask(&self, key: &str) -> Passage {
        if !self.shared.any.load(Ordering::Acquire) {
            return Passage::Free;
        }
        let now = self.shared.clock.now();
        let mut holds = self.holds();
        let passage = holds.ask(key, now);
        self.shared.any.store(!holds.is_empty(), Ordering::Release);
        passage
    }

    fn answered_well(&self, key: &str) {
        if !self.shared.any.load(Ordering::Acquire) {
            return;
        }
        let mut holds = self.holds();
        let ended = holds.answered_well(key);
        self.shared.any.store(!holds.is_empty(), Ordering::Release);
        drop(holds);
        if ended {
            events::ended(&self.shared.name);
            self.shared.ended.notify_waiters();
        }
    }

    fn refuse(&self, left: Duration) -> Rejected {
        self.shared.counts.refused.fetch_add(1, Ordering::Relaxed);
        Rejection {
            limiter: self.shared.name.clone(),
            class: None,
            reason: RejectReason::HoldOff,
            limit: 0,
            in_flight: 0,
            queued: 0,
            retry_after: self.spread(left),
        }
        .into()
    }

    fn spread(&self, left: Duration) -> Duration {
        left.mul_f64(1.0 + self.shared.jitter * dice())
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        self.shared.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn within_reason(cap: Duration) -> Duration {
    cap.clamp(Duration::from_millis(1), Duration::from_secs(86_400))
}

/// In `0.0..1.0`.
fn dice() -> f64 {
    f64::from(roll()) / (f64::from(u32::MAX) + 1.0)
}
