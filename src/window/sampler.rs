//! When a window closes, and how many requests are timed.
//!
//! A window closes once it has lasted [`Pace::min`] and holds [`Pace::samples`], or has lasted
//! [`Pace::max`]. The law sets the pace of the next one. At high rates only one request in
//! `one_in` is timed, as few as still fill a window; whoever brings the last sample closes it.

use std::time::Duration;

use super::{Sample, Unfinished, Window};
use crate::outcome::OutcomeCounts;
use crate::time::Nanos;

/// When the next window closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// It lasts at least this long.
    pub min: Duration,
    /// It is closed after this time, with however few samples. At least `min`.
    pub max: Duration,
    /// It holds at least this many samples, unless `max` comes first.
    pub samples: u32,
}

impl Pace {
    /// The first window's: short, since no law has said yet how long it needs.
    const FIRST: Pace = Pace { min: Duration::from_millis(10), max: Duration::from_millis(250), samples: 8 };
}

impl Default for Pace {
    fn default() -> Self {
        Self { min: Duration::from_millis(10), max: Duration::from_secs(1), samples: 32 }
    }
}

/// Running totals of a limiter, read when a window closes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests that finished, by outcome.
    pub finished: OutcomeCounts,
    /// Requests turned away because the limit was reached.
    pub turned_away: u64,
    /// Requests that had to wait for a place.
    pub waited: u64,
}

/// A stall: full, and nothing finished for this many typical latencies.
const STALL_LATENCIES: f64 = 4.0;
/// A stall is at least this long: scheduling noise is not one.
const STALL_AT_LEAST: Duration = Duration::from_millis(20);
/// Weight of the newest window in the typical latency and the drain rate.
const EWMA: f64 = 0.3;
/// Where a window sees more generations of requests than this, fewer of those in flight need be timed.
const MANY_GENERATIONS: f64 = 8.0;
/// At most one request in so many is skipped.
const MAX_ONE_IN: u32 = 1 << 16;

/// Collects samples and closes windows. Pure: the caller brings the time and the totals.
#[derive(Debug)]
pub struct Sampler {
    opened: Nanos,
    at_open: Totals,
    in_flight_open: u32,
    samples: Vec<Sample>,
    lost: u64,
    pace: Pace,
    one_in: u32,
    last_finish: Nanos,
    typical: f64,
    drain: f64,
    stalled: bool,
}

impl Sampler {
    /// The most samples that a window holds; further ones are counted and dropped.
    pub const MAX_SAMPLES: usize = 512;

    /// Opens the first window at `now`.
    pub fn new(now: Nanos) -> Self {
        Self {
            opened: now,
            at_open: Totals::default(),
            in_flight_open: 0,
            samples: Vec::with_capacity(Self::MAX_SAMPLES),
            lost: 0,
            pace: Pace::FIRST,
            one_in: 1,
            last_finish: now,
            typical: 0.0,
            drain: 0.0,
            stalled: false,
        }
    }

    /// Adds a finished request.
    pub fn push(&mut self, sample: Sample) {
        self.last_finish = self.last_finish.max(sample.end);
        if self.samples.len() < Self::MAX_SAMPLES {
            self.samples.push(sample);
        } else {
            self.lost += 1;
        }
    }

    /// Whether the window may close at `now`.
    pub fn is_due(&self, now: Nanos) -> bool {
        let lasted = now.since(self.opened);
        lasted >= self.pace.max || (lasted >= self.pace.min && self.samples.len() >= self.pace.samples as usize)
    }

    /// The window up to `now`. Call [`Sampler::reopen`] when the law has seen it.
    pub fn close<'a>(
        &'a mut self,
        now: Nanos,
        totals: &Totals,
        full: bool,
        in_flight: u32,
        unfinished: &'a Unfinished,
    ) -> Window<'a> {
        let finished = totals.finished.since(&self.at_open.finished);
        if finished.total() > 0 && self.samples.is_empty() {
            // Only untimed requests finished: some time in this window.
            self.last_finish = now;
        }
        let quiet = now.since(self.last_finish);
        self.learn(now, finished.total());
        self.stalled = full
            && self.typical > 0.0
            && quiet > STALL_AT_LEAST
            && quiet.as_secs_f64() > STALL_LATENCIES * self.typical;
        Window {
            opened: self.opened,
            closed: now,
            finished,
            turned_away: totals.turned_away.saturating_sub(self.at_open.turned_away),
            waited: totals.waited.saturating_sub(self.at_open.waited),
            in_flight_open: self.in_flight_open,
            in_flight_close: in_flight,
            one_in: self.one_in,
            samples: &self.samples,
            unfinished,
            quiet,
            stalled: self.stalled,
        }
    }

    /// Opens the next window at `now`, to be closed at `pace`.
    pub fn reopen(&mut self, now: Nanos, totals: &Totals, in_flight: u32, pace: Pace) {
        let finished = totals.finished.since(&self.at_open.finished).total();
        let rate = finished as f64 / now.since(self.opened).as_secs_f64().max(1e-9);
        self.pace = Pace { max: pace.max.max(pace.min), ..pace };
        // A burst of answers in a short window is no rate; and of those in flight some must be timed.
        let rate = rate.min(2.0 * self.drain).min(self.one_in_flight_rate(in_flight));
        self.one_in = one_in(rate, self.pace);
        self.opened = now;
        self.at_open = *totals;
        self.in_flight_open = in_flight;
        self.samples.clear();
    }

    /// The rate at which a quarter of those in flight would fill the windows.
    fn one_in_flight_rate(&self, in_flight: u32) -> f64 {
        let generations = self.pace.min.as_secs_f64() / (MANY_GENERATIONS * self.typical.max(1e-9));
        let spare = if self.typical > 0.0 { generations.max(1.0) } else { 1.0 };
        f64::from(in_flight.max(1)) / 4.0 * spare * wanted(self.pace)
    }

    fn learn(&mut self, now: Nanos, finished: u64) {
        let lasted = now.since(self.opened).as_secs_f64();
        if finished > 0 && lasted > 0.0 {
            let rate = finished as f64 / lasted;
            self.drain += if self.drain > 0.0 { EWMA * (rate - self.drain) } else { rate };
        }
        let (n, sum) = self
            .samples
            .iter()
            .filter(|s| s.outcome.is_latency())
            .fold((0_u32, 0.0), |(n, sum), s| (n + 1, sum + s.latency().as_secs_f64()));
        if n > 0 {
            let mean = sum / f64::from(n);
            self.typical += if self.typical > 0.0 { EWMA * (mean - self.typical) } else { mean };
        }
    }

    /// Typical latency in seconds; 0 before the first sample.
    pub fn typical_latency(&self) -> f64 {
        self.typical
    }

    /// Finished requests a second; 0 before the first window.
    pub fn drain_rate(&self) -> f64 {
        self.drain
    }

    /// One request in so many is to be timed: a power of two.
    pub fn one_in(&self) -> u32 {
        self.one_in
    }

    /// The pace of the open window.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// When the open window was opened.
    pub fn opened(&self) -> Nanos {
        self.opened
    }

    /// Samples dropped because a window was full of them.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Whether the last window ended in a stall.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }
}

/// The largest power of two that still fills a window twice over at `rate` finished a second.
fn one_in(rate: f64, pace: Pace) -> u32 {
    let ratio = (rate / wanted(pace)).clamp(1.0, f64::from(MAX_ONE_IN));
    1 << (ratio.log2().floor() as u32)
}

/// Timed requests a second that fill a window twice over.
fn wanted(pace: Pace) -> f64 {
    2.0 * f64::from(pace.samples.max(1)) / pace.min.as_secs_f64().max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;

    const MS: u64 = 1_000_000;

    fn sample(start_ms: u64, end_ms: u64) -> Sample {
        Sample { start: Nanos(start_ms * MS), end: Nanos(end_ms * MS), in_flight: 1, outcome: Outcome::Success }
    }

    fn totals(success: u64, turned_away: u64) -> Totals {
        let mut finished = OutcomeCounts::default();
        finished.add(Outcome::Success, success);
        Totals { finished, turned_away, waited: 0 }
    }

    #[test]
    fn closes_by_samples_after_the_shortest_time_or_by_the_longest_time() {
        let mut sampler = Sampler::new(Nanos(0));
        for i in 0..8 {
            sampler.push(sample(0, i));
        }
        assert!(!sampler.is_due(Nanos(9 * MS)), "too short");
        assert!(sampler.is_due(Nanos(10 * MS)), "long enough and full");
        assert!(!Sampler::new(Nanos(0)).is_due(Nanos(249 * MS)), "too few");
        assert!(Sampler::new(Nanos(0)).is_due(Nanos(250 * MS)), "too old to wait for more");
    }

    #[test]
    fn counts_are_those_since_the_window_opened() {
        let mut sampler = Sampler::new(Nanos(0));
        let unfinished = Unfinished::default();
        sampler.close(Nanos(MS), &totals(10, 3), false, 0, &unfinished);
        sampler.reopen(Nanos(MS), &totals(10, 3), 0, Pace::default());
        let window = sampler.close(Nanos(2 * MS), &totals(15, 4), false, 0, &unfinished);
        assert_eq!((window.finished.total(), window.turned_away), (5, 1));
    }

    #[test]
    fn high_rates_time_few_requests_and_low_rates_all() {
        let pace = Pace::default();
        assert_eq!(one_in(100.0, pace), 1);
        assert_eq!(one_in(6_400.0, pace), 1);
        assert_eq!(one_in(30e6, pace), 4096);
    }

    #[test]
    fn a_tight_loop_is_hardly_timed_and_a_slow_service_keeps_a_quarter_in_view() {
        for (latency_ms, in_flight, per_second, fewest, most) in
            [(0, 1, 20_000_000, 1024, 4096), (1, 50, 50_000, 1, 12), (1000, 8, 100_000, 1, 2)]
        {
            let mut sampler = Sampler::new(Nanos(0));
            let unfinished = Unfinished::default();
            for i in 0..32 {
                let start = Nanos(i * MS);
                let end = if latency_ms == 0 { Nanos(start.0 + 50) } else { Nanos(start.0 + latency_ms * MS) };
                sampler.push(Sample { start, end, in_flight, outcome: Outcome::Success });
            }
            let (now, all) = (Nanos(1_000 * MS), totals(per_second, 0));
            sampler.close(now, &all, false, in_flight, &unfinished);
            sampler.reopen(now, &all, in_flight, Pace::default());
            assert!((fewest..=most).contains(&sampler.one_in()), "{latency_ms} ms: one in {}", sampler.one_in());
        }
    }

    #[test]
    fn a_stall_is_full_and_quiet_for_several_latencies() {
        let mut sampler = Sampler::new(Nanos(0));
        let unfinished = Unfinished::default();
        sampler.push(sample(0, 50));
        sampler.close(Nanos(50 * MS), &totals(1, 0), true, 5, &unfinished);
        sampler.reopen(Nanos(50 * MS), &totals(1, 0), 5, Pace::default());
        assert!(!sampler.close(Nanos(200 * MS), &totals(1, 0), true, 5, &unfinished).stalled, "three latencies");
        assert!(!sampler.close(Nanos(300 * MS), &totals(1, 0), false, 5, &unfinished).stalled, "not full");
        assert!(sampler.close(Nanos(300 * MS), &totals(1, 0), true, 5, &unfinished).stalled, "five latencies, full");
    }

    #[test]
    fn a_flood_of_samples_is_bounded_and_counted() {
        let mut sampler = Sampler::new(Nanos(0));
        for _ in 0..Sampler::MAX_SAMPLES + 7 {
            sampler.push(sample(0, 1));
        }
        assert_eq!(sampler.lost(), 7);
    }
}
