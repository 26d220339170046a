//! The shell of a ceiling: clock, bucket, adaptive rate, line and counters.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::adaptive::Adaptive;
use super::atomic::AtomicBucket;
use super::bucket::Pace;
use super::charge::{Charge, From, Receipt};
use super::counts::{Count, Counts};
use super::lease::Batch;
use super::line::Line;
use super::snapshot::{CeilingSnapshot, Source};
use super::store::Terms;
use super::supply::Supply;
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
    /// The part of the rate that the bucket gives: all of it, unless the ceiling is shared.
    share: f64,
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
    /// Of a shared ceiling.
    pub(super) supply: Option<Arc<Supply>>,
}

impl Core {
    /// `supply` and the share of the rate that the bucket gives by itself, for a shared ceiling.
    pub(super) fn new(settings: Settings, clock: Clock, shared: Option<(Arc<Supply>, f64)>) -> Self {
        let now = clock.now();
        let (supply, share) = shared.map_or((None, 1.0), |(supply, share)| (Some(supply), share));
        let pace = Pace::new(now, settings.rate * share, settings.burst * share);
        let adaptive = Adaptive::new(now, settings.rate, settings.bounds);
        Self {
            name: settings.name,
            bucket: AtomicBucket::new(pace, pace.full(now)),
            line: Line::new(settings.most_waiting),
            counts: Counts::new(),
            longest_wait: settings.longest_wait,
            control: Mutex::new(Control { adaptive, rate: settings.rate, burst: settings.burst, share }),
            pressed: AtomicBool::new(false),
            next_step: AtomicU64::new(0),
            supply,
            clock,
        }
    }

    /// Units that are there, or how long until they are.
    #[inline]
    fn draw(&self, now: Nanos, units: u32) -> Result<From, Duration> {
        match &self.supply {
            None => self.bucket.take(now, units).map(From::Bucket),
            Some(supply) => supply.take(now, units, &self.bucket),
        }
    }

    /// How long until units can be had behind `ahead` others.
    fn estimate(&self, now: Nanos, ahead: u64, units: u32) -> Duration {
        match self.supply.as_deref() {
            Some(supply) if supply.is_shared() || supply.refuses() => {
                let rate = lock(&self.control).adaptive.rate();
                supply.wait(now) + Duration::from_secs_f64((ahead as f64 / rate).min(1e6))
            }
            _ => self.bucket.wait(now, ahead, units),
        }
    }

    /// Takes units that are there, if nobody waits for them already.
    #[inline]
    pub(super) fn try_take(&self, units: u32) -> Result<Charge<'_>, Rejected> {
        let now = self.clock.now();
        if !self.line.is_empty() {
            return Err(self.reject(self.estimate(now, self.line.units(), units)));
        }
        match self.draw(now, units) {
            Ok(from) => Ok(self.charged(units, now, from)),
            Err(wait) => Err(self.missed(units, wait)),
        }
    }

    #[cold]
    fn missed(&self, units: u32, wait: Duration) -> Rejected {
        if let Some(supply) = &self.supply {
            supply.missed(units);
        }
        self.reject(wait)
    }

    #[inline]
    fn charged(&self, units: u32, now: Nanos, from: From) -> Charge<'_> {
        self.counts.add(Count::Consumed, u64::from(units));
        Charge::new(self, units, now, from)
    }

    /// Takes units, after a wait if need be.
    #[inline]
    pub(super) async fn take(&self, units: u32, deadline: Option<Instant>) -> Result<Charge<'_>, Rejected> {
        let now = self.clock.now();
        if self.line.is_empty()
            && let Ok(from) = self.draw(now, units)
        {
            return Ok(self.charged(units, now, from));
        }
        self.wait(units, deadline, now).await
    }

    async fn wait(&self, units: u32, deadline: Option<Instant>, now: Nanos) -> Result<Charge<'_>, Rejected> {
        self.pressed.store(true, Ordering::Relaxed);
        let until = deadline.map_or(now + self.longest_wait, |at| self.clock.at(at));
        let place = self.line.join(units);
        let ahead = place.as_ref().map_or(self.line.units(), |place| place.ahead);
        let estimate = self.estimate(now, ahead, units);
        let Some(place) = place.filter(|_| now + estimate <= until && !self.refuses()) else {
            return Err(self.reject(estimate));
        };
        let Some(_turn) = place.turn(self.clock.instant_of(until)).await else { return Err(self.expired(units)) };
        loop {
            let mut changed = pin!(self.line.changed.notified());
            changed.as_mut().enable();
            let now = self.clock.now();
            let wait = match self.draw(now, units) {
                Ok(from) => {
                    self.counts.add(Count::Waited, 1);
                    return Ok(self.charged(units, now, from));
                }
                Err(wait) => wait,
            };
            if now + wait > until || self.refuses() {
                return Err(self.reject(wait));
            }
            if let Some(supply) = &self.supply {
                supply.least.fetch_max(units, Ordering::Relaxed);
                supply.demand.notify_one();
            }
            let _ = tokio::time::timeout_at(self.clock.instant_of(now + wait), changed).await;
        }
    }

    fn refuses(&self) -> bool {
        self.supply.as_ref().is_some_and(|supply| supply.refuses())
    }

    /// Time ran out before the turn came.
    fn expired(&self, units: u32) -> Rejected {
        self.reject(self.estimate(self.clock.now(), self.line.units().saturating_sub(u64::from(units)), units))
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

    pub(super) fn refund(&self, charge: &Receipt) {
        self.counts.add(Count::Refunded, u64::from(charge.units));
        let now = self.clock.now();
        match (charge.from, &self.supply) {
            (From::Lease(until), Some(supply)) => supply.refund(now, Batch { units: charge.units, until }),
            (From::Bucket(end), _) => self.bucket.refund(now, end, charge.units),
            (From::Lease(_), None) => {}
        }
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
            if let Some(supply) = self.shared() {
                return supply.succeeded.store(true, Ordering::Relaxed);
            }
            self.change(|control, now| {
                control.adaptive.succeeded(now);
            });
        }
    }

    #[cold]
    fn throttled(&self, charged: Nanos) {
        self.counts.add(Count::Throttled, 1);
        if let Some(supply) = self.shared() {
            return supply.throttled(charged);
        }
        self.change(|control, now| {
            if control.adaptive.throttled(now, charged) {
                self.counts.add(Count::Cuts, 1);
            }
        });
    }

    /// The supply, while the store moves the rate.
    fn shared(&self) -> Option<&Supply> {
        self.supply.as_deref().filter(|supply| supply.is_shared())
    }

    /// The store says what the rate is; the bucket is kept warm with this process's share of it.
    pub(super) fn follow(&self, rate: f64, share: f64) {
        self.change(|control, now| {
            if rate < control.adaptive.rate() {
                self.counts.add(Count::Cuts, 1);
            }
            control.adaptive.set_rate(now, rate);
            control.share = share;
        });
    }

    pub(super) fn terms(&self) -> Terms {
        let control = lock(&self.control);
        Terms { rate: control.rate, burst: control.burst, bounds: control.adaptive.bounds() }
    }

    /// Units used since the beginning.
    pub(super) fn used(&self) -> u64 {
        self.counts.total(Count::Consumed)
    }

    /// Changes what moves the rate and puts it in force at once.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Control, Nanos) -> T) -> T {
        let mut control = lock(&self.control);
        let now = self.clock.now();
        let changed = change(&mut control, now);
        let (rate, burst) = control.in_force();
        self.bucket.bend(now, rate * control.share, (burst * control.share).max(1.0));
        drop(control);
        self.wake();
        changed
    }

    pub(super) fn snapshot(&self) -> CeilingSnapshot {
        let now = self.clock.now();
        // A level left alone for months would lie half the number range behind.
        self.bucket.charge(now, 0);
        let control = lock(&self.control);
        let (mut rate, mut burst) = control.in_force();
        let (bounds, share) = (control.adaptive.bounds(), control.share);
        drop(control);
        let source = self.source(now);
        if source.is_fallback() {
            let share = if self.refuses() { 0.0 } else { share };
            (rate, burst) = (rate * share, burst * share);
        }
        let told = self.supply.as_ref().map(|supply| *lock(&supply.about));
        let of = |count| self.counts.total(count);
        CeilingSnapshot {
            name: Arc::clone(&self.name),
            source,
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
            members: told.map_or(1, |told| told.members),
            loss: told.and_then(|told| told.loss),
            round_trips: told.map_or(0, |told| told.round_trips),
        }
    }

    fn source(&self, now: Nanos) -> Source {
        match &self.supply {
            None => Source::Local,
            Some(supply) if supply.is_shared() => Source::Shared,
            Some(supply) if supply.has_lease(now) => Source::Lease,
            Some(_) => Source::Fallback,
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
