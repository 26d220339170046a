//! Timed requests that have not finished: per level of in flight at admission, their number and
//! summed age. Each level is one word, so that a reader never sees the one without the other.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};
use crate::time::Nanos;

/// How many levels: six an octave, from 1 to 4096 units; what is higher counts as the highest.
pub const LEVELS: usize = 73;

const PER_OCTAVE: f64 = 6.0;
/// Low bits: the number of requests. High bits: the sum of their starts in microseconds, modulo 2^44.
const COUNT_BITS: u32 = 20;
const SUM_MASK: u64 = (1 << (64 - COUNT_BITS)) - 1;

/// The level of `in_flight` units: `round(6 log2 n)`, at most `LEVELS - 1`.
pub fn level_of(in_flight: u32) -> usize {
    let level = (PER_OCTAVE * f64::from(in_flight.max(1)).log2()).round() as usize;
    level.min(LEVELS - 1)
}

/// The units in flight at the middle of a level: `2^(level / 6)`.
pub fn level_value(level: usize) -> f64 {
    (level as f64 / PER_OCTAVE).exp2()
}

/// The table. Wait-free; a start and its finish must be told with the same values.
///
/// Sums are kept modulo 2^44 microseconds (203 days of summed age a level), in which start and
/// finish cancel exactly whatever happens between.
#[derive(Debug)]
pub struct Unfinished([AtomicU64; LEVELS]);

impl Default for Unfinished {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Unfinished {
    fn word(start: Nanos) -> u64 {
        ((start.0 / 1000) << COUNT_BITS) | 1
    }

    /// A timed request was admitted at `start` and met `level`.
    pub fn start(&self, level: usize, start: Nanos) {
        self.0[level].fetch_add(Self::word(start), Ordering::Relaxed);
    }

    /// That request has finished.
    pub fn finish(&self, level: usize, start: Nanos) {
        self.0[level].fetch_sub(Self::word(start), Ordering::Relaxed);
    }

    /// Number and summed age at `now` of the requests of one level.
    pub fn level(&self, level: usize, now: Nanos) -> (u32, Duration) {
        let word = self.0[level].load(Ordering::Relaxed);
        let count = word & ((1 << COUNT_BITS) - 1);
        let starts = word >> COUNT_BITS;
        let age = count.wrapping_mul(now.0 / 1000).wrapping_sub(starts) & SUM_MASK;
        // Half the range and more is a clock that ran ahead of `now`: no age yet.
        let age = if age > SUM_MASK / 2 { 0 } else { age };
        (count as u32, Duration::from_micros(age))
    }

    /// Number and summed age at `now` of all.
    pub fn total(&self, now: Nanos) -> (u32, Duration) {
        (0..LEVELS).map(|l| self.level(l, now)).fold((0, Duration::ZERO), |(n, age), (m, a)| (n + m, age + a))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_six_an_octave() {
        assert_eq!([1, 2, 4, 4096, u32::MAX].map(level_of), [0, 6, 12, 72, 72]);
        assert_eq!(level_of(0), 0);
        assert!((level_value(6) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn ages_sum_up_and_cancel() {
        let table = Unfinished::default();
        table.start(3, Nanos(1_000_000));
        table.start(3, Nanos(3_000_000));
        assert_eq!(table.level(3, Nanos(5_000_000)), (2, Duration::from_millis(6)));
        table.finish(3, Nanos(1_000_000));
        assert_eq!(table.total(Nanos(5_000_000)), (1, Duration::from_millis(2)));
        table.finish(3, Nanos(3_000_000));
        assert_eq!(table.total(Nanos(9_000_000)), (0, Duration::ZERO));
    }

    #[test]
    fn a_reader_with_an_older_clock_sees_no_age() {
        let table = Unfinished::default();
        table.start(0, Nanos(9_000_000));
        assert_eq!(table.level(0, Nanos(2_000_000)), (1, Duration::ZERO));
    }
}
