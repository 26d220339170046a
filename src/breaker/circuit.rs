//! A circuit breaker as a value: closed, open or half-open, and what moves it. Pure: time and dice are
//! arguments.
//!
//! Only faults are failures. An answer that says "too fast", "too many", "used up" or "your own
//! mistake" comes from a service that works; counting it would turn a busy destination into a dead
//! one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::Outcome;
use crate::time::Nanos;

/// The window is counted in so many parts, the oldest of which is forgotten as time goes on.
const PARTS: usize = 10;

/// When it opens, and how it comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Settings {
    pub(super) window: Duration,
    pub(super) least_calls: u32,
    pub(super) failure_rate: f64,
    pub(super) open_for: Duration,
    pub(super) open_at_most: Duration,
    pub(super) probes: u32,
}

/// Where a breaker stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// Every call goes.
    Closed,
    /// No call goes.
    Open,
    /// A few calls go, to find out.
    HalfOpen,
}

impl BreakerState {
    /// Every state.
    pub const ALL: [BreakerState; 3] = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];

    /// The label used in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

/// A call that a breaker refused, as an error; the destination was not asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BreakerOpen {
    /// The breaker's name.
    pub breaker: Arc<str>,
    /// When to come back.
    pub retry_after: Duration,
}

impl fmt::Display for BreakerOpen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { breaker, retry_after } = self;
        write!(f, "breaker \"{breaker}\" is open after too many faults; retry after {:.3} s", retry_after.as_secs_f64())
    }
}

impl std::error::Error for BreakerOpen {}

/// A breaker.
#[derive(Clone, Debug)]
pub(super) struct Circuit {
    settings: Settings,
    phase: Phase,
    /// Counts the openings, so that a call from before one is not taken for a probe.
    generation: u64,
    /// Openings since it was last closed.
    in_a_row: u32,
    counts: Counts,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Closed,
    Open { until: Nanos },
    HalfOpen { out: u32, well: u32, last: Nanos },
}

/// A call that may go, to be named when it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket(u64);

impl Circuit {
    pub(super) fn new(settings: Settings) -> Self {
        let part = (settings.window / PARTS as u32).max(Duration::from_millis(1));
        let counts = Counts { part, current: 0, parts: [(0, 0); PARTS] };
        Self { settings, phase: Phase::Closed, generation: 0, in_a_row: 0, counts }
    }

    pub(super) fn state(&self, now: Nanos) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Open { until } if now < until => BreakerState::Open,
            Phase::Open { .. } | Phase::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    /// Asks for a call.
    ///
    /// # Errors
    /// How long to stay away.
    pub(super) fn ask(&mut self, now: Nanos) -> Result<Ticket, Duration> {
        let Settings { probes, open_for, .. } = self.settings;
        match &mut self.phase {
            // Closed => Closed
            Phase::Closed => {}
            // Open => Open | HalfOpen
            Phase::Open { until } if now < *until => return Err(until.since(now)),
            Phase::Open { .. } => self.phase = Phase::HalfOpen { out: 1, well: 0, last: now },
            // HalfOpen => HalfOpen; a probe that never comes back does not block it for good.
            Phase::HalfOpen { out, last, .. } if *out < probes || now.since(*last) >= open_for => {
                *out = (*out + 1).min(probes);
                *last = now;
            }
            Phase::HalfOpen { last, .. } => return Err((*last + open_for).since(now)),
        }
        Ok(Ticket(self.generation))
    }

    /// A call has ended. The state, if that changed it; `roll` lies in `0.0..1.0`.
    pub(super) fn ended(&mut self, ticket: Ticket, outcome: Outcome, now: Nanos, roll: f64) -> Option<BreakerState> {
        if ticket.0 != self.generation {
            return None;
        }
        let says = Says::of(outcome);
        match &mut self.phase {
            // Closed => Closed | Open
            Phase::Closed => {
                self.counts.add(says, now);
                let (well, failed) = self.counts.sum();
                let calls = well + failed;
                let too_many = f64::from(failed) >= self.settings.failure_rate * f64::from(calls);
                (says == Says::Broken && calls >= self.settings.least_calls && too_many).then(|| self.open(now, roll))
            }
            Phase::Open { .. } => None,
            // HalfOpen => HalfOpen | Closed | Open
            Phase::HalfOpen { out, well, .. } => {
                *out = out.saturating_sub(1);
                match says {
                    Says::Nothing => None,
                    Says::Broken => Some(self.open(now, roll)),
                    Says::Works => {
                        *well += 1;
                        (*well >= self.settings.probes).then(|| self.close())
                    }
                }
            }
        }
    }

    fn open(&mut self, now: Nanos, roll: f64) -> BreakerState {
        let doubled = self.settings.open_for.saturating_mul(1 << self.in_a_row.min(16));
        let length = doubled.min(self.settings.open_at_most).mul_f64(1.0 + 0.1 * roll);
        self.phase = Phase::Open { until: now + length };
        self.in_a_row += 1;
        self.generation += 1;
        BreakerState::Open
    }

    fn close(&mut self) -> BreakerState {
        self.phase = Phase::Closed;
        self.in_a_row = 0;
        self.generation += 1;
        self.counts.parts = [(0, 0); PARTS];
        BreakerState::Closed
    }
}

/// What an outcome says of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    Works,
    Broken,
    /// Neither: nothing came back in time, or nobody waited for it.
    Nothing,
}

impl Says {
    fn of(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Success | Outcome::Caller | Outcome::Throttled | Outcome::Exhausted => Says::Works,
            Outcome::Fault => Says::Broken,
            Outcome::Overloaded | Outcome::Cancelled => Says::Nothing,
        }
    }
}

/// Calls that said something, by parts of the window.
#[derive(Clone, Debug)]
struct Counts {
    part: Duration,
    current: u64,
    parts: [(u32, u32); PARTS],
}

impl Counts {
    fn add(&mut self, says: Says, now: Nanos) {
        self.forget(now);
        let (well, failed) = &mut self.parts[self.current as usize % PARTS];
        match says {
            Says::Works => *well = well.saturating_add(1),
            Says::Broken => *failed = failed.saturating_add(1),
            Says::Nothing => {}
        }
    }

    fn forget(&mut self, now: Nanos) {
        let at = now.0 / (self.part.as_nanos() as u64).max(1);
        let passed = at.saturating_sub(self.current).min(PARTS as u64);
        for step in 1..=passed {
            self.parts[(at - passed + step) as usize % PARTS] = (0, 0);
        }
        self.current = self.current.max(at);
    }

    fn sum(&self) -> (u32, u32) {
        self.parts.iter().fold((0, 0), |(w, f), (well, failed)| (w.saturating_add(*well), f.saturating_add(*failed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circuit() -> Circuit {
        Circuit::new(Settings {
            window: Duration::from_secs(10),
            least_calls: 10,
            failure_rate: 0.5,
            open_for: Duration::from_secs(5),
            open_at_most: Duration::from_secs(60),
            probes: 2,
        })
    }

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    fn call(circuit: &mut Circuit, outcome: Outcome, ms: u64) -> Option<BreakerState> {
        let ticket = circuit.ask(at(ms)).expect("may go");
        circuit.ended(ticket, outcome, at(ms), 0.0)
    }

    fn opened() -> Circuit {
        let mut circuit = circuit();
        for _ in 0..9 {
            assert_eq!(call(&mut circuit, Outcome::Fault, 100), None, "too few to tell");
        }
        assert_eq!(call(&mut circuit, Outcome::Fault, 100), Some(BreakerState::Open));
        circuit
    }

    #[test]
    fn nothing_but_faults_opens_it() {
        let never = [
            Outcome::Success,
            Outcome::Throttled,
            Outcome::Overloaded,
            Outcome::Exhausted,
            Outcome::Caller,
            Outcome::Cancelled,
        ];
        for outcome in never {
            let mut circuit = circuit();
            for ms in 0..10_000 {
                assert_eq!(call(&mut circuit, outcome, ms), None, "{outcome}");
            }
        }
        opened();
    }

    #[test]
    fn the_rate_counts_and_old_calls_do_not() {
        let mut circuit = circuit();
        for n in 0..100 {
            assert_eq!(call(&mut circuit, if n % 3 == 0 { Outcome::Fault } else { Outcome::Success }, n), None);
        }
        // Eleven seconds later only the new ones are left.
        for n in 0..9 {
            assert_eq!(call(&mut circuit, Outcome::Fault, 11_500 + n), None);
        }
        assert_eq!(call(&mut circuit, Outcome::Fault, 11_600), Some(BreakerState::Open));
    }

    #[test]
    fn it_comes_back_by_probes_and_stays_away_longer_each_time() {
        let mut circuit = opened();
        assert_eq!(circuit.ask(at(1100)), Err(Duration::from_secs(4)));
        assert_eq!(circuit.state(at(5100)), BreakerState::HalfOpen);
        assert_eq!(call(&mut circuit, Outcome::Fault, 5100), Some(BreakerState::Open));
        assert_eq!(circuit.ask(at(5100)), Err(Duration::from_secs(10)), "doubled");
        let (one, two) = (circuit.ask(at(15_100)).expect("a probe"), circuit.ask(at(15_100)).expect("another"));
        assert_eq!(circuit.ask(at(15_100)), Err(Duration::from_secs(5)), "no third");
        assert_eq!(circuit.ended(one, Outcome::Success, at(15_200), 0.0), None);
        assert_eq!(circuit.ended(two, Outcome::Throttled, at(15_200), 0.0), Some(BreakerState::Closed), "it works");
        assert_eq!(circuit.state(at(15_200)), BreakerState::Closed);
        assert_eq!(circuit.ended(one, Outcome::Fault, at(15_300), 0.0), None, "once only");
    }

    #[test]
    fn a_probe_that_is_lost_or_tells_nothing_makes_room_for_the_next() {
        let mut circuit = opened();
        for ms in [5100, 5200, 5300] {
            assert_eq!(call(&mut circuit, Outcome::Overloaded, ms), None);
        }
        for _ in 0..2 {
            circuit.ask(at(6000)).expect("a probe, which never comes back");
        }
        assert!(circuit.ask(at(10_999)).is_err());
        assert!(circuit.ask(at(11_000)).is_ok());
    }

    #[test]
    fn calls_from_before_it_opened_tell_nothing_afterwards() {
        let mut circuit = circuit();
        let old = circuit.ask(at(0)).expect("may go");
        for _ in 0..10 {
            call(&mut circuit, Outcome::Fault, 100);
        }
        circuit.ask(at(5100)).expect("a probe");
        assert_eq!(circuit.ended(old, Outcome::Fault, at(5200), 0.0), None);
        assert_eq!(circuit.ended(old, Outcome::Success, at(5200), 0.0), None);
        assert_eq!(circuit.state(at(5200)), BreakerState::HalfOpen);
    }
}
