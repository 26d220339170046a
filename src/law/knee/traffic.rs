//! The traffic around the law: mean latency, gaps between answers, stalls, whether the limit binds.

use crate::time::Nanos;
use crate::window::{Sample, Window};

/// The mean latency forgets over so many samples.
const MEMORY: f64 = 40.0;
/// The limit binds when more than this share of arrivals met it reached, over [`BOUND_MEMORY`].
const BOUND: f64 = 0.05;
const BOUND_MEMORY: f64 = 24.0;
/// A stall: no answer for a mean latency and for so many mean gaps.
const STALL_GAPS: f64 = 12.0;

#[derive(Clone, Debug)]
pub(super) struct Traffic {
    beat: f64,
    seen: f64,
    spent: f64,
    waited: f64,
    gap: f64,
    last: Nanos,
    stalled_until: Nanos,
    counted: f64,
    bound: f64,
    in_flight: f64,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self {
            beat: 0.0,
            seen: 0.0,
            spent: 0.0,
            waited: 0.0,
            gap: 0.0,
            last: Nanos(0),
            stalled_until: Nanos(0),
            counted: 0.0,
            bound: 0.0,
            in_flight: 1.0,
        }
    }

    /// Follows the stream of answers; whether this one can be used (it waited through no stall).
    pub(super) fn follow(&mut self, sample: &Sample, _one_in: u32) -> bool {
        let gap = sample.end.since(self.last).as_secs_f64();
        if self.last > Nanos(0) && self.is_stall(gap) {
            self.stalled_until = sample.end;
        } else if self.last > Nanos(0) {
            let share = if self.gap > 0.0 { 1.0 / MEMORY } else { 1.0 };
            self.gap += share * (gap - self.gap);
        }
        self.last = self.last.max(sample.end);
        self.in_flight += (f64::from(sample.in_flight) - self.in_flight) / MEMORY;
        sample.start >= self.stalled_until
    }

    fn is_stall(&self, gap: f64) -> bool {
        self.seen > STALL_GAPS && gap > self.beat.max(STALL_GAPS * self.gap)
    }

    /// The latency of a request that was served or timed out.
    pub(super) fn count_latency(&mut self, latency: f64, weight: f64) {
        let kept = 1.0 - weight / MEMORY;
        self.seen = kept * self.seen + weight;
        self.spent = kept * self.spent + weight * latency;
        self.waited *= kept;
        self.counted += weight;
    }

    /// Time that unfinished requests have waited since the last window: without it the short ones,
    /// which come back first, would make the beat too fast.
    pub(super) fn count_waited(&mut self, more: f64, mean_age: f64) {
        self.waited += more;
        if self.seen >= 1.0 {
            let ended = self.spent / self.seen;
            // Nothing takes much longer than what has ended or still waits.
            let most = 2.0 * ended.max(2.0 * mean_age);
            self.beat = ((self.spent + self.waited) / self.seen).clamp(0.5 * ended, most);
        }
    }

    /// Samples counted so far, by weight.
    pub(super) fn counted(&self) -> f64 {
        self.counted
    }

    pub(super) fn observe(&mut self, window: &Window<'_>) {
        let arrivals = window.arrivals() as f64;
        self.bound += (1.0 - (-arrivals / BOUND_MEMORY).exp()) * (window.bound_share() - self.bound);
        if self.seen < 1.0 {
            // Nothing ended yet: waiting times follow the windows.
            self.beat = window.duration().as_secs_f64();
        }
    }

    /// Whether ages of waiting requests tell about a stall rather than about load.
    pub(super) fn is_after_stall(&self, window: &Window<'_>) -> bool {
        let since = window.closed.since(self.stalled_until).as_secs_f64();
        self.is_stall(window.closed.since(self.last).as_secs_f64())
            || (self.stalled_until > Nanos(0) && since < 2.0 * self.beat)
    }

    /// Mean latency in seconds, the unit of waiting times; above 0.
    pub(super) fn beat(&self) -> f64 {
        self.beat.max(1e-6)
    }

    pub(super) fn is_bound(&self) -> bool {
        self.bound > BOUND
    }

    pub(super) fn bound(&self) -> f64 {
        self.bound
    }

    /// Mean in flight that requests met.
    pub(super) fn in_flight(&self) -> f64 {
        self.in_flight
    }
}
