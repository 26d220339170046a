//! All numbers of a limiter at one moment, read from what enforces them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::core::Core;
use crate::admission::{DEFAULT_CLASS, MAX_CLASS_UNITS, Mode, loans};
use crate::bounds::Bounds;
use crate::control::{Record, ShadowRecord};
use crate::histogram::Durations;
use crate::law::{Learned, Reason};
use crate::outcome::OutcomeCounts;
use crate::rejection::RejectReason;

/// A safe substitute that is in use because something is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// The signal is lost: the limiter is full and nothing finishes, so the law holds what it has.
    Signal,
}

impl Fallback {
    /// Every kind.
    pub const ALL: [Fallback; 1] = [Fallback::Signal];

    /// The label used in metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Fallback::Signal => "signal",
        }
    }
}

/// A law that runs beside the live one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Shadow {
    /// Its name.
    pub law: &'static str,
    /// The limit it would put in force.
    pub limit: u32,
    /// Requests it would have turned away so far, an estimate.
    pub would_reject: u64,
    /// Its last decision.
    pub last: Option<ShadowRecord>,
    /// What it has learned.
    pub learned: Learned,
}

/// A class of a limiter. All but the counts in units under the limit in force.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClassSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Its priority.
    pub priority: u8,
    /// What it always gets.
    pub reserve: u32,
    /// What of the reserve is kept free while it does not use it.
    pub held: u32,
    /// The most it gets, if less than everything.
    pub cap: Option<u32>,
    /// Units in flight.
    pub in_flight: u32,
    /// Units of its reserve that others use.
    pub lent: u32,
    /// Units that it uses of others' reserves.
    pub borrowed: u32,
    /// Requests of it that wait.
    pub queued: u32,
    /// Requests of it that were admitted after a wait.
    pub waited: u64,
    rejected: [u64; RejectReason::ALL.len()],
}

impl ClassSnapshot {
    /// Refusals for one reason.
    pub fn rejected(&self, reason: RejectReason) -> u64 {
        self.rejected[reason.index()]
    }

    /// Refusals for all reasons.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }
}

fn classes(core: &Core) -> Vec<ClassSnapshot> {
    let Some(table) = core.gate.classes() else { return Vec::new() };
    let word = core.gate.word();
    let named: Vec<_> = core.classes.live().map(|(at, named)| (at, named, table.usage(at))).collect();
    let usage: Vec<_> = named.iter().map(|(_, _, usage)| (usage.part, usage.used)).collect();
    let occupied =
        core.gate.in_flight() + usage.iter().map(|(part, used)| part.held.saturating_sub(*used)).sum::<u32>();
    let loans = loans(word.limit(), occupied, &usage);
    let snapshots = named.iter().zip(loans).map(|((at, named, usage), loan)| ClassSnapshot {
        name: named.name().map_or_else(|| DEFAULT_CLASS.into(), Arc::clone),
        priority: named.priority(),
        reserve: usage.part.reserve,
        held: usage.part.held,
        cap: Some(usage.part.cap).filter(|cap| *cap < word.limit().min(MAX_CLASS_UNITS)),
        in_flight: usage.used,
        lent: loan.lent,
        borrowed: loan.borrowed,
        queued: core.gate.queued_of(*at),
        waited: named.waited.load(Ordering::Relaxed),
        rejected: named.rejected(),
    });
    snapshots.collect()
}

/// All numbers of a limiter at one moment. Counters count from the limiter's beginning.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The limiter's name.
    pub name: Arc<str>,
    /// Enforce, shadow or off.
    pub mode: Mode,
    /// The limit in force.
    pub limit: u32,
    /// Units in flight.
    pub in_flight: u32,
    /// Requests that wait.
    pub queued: u32,
    /// The classes, if there are any: the default one first.
    pub classes: Vec<ClassSnapshot>,
    /// The bounds in force.
    pub bounds: Bounds,
    /// How many may wait, and how long.
    pub waiting_room: (u32, Duration),
    /// Whether newcomers are refused because the limiter is closed.
    pub closed: bool,
    /// The substitute in use, if any.
    pub fallback: Option<Fallback>,
    /// The live law's name.
    pub law: &'static str,
    /// The last decision.
    pub last_decision: Option<Record>,
    /// What the live law has learned.
    pub learned: Learned,
    /// The law beside it, if any.
    pub shadow: Option<Shadow>,
    /// Requests that finished, by outcome.
    pub finished: OutcomeCounts,
    rejected: [u64; RejectReason::ALL.len()],
    /// Requests that were admitted after a wait.
    pub waited: u64,
    /// Requests that shadow mode admitted past the limit.
    pub would_reject: u64,
    decisions: [u64; Reason::ALL.len()],
    /// Latency of the requests, as the law sees it; zero before the first window.
    pub typical_latency: Duration,
    /// Finished requests a second; zero before the first window.
    pub drain_rate: f64,
    /// Timed requests that have not finished: how many, and their mean age.
    pub unfinished: (u32, Duration),
    /// Latencies by bucket.
    pub latency: Durations,
    /// Times that permits were held, by bucket.
    pub hold: Durations,
    /// Waits of those who were admitted after one, by bucket.
    pub queue_wait: Durations,
    /// Samples that were dropped because they came faster than windows could take them.
    pub samples_dropped: u64,
    /// One request in so many is timed just now, and stands for as many in `latency` and `hold`.
    pub timed_one_in: u64,
}

impl Snapshot {
    pub(super) fn of(core: &Core) -> Self {
        let controlled = core.controlled();
        let (control, word) = (&controlled.control, core.gate.word());
        let (unfinished, age) = core.recorder.unfinished.total(core.clock.now());
        let shadow = control.shadow().map(|shadow| Shadow {
            law: shadow.name(),
            limit: control.bounds().apply(shadow.limit()),
            would_reject: shadow.would_reject(),
            last: shadow.last(),
            learned: shadow.learned(),
        });
        Self {
            name: Arc::clone(&core.name),
            mode: word.mode(),
            limit: word.limit(),
            in_flight: core.gate.in_flight(),
            queued: core.gate.queued(),
            classes: classes(core),
            bounds: control.bounds(),
            waiting_room: core.room_size(),
            closed: word.is_closed(),
            fallback: control.sampler().is_stalled().then_some(Fallback::Signal),
            law: control.law_name(),
            last_decision: control.records().next().cloned(),
            learned: control.learned(),
            shadow,
            finished: core.recorder.finished_by_outcome(),
            rejected: RejectReason::ALL.map(|reason| core.recorder.rejected_for(reason)),
            waited: core.recorder.waited_total(),
            would_reject: core.recorder.would_reject_total(),
            decisions: controlled.decisions,
            typical_latency: core.typical_latency(),
            drain_rate: core.drain_rate(),
            unfinished: (unfinished, age.checked_div(unfinished).unwrap_or_default()),
            latency: core.recorder.latency.read(),
            hold: core.recorder.hold.read(),
            queue_wait: core.recorder.queue_wait.read(),
            samples_dropped: core.recorder.dropped() + control.sampler().lost(),
            timed_one_in: core.recorder.one_in(),
        }
    }

    /// Refusals for one reason.
    pub fn rejected(&self, reason: RejectReason) -> u64 {
        self.rejected[reason.index()]
    }

    /// Refusals for all reasons.
    pub fn rejected_total(&self) -> u64 {
        self.rejected.iter().sum()
    }

    /// Decisions for one reason.
    pub fn decisions(&self, reason: Reason) -> u64 {
        self.decisions[reason.index()]
    }
}
