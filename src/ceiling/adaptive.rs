//! Finds the rate that the other side really allows: a cut on a throttle, a cubic way back.
//!
//! The curve is TCP CUBIC's (RFC 9438), made free of scale: with `w` a little below the rate that was
//! throttled last and `x` the time of recovery in parts of what it takes,
//! `rate = w (1 - (1 - CUT) (1 - x)^3)`. It comes back fast, stays near `w` for long, and then looks
//! further, faster and faster. Time of recovery passes only with successes, and only while callers
//! had to wait for the rate: nothing else says that more is allowed.
//!
//! A throttled attempt that was charged before the last cut says nothing about the rate since.

use std::time::Duration;

use crate::time::Nanos;

/// What a cut multiplies by.
const CUT: f64 = 0.7;
/// Where the curve is flat, as a share of the rate that was throttled: below it, or the plateau itself
/// would be throttled again and again.
const PLATEAU: f64 = 0.9;
/// How long until the plateau is reached, at most: at low rates each look further costs a larger share.
pub const RECOVERY: Duration = Duration::from_secs(10);
/// And at least.
const SHORTEST_RECOVERY: f64 = 2.0;
/// Between the two, the recovery takes so many units.
const RECOVERY_UNITS: f64 = 50.0;
/// Two cuts are at least so far apart: a quota counted in windows throttles everything at once.
const BETWEEN_CUTS: Duration = Duration::from_millis(50);
/// The most of a silence that counts as time of recovery.
const MOST_OF_A_SILENCE: Duration = Duration::from_secs(1);

/// The rate within its bounds, and the curve that it follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptive {
    min: f64,
    max: f64,
    plateau: f64,
    /// Time of recovery in parts of what it takes.
    x: f64,
    moved: Nanos,
    cut: Option<Nanos>,
}

impl Adaptive {
    /// Starts at `rate` within `min` and `max`, at the flat part of the curve.
    pub fn new(now: Nanos, rate: f64, (min, max): (f64, f64)) -> Self {
        Self { min, max, plateau: rate, x: 1.0, moved: now, cut: None }
    }

    /// Starts again at `rate`.
    pub fn set_rate(&mut self, now: Nanos, rate: f64) {
        *self = Self::new(now, rate, (self.min, self.max));
    }

    /// The rate stays within `min` and `max` from now on.
    pub fn set_bounds(&mut self, (min, max): (f64, f64)) {
        (self.min, self.max) = (min, max);
    }

    /// An attempt that was charged at `charged` was throttled. Tells whether the rate was cut.
    pub fn throttled(&mut self, now: Nanos, charged: Nanos) -> bool {
        if self.cut.is_some_and(|cut| charged < cut || now < cut + BETWEEN_CUTS) {
            return false;
        }
        let before = self.rate();
        self.plateau = PLATEAU * before;
        (self.x, self.cut, self.moved) = (0.0, Some(now), now);
        self.rate() < before
    }

    /// Attempts succeed while callers wait for the rate. Tells whether the rate rose.
    pub fn succeeded(&mut self, now: Nanos) -> bool {
        let before = self.rate();
        let passed = now.since(self.moved).min(MOST_OF_A_SILENCE);
        self.moved = now.max(self.moved);
        if self.curve() < self.max {
            let recovery = (RECOVERY_UNITS / self.rate()).clamp(SHORTEST_RECOVERY, RECOVERY.as_secs_f64());
            self.x += passed.as_secs_f64() / recovery;
        }
        self.rate() > before
    }

    /// Time passes in which nothing is to be learned.
    pub fn idled(&mut self, now: Nanos) {
        self.moved = now.max(self.moved);
    }

    /// Units a second.
    pub fn rate(&self) -> f64 {
        self.curve().clamp(self.min, self.max)
    }

    /// The smallest and the largest rate.
    pub fn bounds(&self) -> (f64, f64) {
        (self.min, self.max)
    }

    fn curve(&self) -> f64 {
        self.plateau * (1.0 - (1.0 - CUT) * (1.0 - self.x).powi(3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Nanos {
        Nanos::from_secs_f64(secs)
    }

    /// Succeeds ten times a second from `from` to `to`.
    fn succeed(adaptive: &mut Adaptive, from: f64, to: f64) {
        let steps = ((to - from) * 10.0) as u32;
        (1..=steps).for_each(|i| {
            adaptive.succeeded(at(from + f64::from(i) / 10.0));
        });
    }

    #[test]
    fn a_throttle_cuts_and_those_charged_before_the_cut_do_not_cut_again() {
        let mut adaptive = Adaptive::new(at(0.0), 100.0, (5.0, 100.0));
        assert!(adaptive.throttled(at(1.0), at(0.9)));
        assert!((adaptive.rate() - 63.0).abs() < 1e-9);
        assert!(!adaptive.throttled(at(1.2), at(0.99)));
        assert!(adaptive.throttled(at(1.2), at(1.1)));
        assert!((adaptive.rate() - 39.69).abs() < 1e-9);
        for i in 0..20 {
            let now = at(2.0 + f64::from(i));
            adaptive.throttled(now, now);
        }
        assert_eq!(adaptive.rate(), 5.0, "never below its minimum");
    }

    #[test]
    fn it_comes_back_to_a_plateau_below_what_was_throttled_and_then_looks_further() {
        let mut adaptive = Adaptive::new(at(0.0), 100.0, (1.0, 1000.0));
        adaptive.throttled(at(0.0), at(0.0));
        succeed(&mut adaptive, 0.0, 2.0);
        assert!((adaptive.rate() - 90.0).abs() < 0.1, "{}", adaptive.rate());
        succeed(&mut adaptive, 2.0, 2.6);
        assert!(adaptive.rate() < 92.0, "it stays there: {}", adaptive.rate());
        succeed(&mut adaptive, 2.6, 60.0);
        assert_eq!(adaptive.rate(), 1000.0, "a quota that came back is found");
    }

    #[test]
    fn silence_is_no_evidence() {
        let mut adaptive = Adaptive::new(at(0.0), 100.0, (1.0, 1000.0));
        adaptive.throttled(at(0.0), at(0.0));
        let before = adaptive.rate();
        adaptive.idled(at(3000.0));
        adaptive.succeeded(at(3000.0));
        assert_eq!(adaptive.rate(), before);
        adaptive.succeeded(at(9000.0));
        assert!(adaptive.rate() < 87.0, "one second of it at most: {}", adaptive.rate());
    }

    #[test]
    fn at_its_maximum_it_does_not_run_ahead() {
        let mut adaptive = Adaptive::new(at(0.0), 50.0, (5.0, 100.0));
        succeed(&mut adaptive, 0.0, 600.0);
        assert_eq!(adaptive.rate(), 100.0);
        adaptive.throttled(at(600.0), at(600.0));
        assert!((adaptive.rate() - 63.0).abs() < 1e-9);
    }

    #[test]
    fn a_rate_that_may_not_move_stays() {
        let mut adaptive = Adaptive::new(at(0.0), 100.0, (100.0, 100.0));
        assert!(!adaptive.throttled(at(1.0), at(1.0)));
        assert!(!adaptive.succeeded(at(2.0)));
        assert_eq!(adaptive.rate(), 100.0);
    }
}
