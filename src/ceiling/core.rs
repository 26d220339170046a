//! The shell of a ceiling: clock, bucket, adaptive rate, line and counters.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::adaptive::Adaptive;
use super::atomic::AtomicBucket;
use super::bucket::Pace;
use super::charge::Charge;
use super::counts::{Count, Counts};
use super::line::Line;
use super::snapshot::{CeilingSnapshot, Source};
use crate::clock::Clock;
use crate::outcome::Outcome;
use crate::rejection::{RejectReason, Rejected, Rejection};
use crate::sync::{Mutex, lock};
use crate::time::Nanos;

/// Recovery is looked at so often at most.
const STEP: Duration = Duration::from_millis(50);
/// What is told without a charge counts as charged so long ago.
const ASSUMED_LATENCY: Duration = Duration::from_millis(100);

/// Checked settings.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) name: Arc<str>,
    pub(super) rate: f64,
    pub(super) burst: f64,
    pub(super) bounds: (f64, f64),
    pub(super) most_waiting: u32,
    pub(super) longest_wait: Duration,
}

/// What moves the rate; changed under its lock, and with it the bucket's pace.
#[derive(Debug)]
pub(super) struct Control {
    pub(super) adaptive: Adaptive,
    pub(super) rate: f64,
    pub(super) burst: f64,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(super) name: Arc<str>,
    pub(super) clock: Clock,
    pub(super) bucket: AtomicBucket,
    pub(super) line: Line,
    pub(super) counts: Counts,
    longest_wait: Duration,
    control: Mutex<Control>,
    /// Somebody had to wait for the rate since the last look at recovery.
    pressed: AtomicBool,
    next_step: AtomicU64,
}

impl Core {
    pub(super) fn new(settings: Settings, clock: Clock) -> Self {
        let now = clock.now();
        let pace = Pace::new(now, settings.rate, settings.burst);
        let adaptive = Adaptive::new(now, settings.rate, settings.bounds);
        Self {
            name: settings.name,
            bucket: AtomicBucket::new(pace, pace.full(now)),
            line: Line::new(settings.most_waiting),
            counts: Counts::new(),
            longest_wait: settings.longest_wait,
            control: Mutex::new(Control { adaptive, rate: settings.rate, burst: settings.burst }),
            pressed: AtomicBool::new(false),
            next_step: AtomicU64::new(0),
            clock,
        }
    }

    /// Takes units that are there, if nobody waits for them already.
    #[inline]
    pub(super) fn try_take(&self, units: u32) -> Result<Charge<'_>, Rejected> {
        let now = self.clock.now();
        if !self.line.is_empty() {
            return Err(self.reject(self.bucket.wait(now, self.line.units(), units)));
        }
        match self.bucket.take(now, units) {
            Ok(()) => Ok(self.charged(units, now)),
            Err(wait) => Err(self.reject(wait)),
        }
    }

    #[inline]
    fn charged(&self, units: u32, now: Nanos) -> Charge<'_> {
        self.counts.add(Count::Consumed, u64::from(units));
        Charge::new(self, units, now)
    }

    /// Takes units, after a wait if need be.
    pub(super) async fn take(&self, units: u32, deadline: Option<Instant>) -> Result<Charge<'_>, Rejected> {
        let now = self.clock.now();
        if self.line.is_empty() && self.bucket.take(now, units).is_ok() {
            return Ok(self.charged(units, now));
        }
        self.wait(units, deadline, now).await
    }

    async fn wait(&self, units: u32, deadline: Option<Instant>, now: Nanos) -> Result<Charge<'_>, Rejected> {
        self.pressed.store(true, Ordering::Relaxed);
        let until = deadline.map_or(now + self.longest_wait, |at| self.clock.at(at));
        let place = self.line.join(units);
        let ahead = place.as_ref().map_or(self.line.units(), |place| place.ahead);
        let estimate = self.bucket.wait(now, ahead, units);
        let Some(place) = place.filter(|_| now + estimate <= until) else {
            return Err(self.reject(estimate));
        };
        let until_instant = self.clock.instant_of(until);
        let Some(_turn) = place.turn(until_instant).await else { return Err(self.expired(units)) };
        loop {
            let mut changed = pin!(self.line.changed.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let wait = match self.bucket.take(now, units) {
                Ok(()) => {
                    self.counts.add(Count::Waited, 1);
                    return Ok(self.charged(units, now));
                }
                Err(wait) => wait,
            };
            if now + wait > until {
                return Err(self.reject(wait));
            }
            let _ = tokio::time::timeout_at(self.clock.instant_of(now + wait), changed).await;
        }
    }

    /// Time ran out before the turn came.
    fn expired(&self, units: u32) -> Rejected {
        self.reject(self.bucket.wait(self.clock.now(), self.line.units().saturating_sub(u64::from(units)), units))
    }

    #[cold]
    fn reject(&self, wait: Duration) -> Rejected {
        self.pressed.store(true, Ordering::Relaxed);
        self.counts.add(Count::Refused, 1);
        Rejection {
            limiter: Arc::clone(&self.name),
            class: None,
            reason: RejectReason::Ceiling,
            limit: self.bucket.pace().rate().ceil() as u32,
            in_flight: 0,
            queued: self.line.waiting(),
            retry_after: wait,
        }
        .into()
    }

    pub(super) fn refund(&self, charge: &Charge<'_>) {
        self.counts.add(Count::Refunded, u64::from(charge.units));
        self.bucket.refund(self.clock.now(), charge.units);
        self.wake();
    }

    /// Who has the turn looks again.
    pub(super) fn wake(&self) {
        if !self.line.is_empty() {
            self.line.changed.notify_one();
        }
    }

    #[inline]
    pub(super) fn observe(&self, outcome: Outcome, charged: Nanos) {
        match outcome {
            Outcome::Success | Outcome::Caller => self.succeeded(),
            Outcome::Throttled => self.throttled(charged),
            _ => {}
        }
    }

    pub(super) fn observe_now(&self, outcome: Outcome) {
        self.observe(outcome, self.clock.now() - ASSUMED_LATENCY);
    }

    #[inline]
    fn succeeded(&self) {
        if self.pressed.load(Ordering::Relaxed) {
            self.step();
        }
    }

    #[cold]
    fn step(&self) {
        let now = self.clock.now();
        let due = self.next_step.load(Ordering::Relaxed);
        let mine = now.0 >= due
            && self.next_step.compare_exchange(due, (now + STEP).0, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if mine {
            self.pressed.store(!self.line.is_empty(), Ordering::Relaxed);
            self.change(|control, now| {
                control.adaptive.succeeded(now);
            });
        }
    }

    #[cold]
    fn throttled(&self, charged: Nanos) {
        self.counts.add(Count::Throttled, 1);
        self.change(|control, now| {
            if control.adaptive.throttled(now, charged) {
                self.counts.add(Count::Cuts, 1);
            }
        });
    }

    /// Changes what moves the rate and puts it in force at once.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Control, Nanos) -> T) -> T {
        let mut control = lock(&self.control);
        let now = self.clock.now();
        let changed = change(&mut control, now);
        let (rate, burst) = control.in_force();
        self.bucket.bend(now, rate, burst);
        drop(control);
        self.wake();
        changed
    }

    pub(super) fn snapshot(&self) -> CeilingSnapshot {
        // A level left alone for months would lie half the number range behind.
        self.bucket.charge(self.clock.now(), 0);
        let control = lock(&self.control);
        let (rate, burst) = control.in_force();
        let bounds = control.adaptive.bounds();
        drop(control);
        let of = |count| self.counts.total(count);
        CeilingSnapshot {
            name: Arc::clone(&self.name),
            source: Source::Local,
            rate,
            bounds,
            burst,
            consumed: of(Count::Consumed),
            refunded: of(Count::Refunded),
            refused: of(Count::Refused),
            waited: of(Count::Waited),
            waiting: self.line.waiting(),
            throttled: of(Count::Throttled),
            cuts: of(Count::Cuts),
        }
    }
}

impl Control {
    /// The rate now, and the burst that goes with it: worth the same time at every rate.
    fn in_force(&self) -> (f64, f64) {
        let rate = self.adaptive.rate();
        (rate, (self.burst * (rate / self.rate).min(1.0)).max(1.0))
    }
}
