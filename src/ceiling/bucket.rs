//! The bucket's arithmetic: how much a rate has allowed so far, and what of it is used.
//!
//! A generic cell rate algorithm (ITU-T I.371) in units instead of times. A [`Pace`] is a line: the
//! units that the rate has allowed up to a moment. A [`Level`] is the point on that line up to which
//! units are used. What is used beyond the present is owed; at most a burst may be owed. A change of
//! the rate bends the line and leaves the level alone, so it neither forgives what is owed nor gives
//! anything for nothing. Whole numbers only, so that a promised wait is exact to the nanosecond.

use std::time::Duration;

use crate::time::Nanos;

/// The smallest rate, in units a second: some nine a day.
pub const MIN_RATE: f64 = 0.0001;
/// The largest rate, in units a second.
pub const MAX_RATE: f64 = 10_000_000.0;
/// The largest burst and the largest charge, in units.
pub const MAX_UNITS: u32 = 1 << 30;

/// A unit in fixed point. Sums wrap around; only differences count, and they stay far below half.
const UNIT: u64 = 1 << 16;
/// Binary places of the slope, which is in fixed-point units a nanosecond.
const PLACES: u32 = 48;

/// How much is used: a point on the line of what was allowed. One word, so that it can be swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level(pub u64);

/// Rate and burst from some moment on, and what had been allowed until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    pub(super) since: Nanos,
    pub(super) allowed: u64,
    pub(super) slope: u64,
    pub(super) burst: u64,
}

impl Pace {
    /// A line that begins at `now`. `rate` is held within [`MIN_RATE`] and [`MAX_RATE`]; `burst`, in
    /// units, is at least 1.
    pub fn new(now: Nanos, rate: f64, burst: f64) -> Self {
        Self { since: now, allowed: 0, slope: slope(rate), burst: fixed(burst) }
    }

    /// The line bent at `now`. A larger burst fills at the rate: see [`Pace::widened`].
    #[must_use]
    pub fn bent(&self, now: Nanos, rate: f64, burst: f64) -> Self {
        let since = now.max(self.since);
        Self { since, allowed: self.allowed(now), slope: slope(rate), burst: fixed(burst) }
    }

    /// The level for the line `next`, so that a larger burst gives nothing at once.
    #[must_use]
    pub fn widened(&self, level: Level, now: Nanos, next: &Pace) -> Level {
        let allowed = next.allowed(now);
        let used = allowed.wrapping_add(self.owed_fixed(level, now));
        Level(used.wrapping_add(next.burst.saturating_sub(self.burst)))
    }

    /// A level that owes nothing: a whole burst may come.
    pub fn full(&self, now: Nanos) -> Level {
        Level(self.allowed(now))
    }

    /// A level that owes a whole burst: what comes next has to wait.
    pub fn empty(&self, now: Nanos) -> Level {
        Level(self.allowed(now).wrapping_add(self.burst))
    }

    /// Takes `units` at `now`, or says exactly how long until they can be had if nobody else comes.
    ///
    /// More than the burst can be had only by one who meets a bucket that owes nothing.
    ///
    /// # Errors
    /// The wait, more than zero.
    #[inline]
    pub fn take(&self, level: Level, now: Nanos, units: u32) -> Result<Level, Duration> {
        let (allowed, owed, want) = (self.allowed(now), self.owed_fixed(level, now), u64::from(units) * UNIT);
        let most = self.burst.max(want);
        if owed + want <= most {
            return Ok(Level(allowed.wrapping_add(owed + want)));
        }
        Err(self.time_to(now, allowed.wrapping_add(owed + want - most)))
    }

    /// How long until `units` can be had behind `ahead` units that are to come first.
    pub fn wait(&self, level: Level, now: Nanos, ahead: u64, units: u32) -> Duration {
        let (allowed, owed, want) = (self.allowed(now), self.owed_fixed(level, now), u64::from(units) * UNIT);
        let before = owed.saturating_add(ahead.saturating_mul(UNIT)).min(u64::MAX / 4);
        let most = self.burst.max(want);
        if before + want <= most {
            Duration::ZERO
        } else {
            self.time_to(now, allowed.wrapping_add(before + want - most))
        }
    }

    /// Notes `units` that were had elsewhere; never owes more than the burst.
    #[must_use]
    pub fn charge(&self, level: Level, now: Nanos, units: u64) -> Level {
        let owed = self.owed_fixed(level, now).saturating_add(units.saturating_mul(UNIT));
        Level(self.allowed(now).wrapping_add(owed.min(self.burst)))
    }

    /// Gives back `units` whose taking had led to the level `end`. What time has paid off of them
    /// meanwhile is gone: it made room for others already.
    #[must_use]
    pub fn refund(&self, level: Level, now: Nanos, end: Level, units: u32) -> Level {
        let unpaid = self.owed_fixed(end, now).min(u64::from(units) * UNIT);
        Level(self.allowed(now).wrapping_add(self.owed_fixed(level, now).saturating_sub(unpaid)))
    }

    /// Units owed at `now`.
    pub fn owed(&self, level: Level, now: Nanos) -> f64 {
        self.owed_fixed(level, now) as f64 / UNIT as f64
    }

    /// Units a second.
    pub fn rate(&self) -> f64 {
        self.slope as f64 / (1u64 << PLACES) as f64 / UNIT as f64 * 1e9
    }

    /// Units that may be owed.
    pub fn burst(&self) -> f64 {
        self.burst as f64 / UNIT as f64
    }

    #[inline]
    fn allowed(&self, now: Nanos) -> u64 {
        let ns = now.0.saturating_sub(self.since.0);
        self.allowed.wrapping_add(((u128::from(ns) * u128::from(self.slope)) >> PLACES) as u64)
    }

    #[inline]
    fn owed_fixed(&self, level: Level, now: Nanos) -> u64 {
        (level.0.wrapping_sub(self.allowed(now)) as i64).max(0) as u64
    }

    /// From `now` until the line reaches `target`.
    #[cold]
    fn time_to(&self, now: Nanos, target: u64) -> Duration {
        let more = u128::from(target.wrapping_sub(self.allowed));
        let ns = (more << PLACES).div_ceil(u128::from(self.slope));
        let at = self.since + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
        at.since(now)
    }
}

fn slope(rate: f64) -> u64 {
    let rate = if rate.is_nan() { MIN_RATE } else { rate.clamp(MIN_RATE, MAX_RATE) };
    // Rounded down: never more than was asked for.
    (rate * UNIT as f64 * (1u64 << PLACES) as f64 / 1e9) as u64
}

fn fixed(burst: f64) -> u64 {
    (burst.clamp(1.0, f64::from(MAX_UNITS)) * UNIT as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEC: u64 = 1_000_000_000;

    fn at(secs: f64) -> Nanos {
        Nanos::from_secs_f64(secs)
    }

    fn millis(refused: Result<Level, Duration>) -> u128 {
        refused.expect_err("too much is owed").as_millis()
    }

    /// Takes as many single units as can be had at `now`.
    fn drain(pace: &Pace, level: &mut Level, now: Nanos) -> u32 {
        let mut had = 0;
        while let Ok(next) = pace.take(*level, now, 1) {
            *level = next;
            had += 1;
        }
        had
    }

    #[test]
    fn a_burst_at_once_and_then_the_rate() {
        let pace = Pace::new(at(1.0), 100.0, 10.0);
        let mut level = pace.full(at(1.0));
        assert_eq!(drain(&pace, &mut level, at(1.0)), 10);
        assert_eq!(drain(&pace, &mut level, at(2.0)), 10, "no more than a burst is saved up");
        assert_eq!(drain(&pace, &mut level, at(2.055)), 5);
    }

    #[test]
    fn a_higher_rate_gives_nothing_at_once_and_a_lower_forgives_nothing() {
        let pace = Pace::new(at(0.0), 100.0, 10.0);
        let mut level = pace.full(at(0.0));
        drain(&pace, &mut level, at(0.0));
        let faster = pace.bent(at(0.0), 1000.0, 10.0);
        level = pace.widened(level, at(0.0), &faster);
        assert_eq!(drain(&faster, &mut level, at(0.0)), 0);
        assert_eq!(drain(&faster, &mut level, at(0.00501)), 5);
        let slower = faster.bent(at(0.00501), 1.0, 10.0);
        level = faster.widened(level, at(0.00501), &slower);
        assert!((slower.owed(level, at(0.00501)) - 10.0).abs() < 0.01);
        assert_eq!(millis(slower.take(level, at(0.00501), 1)), 990);
    }

    #[test]
    fn a_larger_burst_fills_at_the_rate() {
        let pace = Pace::new(at(0.0), 100.0, 10.0);
        let level = pace.full(at(0.0));
        let wider = pace.bent(at(5.0), 100.0, 50.0);
        let mut level = pace.widened(level, at(5.0), &wider);
        assert_eq!(drain(&wider, &mut level, at(5.0)), 10, "what could be had before");
        assert_eq!(drain(&wider, &mut level, at(5.201)), 20);
    }

    #[test]
    fn a_refund_gives_back_what_time_has_not_paid_off() {
        let pace = Pace::new(at(0.0), 1.0, 3.0);
        let first = pace.take(pace.full(at(0.0)), at(0.0), 3).expect("full");
        let mut level = pace.refund(first, at(0.0), first, 2);
        assert_eq!(drain(&pace, &mut level, at(0.0)), 2);
        level = pace.refund(first, at(1.0), first, 3);
        assert_eq!(drain(&pace, &mut level, at(1.0)), 3, "one of them was paid off");
        let mut others = pace.full(at(100.0));
        assert_eq!(drain(&pace, &mut others, at(100.0)), 3);
        level = pace.refund(others, at(100.0), first, 3);
        assert_eq!(drain(&pace, &mut level, at(100.0)), 0, "all of them were paid off long ago");
    }

    #[test]
    fn more_than_a_burst_is_had_by_one_who_finds_nothing_owed() {
        let pace = Pace::new(at(0.0), 10.0, 5.0);
        let level = pace.full(at(0.0));
        let level = pace.take(level, at(0.0), 20).expect("nothing was owed");
        assert_eq!(millis(pace.take(level, at(0.0), 1)), 1600);
        assert_eq!(millis(pace.take(level, at(0.0), 20)), 2000);
    }

    #[test]
    fn a_clock_that_steps_back_prints_nothing() {
        let pace = Pace::new(at(10.0), 2.0, 4.0);
        let mut level = pace.full(at(10.0));
        let had = drain(&pace, &mut level, at(10.0)) + drain(&pace, &mut level, at(0.0));
        assert_eq!(had + drain(&pace, &mut level, at(10.0)), 4);
    }

    #[test]
    fn very_slow_rates_and_long_times_stay_exact() {
        let pace = Pace::new(Nanos(0), 1.0 / 3600.0, 1.0);
        let level = pace.take(pace.full(Nanos(0)), Nanos(0), 1).expect("full");
        let wait = pace.take(level, Nanos(0), 1).expect_err("owed");
        assert!((wait.as_secs_f64() - 3600.0).abs() < 1.0, "{wait:?}");
        let fast = Pace::new(Nanos(0), MAX_RATE, 1.0);
        let late = Nanos(150 * 24 * 3600 * SEC);
        assert_eq!(drain(&fast, &mut fast.full(Nanos(0)), late), 1, "150 days idle at the largest rate");
    }

    #[derive(Clone, Copy, Debug)]
    enum Operation {
        Pass(u64),
        Take(u32),
        Refund(u32),
        Rate(f64),
    }

    fn operations() -> impl Strategy<Value = Vec<Operation>> {
        let one = prop_oneof![
            (0..2 * SEC).prop_map(Operation::Pass),
            (1..5u32).prop_map(Operation::Take),
            (1..5u32).prop_map(Operation::Take),
            Just(Operation::Refund(2)),
            (0.5..200.0).prop_map(Operation::Rate),
        ];
        prop::collection::vec(one, 1..200)
    }

    proptest! {
        #[test]
        fn never_more_than_the_line_plus_a_burst_and_waits_are_exact(operations in operations()) {
            let burst = 8.0;
            let mut pace = Pace::new(Nanos(0), 10.0, burst);
            let (mut level, mut now, mut used, mut line) = (pace.full(Nanos(0)), Nanos(0), 0.0, 0.0);
            let mut last = None;
            for operation in operations {
                match operation {
                    Operation::Pass(ns) => {
                        line += pace.rate() * ns as f64 * 1e-9;
                        now = now + Duration::from_nanos(ns);
                    }
                    Operation::Take(units) => match pace.take(level, now, units) {
                        Ok(next) => {
                            level = next;
                            last = (units == 2).then_some(next);
                            used += f64::from(units);
                        }
                        Err(wait) => {
                            prop_assert!(wait > Duration::ZERO);
                            prop_assert!(pace.take(level, now + wait, units).is_ok());
                            let early = wait - Duration::from_nanos(1);
                            prop_assert!(early.is_zero() || pace.take(level, now + early, units).is_err());
                        }
                    },
                    Operation::Refund(units) => if let Some(end) = last.take() {
                        level = pace.refund(level, now, end, units);
                        used -= f64::from(units);
                    }
                    Operation::Rate(rate) => {
                        let next = pace.bent(now, rate, burst);
                        level = pace.widened(level, now, &next);
                        pace = next;
                    }
                }
                prop_assert!(used <= line + burst + 0.01, "used {used}, allowed {line}");
            }
        }
    }
}
