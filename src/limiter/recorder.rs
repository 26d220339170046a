//! What happens is counted here: exact counters spread over the processors, and the timed requests.
//!
//! The counters cost one relaxed add on a cache line that other threads seldom touch. Timed
//! requests pass through a bounded queue to whoever closes the window; when it is full, a
//! sample is dropped, which loses a measurement and nothing else.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;

use crate::histogram::Histogram;
use crate::outcome::{Outcome, OutcomeCounts};
use crate::rejection::RejectReason;
use crate::time::Nanos;
use crate::window::{Sample, Sampler, Totals, Unfinished};

const OUTCOMES: usize = Outcome::ALL.len();
const REASONS: usize = RejectReason::ALL.len();
/// More processors than this share.
const MOST_SHARDS: usize = 16;

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
}

thread_local! {
    /// This thread's number (0: none yet) and the state of its dice.
    static THREAD: (Cell<u32>, Cell<u32>) = const { (Cell::new(0), Cell::new(0)) };
}

fn new_thread() -> u32 {
    static THREADS: AtomicU32 = AtomicU32::new(1);
    THREADS.fetch_add(1, Ordering::Relaxed).max(1)
}

/// This thread's number, from 1.
#[inline]
fn thread_number() -> usize {
    THREAD.with(|(number, _)| {
        if number.get() == 0 {
            number.set(new_thread());
        }
        number.get() as usize
    })
}

/// The next roll of this thread's dice: xorshift32 (Marsaglia, 2003). Dice rather than a counter, so
/// that limiters used in turn by one thread are all timed.
#[inline]
pub(crate) fn roll() -> u32 {
    THREAD.with(|(_, dice)| {
        let mut x = dice.get();
        if x == 0 {
            x = (thread_number() as u32).wrapping_mul(0x9E37_79B9) | 1;
        }
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        dice.set(x);
        x
    })
}

impl Recorder {
    pub(crate) fn new(sampler: &Sampler) -> Self {
        let shards = std::thread::available_parallelism().map_or(4, usize::from).next_power_of_two().min(MOST_SHARDS);
        let recorder = Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            samples: ArrayQueue::new(Sampler::MAX_SAMPLES),
            dropped: AtomicU64::new(0),
            unfinished: Unfinished::default(),
            mask: AtomicU32::new(0),
            due: Due { min: AtomicU64::new(0), max: AtomicU64::new(0), samples: AtomicU32::new(0) },
            latency: Histogram::default(),
            hold: Histogram::default(),
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
    fn shard(&self) -> &Shard {
        // The length is a power of two.
        &self.shards[thread_number() & (self.shards.len() - 1)]
    }

    #[inline]
    pub(crate) fn finished(&self, outcome: Outcome) {
        self.shard().finished[outcome.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rejected(&self, reason: RejectReason) {
        self.shard().rejected[reason.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn waited(&self) {
        self.shard().waited.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn would_reject(&self) {
        self.shard().would_reject.fetch_add(1, Ordering::Relaxed);
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
