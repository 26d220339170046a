//! A small latency histogram: two buckets an octave from 32 microseconds to 18 minutes.
//!
//! Wait-free to write, read bucket by bucket: a reader may miss what is being written just then.

use std::time::Duration;

use crate::sync::{AtomicU64, Ordering};

/// The octave of the lowest bucket: 2^15 ns.
const FIRST_OCTAVE: u32 = 15;
/// How many buckets; the last one has no upper end.
pub const BUCKETS: usize = 52;

/// Counts of durations by bucket.
#[derive(Debug)]
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_us: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: std::array::from_fn(|_| AtomicU64::new(0)), sum_us: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Adds `duration`, which stands for `times` requests.
    pub(crate) fn record(&self, duration: Duration, times: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket_of(nanos)].fetch_add(times, Ordering::Relaxed);
        self.sum_us.fetch_add((nanos / 1000).saturating_mul(times), Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Durations {
        Durations {
            counts: std::array::from_fn(|i| self.buckets[i].load(Ordering::Relaxed)),
            sum: Duration::from_micros(self.sum_us.load(Ordering::Relaxed)),
        }
    }
}

fn bucket_of(nanos: u64) -> usize {
    let octave = (63 - nanos.max(1).leading_zeros()).max(1);
    let upper_half = (nanos >> (octave - 1)) & 1;
    let index = 2 * octave as usize + upper_half as usize;
    index.saturating_sub(2 * FIRST_OCTAVE as usize).min(BUCKETS - 1)
}

/// A reading of durations by bucket. At high rates an estimate from the timed requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Durations {
    counts: [u64; BUCKETS],
    sum: Duration,
}

impl Durations {
    /// The buckets: upper end in seconds (infinite for the last), and the count of this bucket alone.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.counts.iter().enumerate().map(|(i, n)| (upper_end(i), *n))
    }

    /// How many in all.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All durations together.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// What came after `earlier`, a reading of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Durations) -> Durations {
        Durations {
            counts: std::array::from_fn(|i| self.counts[i].saturating_sub(earlier.counts[i])),
            sum: self.sum.saturating_sub(earlier.sum),
        }
    }

    /// The duration that a share `q` (`0.0..=1.0`) does not exceed: the upper end of its bucket, in
    /// seconds, so at most half as much again as the true one. `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let rank = (q.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0);
        let mut seen = 0;
        self.buckets()
            .find(|(_, n)| {
                seen += n;
                seen as f64 >= rank
            })
            .map(|(end, _)| end)
    }
}

fn upper_end(bucket: usize) -> f64 {
    if bucket == BUCKETS - 1 {
        return f64::INFINITY;
    }
    let octave = (bucket / 2) as i32 + FIRST_OCTAVE as i32;
    let end = if bucket.is_multiple_of(2) { 1.5 } else { 2.0 };
    end * 2_f64.powi(octave) * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_below_the_end_of_its_bucket_and_not_of_the_one_before() {
        for nanos in [0, 1, 32_768, 49_151, 49_152, 1_000_000, 80_000_000, 45_000_000_000, 300_000_000_000] {
            let bucket = bucket_of(nanos);
            let secs = nanos as f64 * 1e-9;
            assert!(secs < upper_end(bucket), "{nanos}");
            assert!(bucket == 0 || secs >= upper_end(bucket - 1), "{nanos}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_and_sum_follow_what_was_recorded() {
        let histogram = Histogram::default();
        histogram.record(Duration::from_millis(10), 98);
        histogram.record(Duration::from_secs(45), 2);
        let read = histogram.read();
        assert_eq!((read.count(), read.sum()), (100, Duration::from_millis(980) + Duration::from_secs(90)));
        let (p50, p99) = (read.quantile(0.5).expect("some"), read.quantile(0.99).expect("some"));
        assert!((0.010..0.015).contains(&p50) && (45.0..67.5).contains(&p99), "{p50} {p99}");
        assert_eq!(Histogram::default().read().quantile(0.5), None);
        histogram.record(Duration::from_millis(10), 3);
        let new = histogram.read().since(&read);
        assert_eq!((new.count(), new.sum()), (3, Duration::from_millis(30)));
    }
}
