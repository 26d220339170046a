//! Units of leases, made safe for threads: what a shared ceiling takes from instead of its bucket.
//!
//! The batch in use is one word (units and until when), so that taking is one compare-and-swap. The
//! next batch waits behind a lock until the first is used up or too old; what is left of that one is
//! to be given back. While the store is lost, the bucket stands in with a safe share, or nothing does.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use super::atomic::AtomicBucket;
use super::charge::From;
use super::lease::{Batch, Seen};
use super::store::Loss;
use crate::sync::{Mutex, lock};
use crate::time::Nanos;

/// What a word holds of the time: 131 us a step, 4.5 years until it wraps.
const TICK: u32 = 17;
const UNITS: u64 = (1 << 24) - 1;
/// The most units of a batch.
pub(super) const MOST: u32 = UNITS as u32;

const SHARED: u8 = 0;
const SHARE: u8 = 1;
const NOTHING: u8 = 2;

/// A guess at when there is more, before the store has said so.
const SOON: Duration = Duration::from_millis(1);
/// When to come back to a ceiling that failed closed.
const CLOSED: Duration = Duration::from_secs(1);

/// A batch in one word.
#[derive(Clone, Copy)]
struct Word(u64);

impl Word {
    fn of(batch: Batch) -> Self {
        Self((batch.until.0 >> TICK) << 24 | u64::from(batch.units))
    }

    const fn units(self) -> u32 {
        (self.0 & UNITS) as u32
    }

    const fn until(self) -> Nanos {
        Nanos((self.0 >> 24) << TICK)
    }
}

#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What is told of the store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Told {
    pub(super) loss: Option<Loss>,
    pub(super) members: u32,
    pub(super) round_trips: u64,
}

/// Units at hand, and what is to be told to the store.
#[derive(Debug)]
pub(super) struct Supply {
    stock: Line,
    next: Mutex<Option<Batch>>,
    low: AtomicU32,
    standing: AtomicU8,
    /// Something is wanted or to be told.
    pub(super) demand: Notify,
    more_at: AtomicU64,
    missed: AtomicU32,
    pub(super) least: AtomicU32,
    unspent: AtomicU32,
    used_alone: AtomicU64,
    /// When the last attempt that was throttled had been charged, plus one; 0 for none.
    throttled: AtomicU64,
    pub(super) succeeded: AtomicBool,
    life_ns: AtomicU64,
    /// Units a second of all together, as the bits of an `f64`.
    rate: AtomicU64,
    pub(super) about: Mutex<Told>,
}

/// News for the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    pub(super) least: u32,
    pub(super) unspent: u32,
    pub(super) used: u64,
    pub(super) throttled: Option<Nanos>,
    pub(super) succeeded: bool,
}

impl Supply {
    /// Nothing at hand; the store is not joined yet.
    pub(super) fn new(members: u32, refuses: bool) -> Self {
        Self {
            stock: Line(AtomicU64::new(0)),
            next: Mutex::new(None),
            low: AtomicU32::new(0),
            standing: AtomicU8::new(if refuses { NOTHING } else { SHARE }),
            demand: Notify::new(),
            more_at: AtomicU64::new(0),
            missed: AtomicU32::new(0),
            least: AtomicU32::new(0),
            unspent: AtomicU32::new(0),
            used_alone: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            succeeded: AtomicBool::new(false),
            life_ns: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            about: Mutex::new(Told { loss: Some(Loss::Joining), members, round_trips: 0 }),
        }
    }

    /// Takes units of a lease, or those that stand in while the store is lost, or says how long until
    /// there is more.
    #[inline]
    pub(super) fn take(&self, now: Nanos, units: u32, bucket: &AtomicBucket) -> Result<From, Duration> {
        match self.take_leased(now, units) {
            Some(from) => Ok(from),
            None => self.take_next(now, units, bucket),
        }
    }

    #[inline]
    fn take_leased(&self, now: Nanos, units: u32) -> Option<From> {
        let mut word = Word(self.stock.0.load(Ordering::Relaxed));
        while word.units() >= units && now < word.until() {
            let less = word.0 - u64::from(units);
            match self.stock.0.compare_exchange_weak(word.0, less, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => {
                    let low = self.low.load(Ordering::Relaxed);
                    if word.units() > low && word.units() - units <= low {
                        self.demand.notify_one();
                    }
                    return Some(From::Lease(word.until()));
                }
                Err(newer) => word = Word(newer),
            }
        }
        None
    }

    #[cold]
    fn take_next(&self, now: Nanos, units: u32, bucket: &AtomicBucket) -> Result<From, Duration> {
        loop {
            let mut next = lock(&self.next);
            // Another may have put the next batch in its place meanwhile.
            if let Some(from) = self.take_leased(now, units) {
                return Ok(from);
            }
            match next.take() {
                Some(batch) => self.replace(now, batch),
                None => break,
            }
        }
        match self.standing.load(Ordering::Relaxed) {
            SHARED => Err(Nanos(self.more_at.load(Ordering::Relaxed)).since(now).max(SOON)),
            SHARE => {
                let end = bucket.take(now, units)?;
                self.used_alone.fetch_add(u64::from(units), Ordering::Relaxed);
                Ok(From::Bucket(end))
            }
            _ => Err(CLOSED),
        }
    }

    /// A new batch: in use at once when the one before is used up.
    pub(super) fn add(&self, now: Nanos, batch: Batch, low: u32) {
        let batch = Batch { units: batch.units.min(MOST), ..batch };
        let mut next = lock(&self.next);
        self.low.store(low, Ordering::Relaxed);
        let word = Word(self.stock.0.load(Ordering::Relaxed));
        if word.units() == 0 || word.until() <= now {
            self.replace(now, batch);
        } else {
            *next = Some(match *next {
                // Together they live as long as the older one.
                Some(older) if older.until > now => {
                    Batch { units: (older.units + batch.units).min(MOST), until: older.until }
                }
                _ => batch,
            });
        }
    }

    /// To be called with `next` locked.
    fn replace(&self, now: Nanos, batch: Batch) {
        let old = Word(self.stock.0.swap(Word::of(batch).0, Ordering::AcqRel));
        self.give_back(now, Batch { units: old.units(), until: old.until() });
    }

    /// Of a lease that lives, what time has not paid off; at the end of its life that is nothing.
    fn give_back(&self, now: Nanos, batch: Batch) {
        let life = Duration::from_nanos(self.life_ns.load(Ordering::Relaxed));
        let age = life.saturating_sub(batch.until.since(now)).as_secs_f64();
        let paid = age * f64::from_bits(self.rate.load(Ordering::Relaxed));
        let unpaid = (f64::from(batch.units) - paid) as u32;
        if unpaid > 0 && batch.until > now {
            self.unspent.fetch_add(unpaid, Ordering::Relaxed);
            self.demand.notify_one();
        }
    }

    /// Units of a lease that were not used after all.
    pub(super) fn refund(&self, now: Nanos, batch: Batch) {
        let mut word = Word(self.stock.0.load(Ordering::Relaxed));
        // Only into the lease that they came from: in another they would live longer than they may.
        while now < batch.until && word.until() == batch.until && word.units() + batch.units < MOST {
            let more = word.0 + u64::from(batch.units);
            match self.stock.0.compare_exchange_weak(word.0, more, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => word = Word(newer),
            }
        }
        self.give_back(now, batch);
    }

    /// Gives back what `keep` units of demand will not need.
    pub(super) fn trim(&self, now: Nanos, keep: u32) {
        let _next = lock(&self.next);
        let word = Word(self.stock.0.load(Ordering::Relaxed));
        let surplus = word.units().saturating_sub(keep);
        let less = word.0 - u64::from(surplus);
        let swap = || self.stock.0.compare_exchange(word.0, less, Ordering::AcqRel, Ordering::Relaxed);
        if surplus > 0 && word.until() > now && swap().is_ok() {
            self.give_back(now, Batch { units: surplus, until: word.until() });
        }
    }

    /// Gives everything back.
    pub(super) fn clear(&self, now: Nanos) {
        let next = lock(&self.next).take();
        let word = Word(self.stock.0.swap(0, Ordering::AcqRel));
        self.give_back(now, Batch { units: word.units(), until: word.until() });
        if let Some(next) = next {
            self.give_back(now, next);
        }
    }

    /// Units asked for in vain by one who does not wait.
    pub(super) fn missed(&self, units: u32) {
        self.least.fetch_max(units, Ordering::Relaxed);
        if self.missed.fetch_add(units, Ordering::Relaxed) == 0 {
            self.demand.notify_one();
        }
    }

    /// An attempt that was charged at `charged` was throttled.
    pub(super) fn throttled(&self, charged: Nanos) {
        if self.throttled.fetch_max(charged.0 + 1, Ordering::Relaxed) == 0 {
            self.demand.notify_one();
        }
    }

    pub(super) fn seen(&self, now: Nanos, used: u64, waited_for: u64) -> Seen {
        let word = Word(self.stock.0.load(Ordering::Relaxed));
        let next = lock(&self.next).map_or(0, |batch| batch.units);
        let (units, until) = if word.until() > now { (word.units(), word.until()) } else { (0, Nanos::NEVER) };
        Seen {
            used,
            at_hand: units + next,
            until,
            waited_for,
            missed: self.missed.load(Ordering::Relaxed),
            news: self.unspent.load(Ordering::Relaxed) > 0 || self.throttled.load(Ordering::Relaxed) > 0,
        }
    }

    /// Takes out what is to be told.
    pub(super) fn news(&self) -> News {
        self.missed.store(0, Ordering::Relaxed);
        let throttled = self.throttled.swap(0, Ordering::Relaxed);
        News {
            least: self.least.swap(0, Ordering::Relaxed).max(1),
            unspent: self.unspent.swap(0, Ordering::Relaxed),
            used: self.used_alone.swap(0, Ordering::Relaxed),
            throttled: throttled.checked_sub(1).map(Nanos),
            succeeded: self.succeeded.swap(false, Ordering::Relaxed),
        }
    }

    /// What could not be told after all, and may be told again. Units to give back are not: the store
    /// may have heard of them.
    pub(super) fn untold(&self, news: &News) {
        self.used_alone.fetch_add(news.used, Ordering::Relaxed);
    }

    /// The store has said when there is more, how long leases live, and the rate.
    pub(super) fn told(&self, more_at: Nanos, life: Duration, rate: f64) {
        self.more_at.store(more_at.0, Ordering::Relaxed);
        self.life_ns.store(u64::try_from(life.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// Until there is more, as far as the store has said.
    pub(super) fn wait(&self, now: Nanos) -> Duration {
        if self.refuses() { CLOSED } else { Nanos(self.more_at.load(Ordering::Relaxed)).since(now) }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == SHARED
    }

    /// The store is lost, and nothing stands in.
    pub(super) fn refuses(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == NOTHING
    }

    pub(super) fn has_lease(&self, now: Nanos) -> bool {
        let word = Word(self.stock.0.load(Ordering::Relaxed));
        word.units() > 0 && word.until() > now
    }

    /// From now on the store gives the units.
    pub(super) fn share(&self) {
        self.standing.store(SHARED, Ordering::Relaxed);
    }

    /// From now on the bucket stands in, or nothing does.
    pub(super) fn fall_back(&self, refuses: bool) {
        self.standing.store(if refuses { NOTHING } else { SHARE }, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::bucket::Pace;
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    fn empty() -> AtomicBucket {
        let pace = Pace::new(at(0), 1.0, 1.0);
        AtomicBucket::new(pace, pace.empty(at(0)))
    }

    fn shared() -> Supply {
        let supply = Supply::new(4, false);
        supply.share();
        supply.told(at(32), Duration::from_millis(50), 100.0);
        supply
    }

    fn is_leased(taken: Result<From, Duration>) -> bool {
        matches!(taken, Ok(From::Lease(_)))
    }

    #[test]
    fn a_batch_is_used_up_then_the_next_and_then_there_is_none() {
        let (supply, bucket) = (shared(), empty());
        supply.add(at(0), Batch { units: 3, until: at(50) }, 1);
        supply.add(at(10), Batch { units: 2, until: at(60) }, 1);
        let had = (0..10).take_while(|_| is_leased(supply.take(at(20), 1, &bucket))).count();
        assert_eq!(had, 5);
        assert_eq!(supply.take(at(20), 1, &bucket), Err(Duration::from_millis(12)));
    }

    #[test]
    fn what_is_too_old_is_not_used_and_worth_nothing() {
        let (supply, bucket) = (shared(), empty());
        supply.add(at(0), Batch { units: 3, until: at(50) }, 1);
        supply.add(at(0), Batch { units: 4, until: at(60) }, 1);
        assert!(is_leased(supply.take(at(55), 1, &bucket)), "of the second");
        assert!(supply.take(at(61), 1, &bucket).is_err());
        assert_eq!(supply.news().unspent, 0);
    }

    #[test]
    fn what_is_not_needed_is_given_back_less_what_time_has_paid_off() {
        let (supply, bucket) = (shared(), empty());
        supply.add(at(0), Batch { units: 10, until: at(50) }, 1);
        supply.trim(at(20), 2);
        assert!((5..=6).contains(&supply.news().unspent), "8 less 20 ms at 100 a second");
        let had = (0..10).take_while(|_| is_leased(supply.take(at(20), 1, &bucket))).count();
        assert_eq!(had, 2);
    }

    #[test]
    fn refunded_units_can_be_had_again_while_their_lease_lives() {
        let (supply, bucket) = (shared(), empty());
        supply.add(at(0), Batch { units: 2, until: at(50) }, 0);
        let Ok(From::Lease(until)) = supply.take(at(1), 2, &bucket) else { panic!("two were there") };
        supply.refund(at(2), Batch { units: 2, until });
        assert!(is_leased(supply.take(at(3), 2, &bucket)));
        supply.refund(at(51), Batch { units: 2, until });
        supply.add(at(51), Batch { units: 1, until: at(101) }, 0);
        supply.refund(at(52), Batch { units: 2, until });
        assert!(supply.take(at(53), 2, &bucket).is_err());
        assert_eq!(supply.news().unspent, 0);
    }

    #[test]
    fn when_the_store_is_lost_the_last_lease_comes_first_then_the_share_or_nothing() {
        for refuses in [false, true] {
            let supply = shared();
            let pace = Pace::new(at(0), 1.0, 2.0);
            let bucket = AtomicBucket::new(pace, pace.full(at(0)));
            supply.add(at(0), Batch { units: 1, until: at(50) }, 0);
            supply.fall_back(refuses);
            assert!(is_leased(supply.take(at(1), 1, &bucket)));
            assert_eq!(supply.take(at(1), 1, &bucket).is_ok(), !refuses);
            assert_eq!(supply.news().used, u64::from(!refuses));
        }
    }

    #[test]
    fn threads_use_every_unit_once() {
        let (supply, bucket) = (shared(), empty());
        let had = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while had.load(Ordering::Relaxed) < 30_000 {
                        if supply.take(at(1), 1, &bucket).is_ok() {
                            had.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            for _ in 0..100 {
                supply.add(at(1), Batch { units: 300, until: at(50) }, 100);
                std::thread::yield_now();
            }
        });
        assert_eq!(had.into_inner(), 30_000);
        assert!(supply.take(at(1), 1, &bucket).is_err());
    }
}
