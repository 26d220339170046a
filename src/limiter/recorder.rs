//! What happens is counted here: exact counters spread over the processors, and the timed requests.
//!
//! A counter costs a load and a store on a cache line of the thread's own. Timed
//! requests pass through a bounded queue to whoever closes the window; when it is full, a
//! sample is dropped, which loses a measurement and nothing else.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;

use super::thread::{SHARED, SLOTS, roll, slot};
use crate::histogram::Histogram;
use crate::outcome::{Outcome, OutcomeCounts};
use crate::rejection::RejectReason;
use crate::time::Nanos;
use crate::window::{Sample, Sampler, Totals, Unfinished};

const OUTCOMES: usize = Outcome::ALL.len();
const REASONS: usize = RejectReason::ALL.len();
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard {
    finished: [AtomicU64; OUTCOMES],
    rejected: [AtomicU64; REASONS],
    waited: AtomicU64,
    would_reject: AtomicU64,
}

/// When the window may close, readable without a lock.
#[derive(Debug)]
struct Due {
    min: AtomicU64,
    max: AtomicU64,
    samples: AtomicU32,
}

/// Counters, samples and the table of those that have not finished.
#[derive(Debug)]
pub(crate) struct Recorder {
    shards: Box<[Shard]>,
    samples: ArrayQueue<Sample>,
    dropped: AtomicU64,
    pub(crate) unfinished: Unfinished,
    /// One request in `mask + 1` is timed.
    mask: AtomicU32,
    due: Due,
    pub(crate) latency: Histogram,
    pub(crate) hold: Histogram,
    pub(crate) queue_wait: Histogram,
}

impl Recorder {
    pub(crate) fn new(sampler: &Sampler) -> Self {
        // Room for two threads a processor; further ones share.
        let shards = (1 + 2 * std::thread::available_parallelism().map_or(4, usize::from)).min(SLOTS);
        let recorder = Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            samples: ArrayQueue::new(Sampler::MAX_SAMPLES),
            dropped: AtomicU64::new(0),
            unfinished: Unfinished::default(),
            mask: AtomicU32::new(0),
            due: Due { min: AtomicU64::new(0), max: AtomicU64::new(0), samples: AtomicU32::new(0) },
            latency: Histogram::default(),
            hold: Histogram::default(),
            queue_wait: Histogram::default(),
        };
        recorder.follow(sampler);
        recorder
    }

    /// Takes over when the window may close and how many are timed.
    pub(crate) fn follow(&self, sampler: &Sampler) {
        let pace = sampler.pace();
        self.due.min.store((sampler.opened() + pace.min).0, Ordering::Relaxed);
        self.due.max.store((sampler.opened() + pace.max).0, Ordering::Relaxed);
        self.due.samples.store(pace.samples, Ordering::Relaxed);
        self.mask.store(sampler.one_in() - 1, Ordering::Relaxed);
    }

    /// Whether the next request is to be timed.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        let mask = self.mask.load(Ordering::Relaxed);
        mask == 0 || roll() & mask == 0
    }

    /// How many requests a timed one stands for.
    pub(crate) fn one_in(&self) -> u64 {
        u64::from(self.mask.load(Ordering::Relaxed)) + 1
    }

    /// Whether the window may close: a hint, the sampler decides.
    pub(crate) fn may_be_due(&self, now: Nanos) -> bool {
        now.0 >= self.due.max.load(Ordering::Relaxed)
            || now.0 >= self.due.min.load(Ordering::Relaxed)
                && self.samples.len() >= self.due.samples.load(Ordering::Relaxed) as usize
            || self.samples.is_full()
    }

    /// A timed request has finished.
    pub(crate) fn sample(&self, sample: Sample) {
        if self.samples.push(sample).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The next timed request that has finished.
    pub(crate) fn next_sample(&self) -> Option<Sample> {
        self.samples.pop()
    }

    /// Samples that were dropped because nobody closed the window in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    #[inline]
    fn add_one(&self, counter: impl Fn(&Shard) -> &AtomicU64) {
        match self.shards.get(slot()) {
            Some(own) if slot() != SHARED => {
                let counter = counter(own);
                counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
            _ => {
                counter(&self.shards[SHARED]).fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    pub(crate) fn finished(&self, outcome: Outcome) {
        self.add_one(|shard| &shard.finished[outcome.index()]);
    }

    pub(crate) fn rejected(&self, reason: RejectReason) {
        self.add_one(|shard| &shard.rejected[reason.index()]);
    }

    /// A request was admitted after it had waited so long.
    pub(crate) fn waited(&self, wait: Duration) {
        self.add_one(|shard| &shard.waited);
        self.queue_wait.record(wait, 1);
    }

    pub(crate) fn would_reject(&self) {
        self.add_one(|shard| &shard.would_reject);
    }

    fn sum(&self, of: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards.iter().map(|shard| of(shard).load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn finished_by_outcome(&self) -> OutcomeCounts {
        let mut counts = OutcomeCounts::default();
        for outcome in Outcome::ALL {
            counts.add(outcome, self.sum(|shard| &shard.finished[outcome.index()]));
        }
        counts
    }

    pub(crate) fn rejected_for(&self, reason: RejectReason) -> u64 {
        self.sum(|shard| &shard.rejected[reason.index()])
    }

    pub(crate) fn waited_total(&self) -> u64 {
        self.sum(|shard| &shard.waited)
    }

    pub(crate) fn would_reject_total(&self) -> u64 {
        self.sum(|shard| &shard.would_reject)
    }

    /// What a window is made of. In shadow, what would have been refused met the limit all the same.
    pub(crate) fn totals(&self) -> Totals {
        let turned_away =
            RejectReason::ALL.into_iter().filter(|r| r.is_for_the_limit()).map(|r| self.rejected_for(r)).sum();
        Totals {
            finished: self.finished_by_outcome(),
            turned_away,
            waited: self.waited_total() + self.would_reject_total(),
        }
    }
}
