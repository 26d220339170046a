//! How a refusal is counted on the request path, and read off it.
//!
//! A [`Tally`] belongs to one limiter and one route. A refusal costs it a counter of the thread's
//! own and a few loads; the first of a quiet subject also wakes whoever drains. Tenants are
//! sampled when there are too many to look at each. Nothing here knows the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crossbeam_queue::ArrayQueue;
use tokio::sync::Notify;

use super::notice::{Seen, Subject};
use crate::limiter::thread::{SHARED, SLOTS, roll, slot};
use crate::rejection::{RejectReason, Rejection};

const REASONS: usize = RejectReason::ALL.len();
/// Tenants looked at between two drains, for each tally.
const SAMPLES: usize = 256;
/// Tallies told apart. Further ones share the last.
const MOST_TALLIES: usize = 4096;

/// Counts the refusals of one limiter on one route.
#[derive(Debug)]
pub struct Tally {
    limiter: Arc<str>,
    route: Arc<str>,
    shards: Box<[Shard]>,
    /// One for each reason: the next event wakes whoever drains.
    armed: [AtomicBool; REASONS],
    peak_in_flight: AtomicU32,
    lowest_limit: AtomicU32,
    highest_limit: AtomicU32,
    tenants: ArrayQueue<(RejectReason, Box<str>, u64)>,
    /// One tenant in `mask + 1` is looked at.
    mask: AtomicU32,
    wake: Arc<Notify>,
}

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; REASONS]);

impl Tally {
    fn new(limiter: Arc<str>, route: Arc<str>, wake: Arc<Notify>) -> Self {
        // Room for two threads a processor; further ones share.
        let shards = (1 + 2 * std::thread::available_parallelism().map_or(4, usize::from)).min(SLOTS);
        Self {
            limiter,
            route,
            shards: (0..shards).map(|_| Shard::default()).collect(),
            armed: std::array::from_fn(|_| AtomicBool::new(true)),
            peak_in_flight: AtomicU32::new(0),
            lowest_limit: AtomicU32::new(u32::MAX),
            highest_limit: AtomicU32::new(0),
            tenants: ArrayQueue::new(SAMPLES),
            mask: AtomicU32::new(0),
            wake,
        }
    }

    /// A refusal, and who asked if that is known. Takes no lock and does not wait.
    pub fn rejected(&self, rejection: &Rejection, tenant: Option<&str>) {
        let reason = rejection.reason.index();
        self.count(reason);
        if rejection.in_flight > self.peak_in_flight.load(Ordering::Relaxed) {
            self.peak_in_flight.fetch_max(rejection.in_flight, Ordering::Relaxed);
        }
        if rejection.limit < self.lowest_limit.load(Ordering::Relaxed) {
            self.lowest_limit.fetch_min(rejection.limit, Ordering::Relaxed);
        }
        if rejection.limit > self.highest_limit.load(Ordering::Relaxed) {
            self.highest_limit.fetch_max(rejection.limit, Ordering::Relaxed);
        }
        if let Some(tenant) = tenant {
            self.sample(rejection.reason, tenant);
        }
        if self.armed[reason].load(Ordering::Relaxed) && self.armed[reason].swap(false, Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    #[inline]
    fn count(&self, reason: usize) {
        match self.shards.get(slot()) {
            Some(own) if slot() != SHARED => {
                let counter = &own.0[reason];
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            _ => {
                self.shards[SHARED].0[reason].fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn sample(&self, reason: RejectReason, tenant: &str) {
        let mask = self.mask.load(Ordering::Relaxed);
        if (mask == 0 || roll() & mask == 0) && !self.tenants.is_full() {
            // Full after all: one sample fewer.
            let _ = self.tenants.push((reason, tenant.into(), u64::from(mask) + 1));
        }
    }

    fn counted(&self, reason: RejectReason) -> u64 {
        self.shards.iter().map(|shard| shard.0[reason.index()].load(Ordering::Relaxed)).sum()
    }

    fn arm(&self, is_quiet: &impl Fn(&Subject) -> bool) {
        for reason in RejectReason::ALL {
            let armed = &self.armed[reason.index()];
            let quiet = || is_quiet(&Subject::rejections(&self.limiter, &self.route, reason));
            if !armed.load(Ordering::Relaxed) && quiet() {
                armed.store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Limiter and route.
type Place = (Arc<str>, Arc<str>);

/// All tallies of a process, and what was already drained from them.
#[derive(Debug)]
pub struct Tallies {
    known: Mutex<BTreeMap<Place, Known>>,
    rest: Mutex<Known>,
    wake: Arc<Notify>,
}

#[derive(Debug)]
struct Known {
    tally: Arc<Tally>,
    drained: [u64; REASONS],
}

impl Default for Tallies {
    fn default() -> Self {
        let wake = Arc::new(Notify::new());
        let rest = Known::new(Tally::new("other".into(), "other".into(), wake.clone()));
        Self { known: Mutex::default(), rest: Mutex::new(rest), wake }
    }
}

impl Tallies {
    /// The tally of a limiter and a route: always the same one, as long as somebody holds it.
    pub fn of(&self, limiter: &Arc<str>, route: &Arc<str>) -> Arc<Tally> {
        let mut known = lock(&self.known);
        let key = (limiter.clone(), route.clone());
        if known.len() >= MOST_TALLIES && !known.contains_key(&key) {
            return lock(&self.rest).tally.clone();
        }
        let new = || Known::new(Tally::new(limiter.clone(), route.clone(), self.wake.clone()));
        known.entry(key).or_insert_with(new).tally.clone()
    }

    /// Waits for the first event of a subject that was quiet.
    ///
    /// # Cancel safety
    /// Nothing is lost: an event that came in between is heard by the next call.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Takes what was counted since the last drain.
    pub fn drain(&self, mut each: impl FnMut(&Subject, Seen)) {
        let mut known = lock(&self.known);
        known.retain(|_, one| {
            // Asked before: whoever nobody holds now cannot count while it is drained.
            let held = Arc::strong_count(&one.tally) > 1;
            one.drain(&mut each);
            held
        });
        lock(&self.rest).drain(&mut each);
    }

    /// All that was ever counted, as (limiter, route, reason, count); what was never seen is left out.
    /// Pairs beyond the bound are `other`.
    pub fn counted(&self, mut each: impl FnMut(&str, &str, RejectReason, u64)) {
        let known = lock(&self.known);
        let rest = lock(&self.rest);
        for tally in known.values().chain(std::iter::once(&*rest)).map(|one| &one.tally) {
            for reason in RejectReason::ALL {
                match tally.counted(reason) {
                    0 => {}
                    count => each(&tally.limiter, &tally.route, reason, count),
                }
            }
        }
    }

    /// The next event of each subject that is quiet wakes whoever drains. To be called after a drain
    /// whose counts were taken in.
    pub fn arm(&self, is_quiet: impl Fn(&Subject) -> bool) {
        for one in lock(&self.known).values() {
            one.tally.arm(&is_quiet);
        }
        lock(&self.rest).tally.arm(&is_quiet);
    }
}

impl Known {
    fn new(tally: Tally) -> Self {
        Self { tally: Arc::new(tally), drained: [0; REASONS] }
    }

    fn drain(&mut self, each: &mut impl FnMut(&Subject, Seen)) {
        let tally = &*self.tally;
        let news = RejectReason::ALL.map(|reason| tally.counted(reason) - self.drained[reason.index()]);
        if news.iter().all(|n| *n == 0) {
            self.pace_samples(0);
            return;
        }
        let peak_in_flight = tally.peak_in_flight.swap(0, Ordering::Relaxed);
        let low = tally.lowest_limit.swap(u32::MAX, Ordering::Relaxed);
        let high = tally.highest_limit.swap(0, Ordering::Relaxed);
        // Between a count and its numbers lies a moment: they may still be on their way.
        let limit = (low <= high).then_some((low, high));
        let mut tenants: [Vec<(Box<str>, u64)>; REASONS] = Default::default();
        let sampled = std::iter::from_fn(|| tally.tenants.pop()).take(SAMPLES);
        let mut taken = 0;
        for (reason, tenant, weight) in sampled {
            taken += 1;
            tenants[reason.index()].push((tenant, weight));
        }
        self.pace_samples(taken);
        for reason in RejectReason::ALL {
            let count = news[reason.index()];
            if count > 0 {
                self.drained[reason.index()] += count;
                let tenants = std::mem::take(&mut tenants[reason.index()]);
                let seen = Seen { count, peak_in_flight, limit, tenants, detail: None };
                each(&Subject::rejections(&self.tally.limiter, &self.tally.route, reason), seen);
            }
        }
    }

    /// So many that the samples of one drain fit, as many as fit.
    fn pace_samples(&self, taken: usize) {
        let mask = self.tally.mask.load(Ordering::Relaxed);
        if taken >= SAMPLES {
            self.tally.mask.store((mask << 1 | 1).min(u32::MAX >> 8), Ordering::Relaxed);
        } else if taken < SAMPLES / 4 {
            self.tally.mask.store(mask >> 1, Ordering::Relaxed);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every critical section leaves a whole value behind.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
