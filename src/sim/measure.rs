//! What is measured while a scenario runs: counts in short slices of each phase, and latencies.
//!
//! A slice is a fixed part of a phase, so that two runs of a scenario can be compared slice by
//! slice. Answers are counted where the client got them.

use super::scenario::Scenario;
use crate::law::Reason;

/// A short part of a phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slice {
    /// First tries that came.
    pub arrivals: u32,
    /// Tries that came, retries included.
    pub tries: u32,
    /// Tries that the limiter turned away.
    pub turned_away: u32,
    /// Requests answered well, within the SLO.
    pub good: u32,
    /// Requests answered well.
    pub answered: u32,
    /// Tries whose client gave up waiting for the answer.
    pub timed_out: u32,
    /// Tries that the downstream refused or failed.
    pub failed: u32,
    /// Sum of the latencies of the answered, in seconds.
    pub latency_sum: f64,
    /// Limit at the end, all limiters together.
    pub limit: u32,
    /// In flight at the end, all limiters together.
    pub in_flight: u32,
    /// Decisions, by [`Reason::index`].
    pub reasons: [u32; Reason::ALL.len()],
}

impl Slice {
    /// Neighbouring slices as one.
    pub fn together(slices: &[Slice]) -> Slice {
        let mut all = slices.last().cloned().unwrap_or_default();
        for slice in &slices[..slices.len().saturating_sub(1)] {
            all.arrivals += slice.arrivals;
            all.tries += slice.tries;
            all.turned_away += slice.turned_away;
            all.good += slice.good;
            all.answered += slice.answered;
            all.timed_out += slice.timed_out;
            all.failed += slice.failed;
            all.latency_sum += slice.latency_sum;
            for (sum, n) in all.reasons.iter_mut().zip(slice.reasons) {
                *sum += n;
            }
        }
        all
    }
}

/// One phase of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseMeasure {
    /// When it began.
    pub start: f64,
    /// How long each slice is.
    pub slice_s: f64,
    /// The slices, in order.
    pub slices: Vec<Slice>,
}

impl PhaseMeasure {
    /// Requests answered within the SLO.
    pub fn good(&self) -> u64 {
        self.slices.iter().map(|s| u64::from(s.good)).sum()
    }

    /// Mean latency of the answered, in seconds; 0 when there are none.
    pub fn mean_latency(&self) -> f64 {
        let answered: u64 = self.slices.iter().map(|s| u64::from(s.answered)).sum();
        let sum: f64 = self.slices.iter().map(|s| s.latency_sum).sum();
        sum / (answered as f64).max(1.0)
    }
}

/// A whole run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measure {
    /// By phase.
    pub phases: Vec<PhaseMeasure>,
    /// Latencies as clients saw them; those who gave up count with the time after which they did.
    pub latencies: Latencies,
    /// Requests answered well by each limiter, for every second begun.
    pub by_limiter: Vec<Vec<u32>>,
}

/// Slices aim at so many good answers each ...
const ANSWERS_A_SLICE: f64 = 40.0;
/// ... within these numbers of slices a phase.
const FEWEST: f64 = 10.0;
const MOST: f64 = 400.0;

impl Measure {
    /// Empty, with the slices that fit the scenario.
    pub fn new(scenario: &Scenario) -> Self {
        let mut start = 0.0;
        let phases = (0..scenario.phases.len()).map(|i| {
            let phase = &scenario.phases[i];
            let rate = phase.rate.unwrap_or(f64::INFINITY).max(phase.rate_end.unwrap_or(0.0));
            let served = rate.min(scenario.capacity(i)) * phase.seconds;
            let slices = (served / ANSWERS_A_SLICE).clamp(FEWEST, MOST).floor();
            let measure = PhaseMeasure {
                start,
                slice_s: phase.seconds / slices,
                slices: vec![Slice::default(); slices as usize],
            };
            start += phase.seconds;
            measure
        });
        Self { phases: phases.collect(), ..Self::default() }
    }

    /// The slice of `now` in `phase`.
    pub(super) fn slice(&mut self, phase: usize, now: f64) -> &mut Slice {
        let phase = &mut self.phases[phase];
        let at = ((now - phase.start) / phase.slice_s) as usize;
        let last = phase.slices.len() - 1;
        &mut phase.slices[at.min(last)]
    }

    /// Requests answered within the SLO.
    pub fn good(&self) -> u64 {
        self.phases.iter().map(PhaseMeasure::good).sum()
    }

    /// The sum of a count over all slices.
    pub fn sum(&self, count: impl Fn(&Slice) -> u32) -> u64 {
        self.phases.iter().flat_map(|p| &p.slices).map(|s| u64::from(count(s))).sum()
    }

    pub(super) fn answered_by(&mut self, limiter: usize, now: f64) {
        if self.by_limiter.len() <= limiter {
            self.by_limiter.resize(limiter + 1, Vec::new());
        }
        let seconds = &mut self.by_limiter[limiter];
        let at = now as usize;
        if seconds.len() <= at {
            seconds.resize(at + 1, 0);
        }
        seconds[at] += 1;
    }

    /// Jain's index of the answers of the limiters between two times (in seconds): 1 is fair.
    pub fn jain(&self, from: f64, to: f64) -> f64 {
        let within = |seconds: &Vec<u32>| {
            seconds.iter().take(to as usize).skip(from as usize).map(|n| f64::from(*n)).sum::<f64>()
        };
        let shares: Vec<f64> = self.by_limiter.iter().map(within).collect();
        let (sum, squares) = shares.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
        if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
    }
}

/// A histogram of latencies: 64 buckets an octave, so a quantile is right within 1.1 %.
#[derive(Clone, Debug, PartialEq)]
pub struct Latencies {
    buckets: Vec<u32>,
    total: u64,
}

const BUCKETS_AN_OCTAVE_BITS: u32 = 6;
const SHIFT: u32 = 52 - BUCKETS_AN_OCTAVE_BITS;
/// From 2^-24 s (60 ns) to 2^20 s (12 days).
const LOWEST_OCTAVE: u64 = 1023 - 24;
const OCTAVES: usize = 44;

impl Default for Latencies {
    fn default() -> Self {
        Self { buckets: vec![0; OCTAVES << BUCKETS_AN_OCTAVE_BITS], total: 0 }
    }
}

impl Latencies {
    /// Adds one, in seconds.
    pub fn add(&mut self, seconds: f64) {
        let lowest = LOWEST_OCTAVE << BUCKETS_AN_OCTAVE_BITS;
        let at = (seconds.max(0.0).to_bits() >> SHIFT).saturating_sub(lowest) as usize;
        let last = self.buckets.len() - 1;
        self.buckets[at.min(last)] += 1;
        self.total += 1;
    }

    /// The latency that a share `q` do not exceed, in seconds; 0 when there are none.
    pub fn quantile(&self, q: f64) -> f64 {
        let wanted = (q * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += u64::from(*n);
            if seen >= wanted && *n > 0 {
                let bits = ((LOWEST_OCTAVE << BUCKETS_AN_OCTAVE_BITS) + i as u64) << SHIFT;
                return f64::from_bits(bits + (1 << (SHIFT - 1)));
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_a_bucket() {
        let mut latencies = Latencies::default();
        for i in 1..=1000 {
            latencies.add(f64::from(i) * 1e-3);
        }
        for (q, want) in [(0.5, 0.5), (0.99, 0.99), (1.0, 1.0)] {
            let got = latencies.quantile(q);
            assert!((got / want - 1.0).abs() < 0.016, "{q}: {got}");
        }
        assert_eq!(Latencies::default().quantile(0.5), 0.0);
    }

    #[test]
    fn jains_index() {
        let of = |shares: &[u32]| Measure {
            by_limiter: shares.iter().map(|n| vec![0, *n, 7]).collect(),
            ..Measure::default()
        };
        assert_eq!(of(&[5, 5]).jain(1.0, 2.0), 1.0);
        assert_eq!(of(&[10, 0]).jain(1.0, 2.0), 0.5);
    }
}
