//! The profile: latency by in-flight level, from samples that are slowly forgotten.
//!
//! It keeps sums and decides nothing. Level `j` holds the requests that met about `2^(j/6)` units
//! in flight at their admission. All sums of a level carry the same weights, so ratios are means.

use crate::window::{LEVELS, level_of, level_value};

/// Natural log of the units in flight at the middle of each level.
#[derive(Clone, Debug)]
pub(super) struct Scale([f64; LEVELS]);

impl Scale {
    /// Small levels hold one or two whole numbers: their middle is that of the numbers in them.
    pub(super) fn new() -> Self {
        let mut middle: [f64; LEVELS] = std::array::from_fn(|level| level_value(level).ln());
        let (mut sum, mut n) = ([0.0; LEVELS], [0.0; LEVELS]);
        for units in 1..=64_u32 {
            sum[level_of(units)] += f64::from(units).ln();
            n[level_of(units)] += 1.0;
        }
        for level in 0..level_of(60) {
            if n[level] > 0.0 {
                middle[level] = sum[level] / n[level];
            }
        }
        Self(middle)
    }

    /// ln of the units in flight at the middle of `level`.
    pub(super) fn ln_units(&self, level: usize) -> f64 {
        self.0[level]
    }
}

/// Forgotten sums of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Level {
    /// Samples, by weight.
    pub(super) weight: f64,
    /// Sum of latencies, in seconds, with the time that unanswered requests waited.
    pub(super) sum: f64,
    /// Sum of ln latency.
    pub(super) sum_ln: f64,
}

/// All levels.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    levels: [Level; LEVELS],
    /// No level from here on holds anything.
    end: usize,
}

impl Profile {
    pub(super) fn new() -> Self {
        Self { levels: [Level::default(); LEVELS], end: 0 }
    }

    /// A served request.
    pub(super) fn add(&mut self, level: usize, latency: f64, ln: f64, weight: f64) {
        let at = &mut self.levels[level];
        at.weight += weight;
        at.sum += weight * latency;
        at.sum_ln += weight * ln;
        self.end = self.end.max(level + 1);
    }

    /// A request that ended without an answer: it waited so long, and nothing came.
    pub(super) fn add_waited(&mut self, level: usize, waited: f64, weight: f64) {
        self.levels[level].sum += weight * waited;
        self.end = self.end.max(level + 1);
    }

    /// Keeps the share `kept` of everything.
    pub(super) fn forget(&mut self, kept: f64) {
        for level in &mut self.levels[..self.end] {
            level.weight *= kept;
            level.sum *= kept;
            level.sum_ln *= kept;
        }
    }

    pub(super) fn level(&self, level: usize) -> Level {
        self.levels[level]
    }

    /// Mean latency over all levels; `None` when empty.
    pub(super) fn mean(&self) -> Option<f64> {
        let (weight, sum) = self.levels[..self.end].iter().fold((0.0, 0.0), |(w, s), l| (w + l.weight, s + l.sum));
        (weight >= 1.0 && sum > 0.0).then(|| sum / weight)
    }

    /// Samples in all, by weight.
    pub(super) fn weight(&self) -> f64 {
        self.levels[..self.end].iter().map(|level| level.weight).sum()
    }

    /// No level from here on holds anything.
    pub(super) fn end(&self) -> usize {
        self.end
    }

    /// The lowest and the highest level that `enough` samples lie at or beyond.
    pub(super) fn span(&self, enough: f64) -> Option<(usize, usize)> {
        Some((self.reach(0..self.end, enough)?, self.reach((0..self.end).rev(), enough)?))
    }

    fn reach(&self, mut levels: impl Iterator<Item = usize>, enough: f64) -> Option<usize> {
        let mut sum = 0.0;
        levels.find(|&level| {
            sum += self.levels[level].weight;
            sum >= enough
        })
    }
}

/// Latency by level, in three parts.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Long memory.
    pub(super) long: Profile,
    /// What is kept after an alarm.
    pub(super) short: Profile,
    /// What unfinished requests have waited, by level, as far as it is in the sums.
    pub(super) waited: [f64; LEVELS],
}

impl Curve {
    pub(super) fn new() -> Self {
        Self { long: Profile::new(), short: Profile::new(), waited: [0.0; LEVELS] }
    }

    /// A served request.
    pub(super) fn add(&mut self, level: usize, latency: f64, ln: f64, weight: f64) {
        self.long.add(level, latency, ln, weight);
        self.short.add(level, latency, ln, weight);
    }

    /// Time waited without an answer.
    pub(super) fn add_waited(&mut self, level: usize, waited: f64, weight: f64) {
        self.long.add_waited(level, waited, weight);
        self.short.add_waited(level, waited, weight);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_levels_are_the_numbers_they_hold() {
        let scale = Scale::new();
        for units in [1_u32, 2, 3, 4, 5, 6, 7] {
            assert!((scale.ln_units(level_of(units)) - f64::from(units).ln()).abs() < 1e-12, "{units}");
        }
        assert!((0..LEVELS - 1).all(|l| scale.ln_units(l) < scale.ln_units(l + 1)), "ascending");
    }

    #[test]
    fn the_span_leaves_out_the_few_beyond() {
        let mut profile = Profile::new();
        for level in 10..20 {
            profile.add(level, 1.0, 0.0, 2.0);
        }
        profile.add(40, 1.0, 0.0, 1.0);
        assert_eq!(profile.span(3.0), Some((11, 19)));
        assert_eq!(profile.span(1000.0), None);
    }

    #[test]
    fn forgetting_keeps_the_means() {
        let mut profile = Profile::new();
        profile.add(3, 2.0, 0.7, 4.0);
        profile.forget(0.5);
        let level = profile.level(3);
        assert_eq!((level.weight, level.sum / level.weight), (2.0, 2.0));
    }
}
