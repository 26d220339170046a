//! A window: a short closed stretch of traffic, summed up for a law.
//!
//! Counts are exact. Latencies come as samples: at low rates every request is one, at high rates
//! one request in [`Window::one_in`]. A sample carries the in-flight level that its request met
//! at admission, so a law can ask how latency depends on the level. Requests that have not
//! finished are there too, by level, as a count and their summed age.

mod sampler;
mod unfinished;

pub use sampler::{Pace, Sampler, Totals};
pub use unfinished::{LEVELS, Unfinished, level_of, level_value};

use std::time::Duration;

use crate::outcome::{Outcome, OutcomeCounts};
use crate::time::Nanos;

/// One timed request that has finished.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it was admitted.
    pub start: Nanos,
    /// When its latency was taken (response head, or end).
    pub end: Nanos,
    /// Units in flight right after its own admission, its own weight included.
    pub in_flight: u32,
    /// How it ended.
    pub outcome: Outcome,
}

impl Sample {
    /// How long it took; zero when the clock stepped back.
    pub fn latency(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// What a law is told. Everything is about the stretch from `opened` to `closed`.
#[derive(Clone, Debug)]
pub struct Window<'a> {
    /// When it was opened.
    pub opened: Nanos,
    /// When it was closed: "now" for the law.
    pub closed: Nanos,
    /// Requests that finished, by outcome. Exact.
    pub finished: OutcomeCounts,
    /// Requests turned away because the limit was reached. Exact.
    pub turned_away: u64,
    /// Requests that had to wait for a place because the limit was reached. Exact.
    pub waited: u64,
    /// Units in flight when the window opened.
    pub in_flight_open: u32,
    /// Units in flight when it closed.
    pub in_flight_close: u32,
    /// One request in so many was timed.
    pub one_in: u32,
    /// The timed requests that finished, in the order of their end.
    pub samples: &'a [Sample],
    /// The timed requests that have not finished.
    pub unfinished: &'a Unfinished,
    /// How long nothing has finished, up to `closed`.
    pub quiet: Duration,
    /// Full, and nothing has finished for several typical latencies.
    pub stalled: bool,
}

impl Window<'_> {
    /// How long the window was.
    pub fn duration(&self) -> Duration {
        self.closed.since(self.opened)
    }

    /// Requests that finished or were turned away.
    pub fn arrivals(&self) -> u64 {
        self.finished.total() + self.turned_away
    }

    /// Share of arrivals that met a reached limit (turned away, or made to wait), `0.0..=1.0`.
    ///
    /// A law grows the limit only when this says that the limit was what bound.
    pub fn bound_share(&self) -> f64 {
        let met = (self.turned_away + self.waited) as f64;
        met / (self.arrivals() as f64).max(met).max(1.0)
    }

    /// Latencies of the requests that were served, in seconds.
    pub fn latencies(&self) -> impl Iterator<Item = f64> + '_ {
        self.samples.iter().filter(|s| s.outcome.is_latency()).map(|s| s.latency().as_secs_f64())
    }

    /// Mean latency of the requests that were served, in seconds; `None` without samples.
    pub fn mean_latency(&self) -> Option<f64> {
        let (n, sum) = self.latencies().fold((0_u32, 0.0), |(n, sum), x| (n + 1, sum + x));
        (n > 0).then(|| sum / f64::from(n))
    }

    /// The highest in-flight level that a timed request met, or the level at either end.
    pub fn peak_in_flight(&self) -> u32 {
        let sampled = self.samples.iter().map(|s| s.in_flight).max().unwrap_or(0);
        sampled.max(self.in_flight_open).max(self.in_flight_close)
    }
}
