//! A ceiling's counters, spread over the threads so that they do not fight over a cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::limiter::thread::{SHARED, SLOTS, slot};

/// What is counted.
#[derive(Clone, Copy, Debug)]
pub(super) enum Count {
    Consumed,
    Refunded,
    Refused,
    Waited,
    Throttled,
    Cuts,
}

const KINDS: usize = Count::Cuts as usize + 1;

#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard([AtomicU64; KINDS]);

#[derive(Debug)]
pub(super) struct Counts(Box<[Shard]>);

impl Counts {
    pub(super) fn new() -> Self {
        // Room for two threads a processor; further ones share.
        let shards = (1 + 2 * std::thread::available_parallelism().map_or(4, usize::from)).min(SLOTS);
        Self((0..shards).map(|_| Shard::default()).collect())
    }

    #[inline]
    pub(super) fn add(&self, count: Count, n: u64) {
        match self.0.get(slot()) {
            // The only writer: a load and a store do.
            Some(own) if slot() != SHARED => {
                let counter = &own.0[count as usize];
                counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
            }
            _ => {
                self.0[SHARED].0[count as usize].fetch_add(n, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn total(&self, count: Count) -> u64 {
        self.0.iter().map(|shard| shard.0[count as usize].load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }
}
