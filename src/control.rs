//! Control: from a due window to an applied limit.
//!
//! One plain value owns the sampler, the law, the bounds and the fractional limit, so that the
//! limiter and the simulator decide by the same lines. It decides when a window is due, what the
//! law is told, and how its answer is clamped, rounded and recorded. It does not count requests,
//! read clocks or admit anybody: the caller brings the time and the totals, and puts the applied
//! limit into its word. Invariant: the applied limit lies within the bounds after every call.

mod local;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bounds::Bounds;
use crate::law::{Decision, Inputs, Law, Learned, Reason};
use crate::outcome::OutcomeCounts;
use crate::time::Nanos;
use crate::window::{Sample, Sampler, Totals, Unfinished, Window};
use local::Local;

/// One decision, as it is kept and shown.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// When it was taken.
    pub at: Nanos,
    /// The limit in force before, in units in flight.
    pub old: u32,
    /// The limit in force after it.
    pub new: u32,
    /// What the law wanted, before clamping and rounding.
    pub wanted: f64,
    /// Why.
    pub reason: Reason,
    /// What the law compared.
    pub inputs: Inputs,
    /// How long the window was; zero for a change of bounds.
    pub window: Duration,
    /// Requests that finished in the window, by outcome.
    pub finished: OutcomeCounts,
    /// Requests turned away in it.
    pub turned_away: u64,
    /// Requests that had to wait in it.
    pub waited: u64,
    /// Timed requests that finished in it.
    pub samples: u32,
    /// Units in flight at its end.
    pub in_flight: u32,
    /// Full, and nothing finished for several typical latencies.
    pub stalled: bool,
    /// What the shadow law would have done; `None` when there is no shadow law.
    pub shadow: Option<ShadowRecord>,
}

/// What a shadow law would have done in one window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShadowRecord {
    /// The limit that it would have put in force, in units in flight.
    pub limit: u32,
    /// Requests that its limit would have turned away in this window; an estimate from the timed ones.
    pub would_reject: u64,
    /// Why.
    pub reason: Reason,
}

/// A second law that sees the same windows and moves nothing.
#[derive(Debug)]
pub struct ShadowLaw {
    law: Box<dyn Law>,
    limit: f64,
    would_reject: u64,
    last: Option<ShadowRecord>,
}

impl ShadowLaw {
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.law.name()
    }

    /// The limit that it would put in force, before rounding.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// Requests that it would have turned away so far; an estimate from the timed ones.
    pub fn would_reject(&self) -> u64 {
        self.would_reject
    }

    /// Its last decision.
    pub fn last(&self) -> Option<ShadowRecord> {
        self.last
    }

    /// What it has learned.
    pub fn learned(&self) -> Learned {
        self.law.learned()
    }

    /// Shows it the window as its own limit would have made it: what that limit would have turned
    /// away counts as turned away, and nothing else does.
    fn decide(&mut self, bounds: Bounds, live: u32, window: &Window<'_>) -> ShadowRecord {
        let own = bounds.apply(self.limit);
        let would_reject = would_reject(own, live, window);
        let mut seen = window.clone();
        seen.turned_away = would_reject;
        seen.waited = 0;
        let decision = self.law.decide(self.limit, &seen);
        self.limit = bounds.clamp(decision.limit);
        self.would_reject += would_reject;
        let record = ShadowRecord { limit: bounds.apply(self.limit), would_reject, reason: decision.reason };
        self.last = Some(record);
        record
    }
}

/// How many arrivals of `window` a limit of `own` would have turned away, where `live` was in force.
fn would_reject(own: u32, live: u32, window: &Window<'_>) -> u64 {
    let above = window.samples.iter().filter(|s| s.in_flight > own).count() as f64;
    let share = above / (window.samples.len() as f64).max(1.0);
    let of_admitted = (share * window.finished.total() as f64).round() as u64;
    // What the live limit turned away met a level of `live`: a limit as low or lower would have too.
    of_admitted + if own <= live { window.turned_away } else { 0 }
}

/// Sampler, law, bounds and limit in one. See the [module](self).
#[derive(Debug)]
pub struct Control {
    sampler: Sampler,
    law: Box<dyn Law>,
    bounds: Bounds,
    limit: f64,
    records: VecDeque<Record>,
    shadow: Option<ShadowLaw>,
    local: Local,
}

impl Control {
    /// The most decisions that are kept; the oldest go first.
    pub const MOST_RECORDS: usize = 256;

    /// Begins at `now` with `initial` units, held within `bounds`.
    pub fn new(now: Nanos, bounds: Bounds, initial: f64, law: Box<dyn Law>) -> Self {
        Self {
            sampler: Sampler::new(now),
            law,
            bounds,
            limit: bounds.clamp(initial),
            records: VecDeque::with_capacity(Self::MOST_RECORDS),
            shadow: None,
            local: Local::default(),
        }
    }

    /// Tells how late this process's own runtime is, and the number of that piece of news; `None` when it
    /// is not late. While it is, the law is not asked: latencies are then this process's own doing, and the
    /// limit is cut once for each piece of news, and held in between.
    pub fn set_local_overload(&mut self, late: Option<(Duration, u64)>) {
        self.local.set(late);
    }

    /// Lets `law` run beside the live one from the limit in force; `None` ends it.
    pub fn set_shadow(&mut self, law: Option<Box<dyn Law>>) {
        self.shadow = law.map(|law| ShadowLaw { law, limit: self.limit, would_reject: 0, last: None });
    }

    /// Puts another law in place of the live one. It starts from the limit in force and knows nothing.
    pub fn set_law(&mut self, law: Box<dyn Law>) {
        self.law = law;
    }

    /// Adds a timed request that has finished.
    pub fn push(&mut self, sample: Sample) {
        self.sampler.push(sample);
    }

    /// Whether [`Control::close`] is to be called. Ask after each timed finish and each rejection.
    pub fn is_due(&self, now: Nanos) -> bool {
        self.sampler.is_due(now)
    }

    /// Closes the window, lets the law decide, opens the next one. The caller puts
    /// [`Record::new`] in force and then admits whoever waits and now fits.
    pub fn close(&mut self, now: Nanos, totals: &Totals, in_flight: u32, unfinished: &Unfinished) -> &Record {
        let old = self.applied();
        let window = self.sampler.close(now, totals, in_flight >= old, in_flight, unfinished);
        let decision = match self.local.decide(self.limit, &window) {
            Some(decision) => decision,
            None => self.law.decide(self.limit, &window),
        };
        self.limit = self.bounds.clamp(decision.limit);
        let shadow = self.shadow.as_mut().map(|shadow| shadow.decide(self.bounds, old, &window));
        let record = record(old, self.bounds.apply(self.limit), &decision, &window, shadow);
        self.sampler.reopen(now, totals, in_flight, decision.pace);
        self.keep(record)
    }

    /// Puts other bounds in force and returns the applied limit: the old one, held within them.
    pub fn set_bounds(&mut self, now: Nanos, bounds: Bounds) -> u32 {
        let old = self.applied();
        self.bounds = bounds;
        let wanted = self.limit;
        self.limit = bounds.clamp(wanted);
        if let Some(shadow) = &mut self.shadow {
            shadow.limit = bounds.clamp(shadow.limit);
        }
        let new = self.applied();
        if new != old {
            let inputs = Inputs::default().with("min", f64::from(bounds.min())).with("max", f64::from(bounds.max()));
            let record = Record {
                at: now,
                old,
                new,
                wanted,
                reason: Reason::Bounds,
                inputs,
                window: Duration::ZERO,
                finished: OutcomeCounts::default(),
                turned_away: 0,
                waited: 0,
                samples: 0,
                in_flight: 0,
                stalled: false,
                shadow: None,
            };
            self.keep(record);
        }
        new
    }

    fn keep(&mut self, record: Record) -> &Record {
        if self.records.len() == Self::MOST_RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(record);
        self.records.back().expect("one was just kept")
    }

    /// The limit to enforce, in whole units.
    pub fn applied(&self) -> u32 {
        self.bounds.apply(self.limit)
    }

    /// The law's limit, within the bounds, before rounding.
    pub fn limit(&self) -> f64 {
        self.limit
    }

    /// The bounds in force.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The last decisions, newest first, at most [`Control::MOST_RECORDS`].
    pub fn records(&self) -> impl Iterator<Item = &Record> + '_ {
        self.records.iter().rev()
    }

    /// The sampler: typical latency, drain rate, how many are timed.
    pub fn sampler(&self) -> &Sampler {
        &self.sampler
    }

    /// The live law's name.
    pub fn law_name(&self) -> &'static str {
        self.law.name()
    }

    /// What the live law has learned.
    pub fn learned(&self) -> Learned {
        self.law.learned()
    }

    /// The shadow law, if one runs.
    pub fn shadow(&self) -> Option<&ShadowLaw> {
        self.shadow.as_ref()
    }
}

fn record(old: u32, new: u32, decision: &Decision, window: &Window<'_>, shadow: Option<ShadowRecord>) -> Record {
    Record {
        at: window.closed,
        old,
        new,
        wanted: decision.limit,
        reason: decision.reason,
        inputs: decision.inputs,
        window: window.duration(),
        finished: window.finished,
        turned_away: window.turned_away,
        waited: window.waited,
        samples: u32::try_from(window.samples.len()).unwrap_or(u32::MAX),
        in_flight: window.in_flight_close,
        stalled: window.stalled,
        shadow,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Aimd, Fixed};
    use crate::outcome::Outcome;
    use crate::window::Pace;

    /// Wants whatever it is told to.
    #[derive(Debug)]
    struct Wants(f64);

    impl Law for Wants {
        fn name(&self) -> &'static str {
            "wants"
        }

        fn decide(&mut self, _: f64, _: &Window<'_>) -> Decision {
            Decision { limit: self.0, reason: Reason::Grow, inputs: Inputs::default(), pace: Pace::default() }
        }
    }

    fn control(law: impl Law + 'static) -> Control {
        Control::new(Nanos(0), Bounds::new(2, 50).expect("valid"), 20.0, Box::new(law))
    }

    fn close(control: &mut Control, at_s: u64) -> Record {
        let (totals, unfinished) = (Totals::default(), Unfinished::default());
        control.close(Nanos(at_s * 1_000_000_000), &totals, 0, &unfinished).clone()
    }

    #[test]
    fn whatever_a_law_wants_is_held_within_the_bounds_and_recorded() {
        for (wanted, applied) in [(f64::NAN, 2), (1e9, 50), (-3.0, 2), (7.4, 7)] {
            let mut control = control(Wants(wanted));
            let record = close(&mut control, 1);
            assert_eq!((record.old, record.new, control.applied()), (20, applied, applied), "{wanted}");
        }
    }

    #[test]
    fn new_bounds_bind_at_once_and_are_recorded_when_they_move_the_limit() {
        let mut control = control(Fixed);
        assert_eq!(control.set_bounds(Nanos(5), Bounds::new(1, 90).expect("valid")), 20);
        assert_eq!(control.records().count(), 0, "nothing moved");
        assert_eq!(control.set_bounds(Nanos(6), Bounds::new(30, 90).expect("valid")), 30);
        let record = control.records().next().expect("one");
        assert_eq!((record.reason, record.old, record.new, record.at), (Reason::Bounds, 20, 30, Nanos(6)));
    }

    #[test]
    fn the_oldest_decisions_go_first() {
        let mut control = control(Fixed);
        for i in 1..=300 {
            close(&mut control, i);
        }
        let seconds: Vec<_> = control.records().map(|r| r.at.as_secs_f64() as u64).collect();
        assert_eq!((seconds.len(), seconds[0], seconds[255]), (256, 300, 45));
    }

    #[test]
    fn a_shadow_law_moves_nothing_and_counts_what_it_would_have_turned_away() {
        let mut control = control(Fixed);
        control.set_shadow(Some(Box::new(Wants(5.0))));
        close(&mut control, 1);
        assert_eq!(control.applied(), 20);
        for in_flight in [3, 5, 6, 9] {
            let (start, end) = (Nanos(1_000_000_000), Nanos(1_500_000_000));
            control.push(Sample { start, end, in_flight, outcome: Outcome::Success });
        }
        let mut totals = Totals::default();
        totals.finished.add(Outcome::Success, 40);
        totals.turned_away = 3;
        let unfinished = Unfinished::default();
        let shadow = control.close(Nanos(2_000_000_000), &totals, 9, &unfinished).shadow.expect("runs");
        assert_eq!((shadow.limit, shadow.would_reject), (5, 20 + 3), "half of 40, and those really turned away");
        assert_eq!(control.shadow().map(ShadowLaw::would_reject), Some(23));
    }

    #[test]
    fn a_late_runtime_cuts_once_for_each_piece_of_news_and_does_not_ask_the_law() {
        let mut control = control(Wants(50.0));
        let late = |news| Some((Duration::from_millis(80), news));
        let mut close = |late, in_flight| {
            control.set_local_overload(late);
            let at = Nanos(control.records().next().map_or(0, |r| r.at.0) + 1_000_000_000);
            let record = control.close(at, &Totals::default(), in_flight, &Unfinished::default());
            (record.new, record.reason)
        };
        assert_eq!(close(late(1), 10), (9, Reason::ShrinkLocal), "below what was in flight, not below the limit");
        assert_eq!(close(late(1), 9), (9, Reason::HoldLocal), "no second cut before there is news");
        assert_eq!(close(late(2), 9), (8, Reason::ShrinkLocal));
        assert_eq!(close(None, 8), (50, Reason::Grow), "the law goes on");
    }

    #[test]
    fn a_window_full_of_refusals_closes_and_shrinks() {
        let mut control = control(Aimd::default());
        let mut totals = Totals::default();
        totals.finished.add(Outcome::Overloaded, 30);
        assert!(!control.is_due(Nanos(5_000_000)) && control.is_due(Nanos(1_000_000_000)));
        let record = control.close(Nanos(1_000_000_000), &totals, 3, &Unfinished::default());
        assert_eq!((record.old, record.new, record.reason), (20, 18, Reason::ShrinkOverload));
    }
}
