//! The bucket made safe for threads: one word to swap, and the pace beside it, read without a lock.
//!
//! Who takes swaps the level in one compare-and-swap. The pace lies in a ring of slots; the newest is
//! named by a counter, and a reader that was overtaken by a whole round of the ring looks again. One
//! thread at a time may bend the pace: the caller holds a lock.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use super::bucket::{Level, Pace};
use crate::time::Nanos;

const SLOTS: u64 = 4;

#[derive(Debug, Default)]
struct Slot {
    since: AtomicU64,
    allowed: AtomicU64,
    slope: AtomicU64,
    burst: AtomicU64,
}

/// Its own cache line: threads fight over the level and over nothing else.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// A [`Level`] and a [`Pace`] that many threads use at once.
#[derive(Debug)]
pub(super) struct AtomicBucket {
    level: Line,
    newest: AtomicU64,
    slots: [Slot; SLOTS as usize],
}

impl AtomicBucket {
    pub(super) fn new(pace: Pace, level: Level) -> Self {
        let bucket =
            Self { level: Line(AtomicU64::new(level.0)), newest: AtomicU64::new(0), slots: Default::default() };
        bucket.slots[0].write(&pace);
        bucket
    }

    /// Takes units, or says how long until they are there. Gives the level to refund them from.
    #[inline]
    pub(super) fn take(&self, now: Nanos, units: u32) -> Result<Level, Duration> {
        let pace = self.pace();
        let mut level = self.level.0.load(Ordering::Relaxed);
        loop {
            let next = pace.take(Level(level), now, units)?;
            match self.level.0.compare_exchange_weak(level, next.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(next),
                Err(newer) => level = newer,
            }
        }
    }

    pub(super) fn refund(&self, now: Nanos, end: Level, units: u32) {
        let pace = self.pace();
        self.update(|level| pace.refund(level, now, end, units));
    }

    /// Notes what was had elsewhere.
    pub(super) fn charge(&self, now: Nanos, units: u64) {
        let pace = self.pace();
        self.update(|level| pace.charge(level, now, units));
    }

    pub(super) fn wait(&self, now: Nanos, ahead: u64, units: u32) -> Duration {
        self.pace().wait(self.level(), now, ahead, units)
    }

    pub(super) fn owed(&self, now: Nanos) -> f64 {
        self.pace().owed(self.level(), now)
    }

    /// Changes rate and burst. To be called by one at a time.
    pub(super) fn bend(&self, now: Nanos, rate: f64, burst: f64) {
        let old = self.pace();
        let new = old.bent(now, rate, burst);
        if (new.slope, new.burst) == (old.slope, old.burst) {
            return;
        }
        let newest = self.newest.load(Ordering::Relaxed);
        // Who sees any of what follows also sees that `newest` had come so far.
        fence(Ordering::Release);
        self.slots[((newest + 1) % SLOTS) as usize].write(&new);
        self.newest.store(newest + 1, Ordering::Release);
        if new.burst > old.burst {
            self.update(|level| old.widened(level, now, &new));
        }
    }

    pub(super) fn pace(&self) -> Pace {
        loop {
            let newest = self.newest.load(Ordering::Acquire);
            let pace = self.slots[(newest % SLOTS) as usize].read();
            fence(Ordering::Acquire);
            if self.newest.load(Ordering::Relaxed).wrapping_sub(newest) < SLOTS - 1 {
                return pace;
            }
        }
    }

    fn level(&self) -> Level {
        Level(self.level.0.load(Ordering::Relaxed))
    }

    fn update(&self, change: impl Fn(Level) -> Level) {
        let mut level = self.level.0.load(Ordering::Relaxed);
        while let Err(newer) =
            self.level.0.compare_exchange_weak(level, change(Level(level)).0, Ordering::AcqRel, Ordering::Relaxed)
        {
            level = newer;
        }
    }
}

impl Slot {
    fn write(&self, pace: &Pace) {
        self.since.store(pace.since.0, Ordering::Relaxed);
        self.allowed.store(pace.allowed, Ordering::Relaxed);
        self.slope.store(pace.slope, Ordering::Relaxed);
        self.burst.store(pace.burst, Ordering::Relaxed);
    }

    #[inline]
    fn read(&self) -> Pace {
        Pace {
            since: Nanos(self.since.load(Ordering::Relaxed)),
            allowed: self.allowed.load(Ordering::Relaxed),
            slope: self.slope.load(Ordering::Relaxed),
            burst: self.burst.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn threads_together_never_have_more_than_the_line_and_a_burst() {
        let bucket =
            AtomicBucket::new(Pace::new(Nanos(0), 1000.0, 10.0), Pace::new(Nanos(0), 1000.0, 10.0).full(Nanos(0)));
        let clock = AtomicU64::new(0);
        let had = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        // 160,000 steps of 6.25 us are one second.
                        let now = Nanos(clock.fetch_add(6_250, Ordering::Relaxed));
                        if bucket.take(now, 1).is_ok() {
                            had.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        let had = had.into_inner();
        assert!((1000..=1010).contains(&had), "{had}");
    }

    #[test]
    fn a_reader_never_sees_a_pace_that_was_never_written() {
        let bucket = AtomicBucket::new(Pace::new(Nanos(0), 100.0, 100.0), Level(0));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        while !over.load(Ordering::Relaxed) {
                            let pace = bucket.pace();
                            let (rate, burst) = (pace.rate(), pace.burst());
                            assert!(
                                (rate - burst).abs() < 0.001,
                                "rate {rate} and burst {burst} are of different paces"
                            );
                        }
                    })
                })
                .collect();
            for i in 1..100_000_u32 {
                let both = f64::from(i % 1000 + 1);
                bucket.bend(Nanos(u64::from(i)), both, both);
            }
            over.store(true, Ordering::Relaxed);
            readers.into_iter().for_each(|reader| reader.join().expect("no torn pace"));
        });
    }
}
