//! Whether things got worse after a change: rates before and after it, compared by a test. Pure.
//!
//! A rate counts as worse when both hold: it rose by more than the allowed rise, and chance would
//! show such a rise too seldom. Given how many events there were in all, each fell into the time
//! after the change with the probability that this time's share of the requests gives (a binomial,
//! which is the conditional test of two Poisson rates, and errs on the careful side for large
//! rates). The allowed error is shared out over all looks and all four rates (Bonferroni), so the
//! confidence is that of the whole bake time.
//!
//! The tail of the latency goes by the same test: how many requests were slower than what 99 in 100
//! stayed below before, widened by the allowed rise.

use std::fmt;

use statrs::distribution::{Binomial, DiscreteCDF};

use crate::limiter::Snapshot;
use crate::outcome::Outcome;

/// What is compared of a limiter: counters since its beginning, or over some time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that finished, those that were cancelled aside.
    pub finished: u64,
    /// Those among them that found the downstream broken.
    pub faults: u64,
    /// Those among them that were throttled or found the downstream overloaded.
    pub throttles: u64,
    /// Requests that were refused here.
    pub rejections: u64,
    /// Latencies: upper end of the bucket in microseconds (`u64::MAX` for the last), and how many.
    pub latency: Vec<(u64, u64)>,
    /// One request in so many was timed: so many fewer latencies were really seen.
    pub timed_one_in: u64,
}

impl Counts {
    /// The counters of a snapshot.
    pub fn of(now: &Snapshot) -> Self {
        let of = |outcome| now.finished.of(outcome);
        // Infinity becomes u64::MAX.
        let micros = |end: f64| (end * 1e6).round() as u64;
        Self {
            finished: now.finished.total() - of(Outcome::Cancelled),
            faults: of(Outcome::Fault),
            throttles: of(Outcome::Throttled) + of(Outcome::Overloaded),
            rejections: now.rejected_total(),
            latency: now.latency.buckets().map(|(end, n)| (micros(end), n)).collect(),
            timed_one_in: now.timed_one_in.max(1),
        }
    }

    /// What came since `earlier`, a reading of the same limiter.
    pub fn since(&self, earlier: &Self) -> Self {
        let earlier_bucket = |i: usize| earlier.latency.get(i).map_or(0, |(_, n)| *n);
        let latency = self.latency.iter().enumerate();
        Self {
            finished: self.finished.saturating_sub(earlier.finished),
            faults: self.faults.saturating_sub(earlier.faults),
            throttles: self.throttles.saturating_sub(earlier.throttles),
            rejections: self.rejections.saturating_sub(earlier.rejections),
            latency: latency.map(|(i, (end, n))| (*end, n.saturating_sub(earlier_bucket(i)))).collect(),
            timed_one_in: self.timed_one_in.max(earlier.timed_one_in).max(1),
        }
    }

    /// How many latencies were really seen, of those at or below the bucket end, and of those above.
    fn around(&self, end: u64) -> (u64, u64) {
        let sum = |above: bool| -> u64 {
            self.latency.iter().filter(|(e, _)| (*e > end) == above).map(|(_, n)| n / self.timed_one_in.max(1)).sum()
        };
        (sum(false), sum(true))
    }

    /// The bucket end that 99 in 100 stay below.
    fn p99(&self) -> Option<u64> {
        let all: u64 = self.latency.iter().map(|(_, n)| n).sum();
        let mut seen = 0;
        let p99 = self.latency.iter().find(|(_, n)| {
            seen += n;
            seen * 100 >= all * 99
        });
        p99.filter(|_| all > 0).map(|(end, _)| *end)
    }
}

/// How much worse is allowed, and how sure it must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// Allowed rise of the 99th percentile of latency, as a share of what it was.
    pub p99: f64,
    /// Allowed rise of the share of requests that end in a fault.
    pub faults: f64,
    /// Allowed rise of the share of requests that are throttled.
    pub throttles: f64,
    /// Allowed rise of the share of requests that are refused here.
    pub rejections: f64,
    /// Probability not to take chance for a change, over the whole bake time.
    pub confidence: f64,
}

impl Default for Thresholds {
    /// p99 by half, faults and throttles by one in a hundred, rejections by five; confidence 0.99.
    fn default() -> Self {
        Self { p99: 0.5, faults: 0.01, throttles: 0.01, rejections: 0.05, confidence: 0.99 }
    }
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rate {
    /// Requests slower than the 99th percentile before, with the allowed rise.
    Slow,
    /// Requests that end in a fault.
    Faults,
    /// Requests that are throttled.
    Throttles,
    /// Requests that are refused here.
    Rejections,
}

impl Rate {
    /// How many are compared.
    const COUNT: f64 = 4.0;

    /// As it stands in records and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "p99",
            Self::Faults => "faults",
            Self::Throttles => "throttles",
            Self::Rejections => "rejections",
        }
    }
}

/// A rate that is worse than before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worse {
    /// Which.
    pub rate: Rate,
    /// The share before, and of how many.
    pub before: (f64, u64),
    /// The share after, and of how many.
    pub after: (f64, u64),
    /// Probability that chance shows such a rise.
    pub p: f64,
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.rate {
            Rate::Slow => "slower than the p99 before allows",
            Rate::Faults => "faults",
            Rate::Throttles => "throttled",
            Rate::Rejections => "refused",
        };
        let ((before, n_before), (after, n_after)) = (self.before, self.after);
        let (before, after) = (before * 100.0, after * 100.0);
        write!(f, "{what}: {after:.2} % of {n_after}, before {before:.2} % of {n_before}, p = {:.1e}", self.p)
    }
}

/// What got worse, when `looks` such comparisons are made in all. Nothing, when there was no traffic
/// before: then there is nothing to compare with.
pub fn compare(before: &Counts, after: &Counts, allowed: &Thresholds, looks: u32) -> Vec<Worse> {
    let alpha = (1.0 - allowed.confidence) / (Rate::COUNT * f64::from(looks.max(1)));
    let arrived = |counts: &Counts| counts.finished + counts.rejections;
    let mut rates = vec![
        (Rate::Faults, (before.faults, before.finished), (after.faults, after.finished), allowed.faults),
        (Rate::Throttles, (before.throttles, before.finished), (after.throttles, after.finished), allowed.throttles),
        (
            Rate::Rejections,
            (before.rejections, arrived(before)),
            (after.rejections, arrived(after)),
            allowed.rejections,
        ),
    ];
    if let Some(p99) = before.p99() {
        let end = (p99 as f64 * (1.0 + allowed.p99)) as u64;
        let slow = |counts: &Counts| {
            let (below, above) = counts.around(end);
            (above, below + above)
        };
        let (before, after) = (slow(before), slow(after));
        // So that the percentile itself has risen: more than one in a hundred is above.
        let rise = (0.01 - share(before)).max(0.0);
        rates.push((Rate::Slow, before, after, rise));
    }
    rates.into_iter().filter_map(|(rate, before, after, rise)| worse(rate, before, after, rise, alpha)).collect()
}

fn worse(rate: Rate, before: (u64, u64), after: (u64, u64), rise: f64, alpha: f64) -> Option<Worse> {
    let p = by_chance(before, after);
    let rose = share(after) - share(before) > rise;
    (rose && p < alpha).then(|| Worse { rate, before: (share(before), before.1), after: (share(after), after.1), p })
}

fn share((events, all): (u64, u64)) -> f64 {
    if all == 0 { 0.0 } else { events as f64 / all as f64 }
}

/// The probability that so many events, or more, fall into the time after, when the rate is the same.
fn by_chance((events_before, before): (u64, u64), (events_after, after): (u64, u64)) -> f64 {
    if events_after == 0 || before == 0 {
        return 1.0;
    }
    let part = after as f64 / (before + after) as f64;
    Binomial::new(part, events_before + events_after).map_or(1.0, |binomial| binomial.sf(events_after - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(finished: u64, faults: u64, rejections: u64, slow: u64) -> Counts {
        Counts {
            finished,
            faults,
            throttles: 0,
            rejections,
            latency: vec![(10_000, finished - slow), (15_000, 0), (20_000, 0), (100_000, slow), (u64::MAX, 0)],
            timed_one_in: 1,
        }
    }

    fn rates(before: &Counts, after: &Counts) -> Vec<Rate> {
        compare(before, after, &Thresholds::default(), 30).into_iter().map(|worse| worse.rate).collect()
    }

    #[test]
    fn the_same_rates_are_not_worse() {
        let steady = counts(10_000, 50, 100, 20);
        assert_eq!(rates(&steady, &steady), []);
        assert_eq!(rates(&steady, &counts(1000, 6, 12, 3)), []);
    }

    #[test]
    fn each_rate_shows_when_it_rises_clearly() {
        let before = counts(10_000, 50, 100, 20);
        assert_eq!(rates(&before, &counts(2000, 100, 20, 4)), [Rate::Faults]);
        assert_eq!(rates(&before, &counts(2000, 10, 400, 4)), [Rate::Rejections]);
        assert_eq!(rates(&before, &counts(2000, 10, 20, 200)), [Rate::Slow]);
        let throttled = Counts { throttles: 200, ..counts(2000, 10, 20, 4) };
        assert_eq!(rates(&before, &throttled), [Rate::Throttles]);
    }

    #[test]
    fn a_few_events_are_no_evidence_and_a_small_rise_is_allowed() {
        let before = counts(1000, 0, 0, 0);
        assert_eq!(rates(&before, &counts(20, 1, 0, 0)), [], "one fault in twenty");
        let (before, after) = (counts(1_000_000, 1000, 0, 0), counts(1_000_000, 3000, 0, 0));
        assert_eq!(rates(&before, &after), [], "certain, and below the allowed rise");
    }

    #[test]
    fn without_traffic_before_or_after_nothing_is_worse() {
        let (none, bad) = (Counts::default(), counts(1000, 500, 500, 500));
        assert_eq!(rates(&none, &bad), []);
        assert_eq!(rates(&bad, &none), []);
    }

    #[test]
    fn latencies_that_stand_for_many_requests_count_as_the_few_that_were_seen() {
        let thin = |counts: Counts| Counts { timed_one_in: 100, ..counts };
        let (before, after) = (counts(100_000, 0, 0, 200), counts(3000, 0, 0, 100));
        assert_eq!(rates(&before, &after), [Rate::Slow]);
        assert_eq!(rates(&thin(before), &thin(after)), [], "one slow request was seen");
    }

    /// The confidence is kept: runs in which nothing changed are taken for worse at most as often as
    /// it says, with many looks at growing counts.
    #[test]
    fn false_alarms_stay_below_what_the_confidence_allows() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let mut draw = |n: u64, p: f64| (0..n).filter(|_| random() < p).count() as u64;
        let allowed = Thresholds { faults: 0.0, confidence: 0.9, ..Thresholds::default() };
        let mut alarms = 0;
        for _ in 0..300 {
            let before = counts(2000, draw(2000, 0.02), 0, 0);
            let mut after = counts(0, 0, 0, 0);
            let mut alarmed = false;
            for _ in 0..10 {
                after.finished += 200;
                after.faults += draw(200, 0.02);
                alarmed |= !compare(&before, &after, &allowed, 10).is_empty();
            }
            alarms += u32::from(alarmed);
        }
        assert!(alarms <= 30, "{alarms} of 300");
    }

    #[test]
    fn the_probability_is_that_of_the_binomial() {
        // Of four events all fall into the half after: 1/16.
        assert!((by_chance((0, 100), (4, 100)) - 0.0625).abs() < 1e-9);
        // Three or more of four: 5/16.
        assert!((by_chance((1, 100), (3, 100)) - 0.3125).abs() < 1e-9);
    }

    #[test]
    fn a_difference_of_readings_is_what_came_between() {
        let (early, late) = (counts(100, 5, 10, 1), counts(300, 7, 40, 4));
        let between = late.since(&early);
        assert_eq!((between.finished, between.faults, between.rejections), (200, 2, 30));
        assert_eq!(between.around(20_000), (197, 3));
        assert_eq!(early.since(&late).finished, 0, "a limiter that was made anew counts from its beginning");
    }
}
