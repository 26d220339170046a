//! What whoever counts needs to know of the thread it runs on: a counter slot and dice.
//!
//! A thread with a slot of its own is the only writer of the counters there, so it counts by a load
//! and a store, several times cheaper than an atomic add. Slots are handed out process-wide and come
//! back when their thread ends; a thread that finds none uses slot 0, which all such threads share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The slot of all threads that have none of their own.
pub(crate) const SHARED: usize = 0;
/// How many slots there are, the shared one included.
pub(crate) const SLOTS: usize = 64;

/// One bit a slot; the shared one is never free.
static TAKEN: AtomicU64 = AtomicU64::new(1);

thread_local! {
    /// The slot, or [`UNKNOWN`], and the state of the dice.
    static THREAD: (Cell<usize>, Cell<u32>) = const { (Cell::new(UNKNOWN), Cell::new(0)) };
    static OWNED: Owned = Owned::claim();
}

const UNKNOWN: usize = usize::MAX;

/// Gives the slot back when its thread ends.
struct Owned(usize);

impl Owned {
    fn claim() -> Self {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        while taken != u64::MAX {
            let free = taken.trailing_ones();
            // Acquire: the counts that the last owner stored are seen before they are added to.
            match TAKEN.compare_exchange_weak(taken, taken | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Self(free as usize),
                Err(now) => taken = now,
            }
        }
        Self(SHARED)
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // What still counts while this thread ends counts as shared.
        THREAD.with(|(slot, _)| slot.set(SHARED));
        if self.0 != SHARED {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

/// This thread's slot, below [`SLOTS`].
#[inline]
pub(crate) fn slot() -> usize {
    THREAD.with(|(slot, _)| if slot.get() == UNKNOWN { claim(slot) } else { slot.get() })
}

#[cold]
fn claim(slot: &Cell<usize>) -> usize {
    slot.set(OWNED.try_with(|owned| owned.0).unwrap_or(SHARED));
    slot.get()
}

/// The next roll of this thread's dice: xorshift32 (Marsaglia, 2003). Dice rather than a counter, so
/// that limiters which one thread uses in turn are all timed.
#[inline]
pub(crate) fn roll() -> u32 {
    THREAD.with(|(_, dice)| {
        let mut x = dice.get();
        if x == 0 {
            x = seed();
        }
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        dice.set(x);
        x
    })
}

#[cold]
fn seed() -> u32 {
    static SEEDS: AtomicU64 = AtomicU64::new(1);
    (SEEDS.fetch_add(1, Ordering::Relaxed) as u32).wrapping_mul(0x9E37_79B9) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_live_at_once_never_share_an_own_slot_and_give_it_back() {
        for _ in 0..20 {
            let all_alive = std::sync::Barrier::new(10);
            let mut slots: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..10)
                    .map(|_| {
                        scope.spawn(|| {
                            let slot = slot();
                            all_alive.wait();
                            slot
                        })
                    })
                    .collect();
                threads.into_iter().map(|t| t.join().expect("no panic")).collect()
            });
            slots.retain(|s| *s != SHARED);
            let own = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), own);
        }
    }

    #[test]
    fn dice_do_not_stand_still() {
        let rolls: std::collections::HashSet<_> = (0..1000).map(|_| roll()).collect();
        assert_eq!(rolls.len(), 1000);
    }
}
