//! The event loop: arrivals, limiters, downstream and clients under virtual time.
//!
//! Decides nothing but the order of events. A run is a function of scenario, policy and seed.
//! Nothing is allocated for a request once slots, heap and queues have reached their sizes.
//! Invariant: a slot is in use while its client waits or its work goes on, and no longer.

mod arrivals;
mod clients;
mod phases;

use std::collections::{BinaryHeap, VecDeque};

use super::gate::{Admitted, Entry, Gate};
use super::measure::Measure;
use super::rng::Rng;
use super::scenario::{Demand, Scenario};
use super::station::{Job, Station};
use crate::admission::Ticket;
use crate::bounds::Bounds;
use crate::control::Control;
use crate::law::Law;
use crate::outcome::Outcome;
use crate::time::Nanos;
use arrivals::Arrivals;
use clients::{Due, Timer};

/// Who moves the limit.
pub enum Policy<'a> {
    /// A law; each limiter has its own from its own initial limit (the last one for the rest).
    Law {
        /// Makes one.
        law: &'a dyn Fn() -> Box<dyn Law>,
        /// Initial limits.
        initial: &'a [f64],
    },
    /// One limiter whose limit is this in each phase.
    Static(&'a [u32]),
}

/// Where a try stands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Free,
    /// Between two tries.
    Pausing,
    /// In the limiter's waiting room.
    Waiting(Ticket),
    /// At the downstream.
    Served,
    /// Refused or failed by the downstream; the answer is on its way.
    Answering,
    /// The client gave up; the work goes on.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    turn: u32,
    state: State,
    gate: u32,
    tries: u32,
    first_at: f64,
    /// Work drawn for it, in multiples of the mean.
    work: f64,
    admitted: Admitted,
}

struct Streams {
    work: Rng,
    clients: Rng,
    downstream: Rng,
}

/// One run of a scenario.
pub struct Engine<'a> {
    scenario: &'a Scenario,
    policy: &'a Policy<'a>,
    now: f64,
    phase: usize,
    phase_start: f64,
    phase_end: f64,
    next_stop: (f64, bool),
    arrivals: Arrivals,
    streams: Streams,
    slots: Vec<Slot>,
    free: Vec<u32>,
    gates: Vec<Gate>,
    station: Station,
    timeouts: VecDeque<(f64, Job)>,
    timers: BinaryHeap<Timer>,
    measure: Measure,
    slice_end: f64,
    events: u64,
}

/// What a run gives.
#[derive(Debug)]
pub struct Outcomes {
    /// Counts and latencies.
    pub measure: Measure,
    /// Events handled.
    pub events: u64,
    /// What each limiter's law did last and has learned, when a law ran.
    pub controls: Vec<Control>,
}

/// Runs a scenario once.
pub fn run(scenario: &Scenario, policy: &Policy<'_>, seed: u64) -> Outcomes {
    let mut engine = Engine::new(scenario, policy, seed);
    engine.begin_phase(0);
    engine.start_clients();
    while engine.step() {}
    let controls = engine.gates.into_iter().filter_map(Gate::into_control).collect();
    Outcomes { measure: engine.measure, events: engine.events, controls }
}

impl<'a> Engine<'a> {
    fn new(scenario: &'a Scenario, policy: &'a Policy<'a>, seed: u64) -> Self {
        Self {
            scenario,
            policy,
            now: 0.0,
            phase: 0,
            phase_start: 0.0,
            phase_end: 0.0,
            next_stop: (f64::INFINITY, false),
            arrivals: Arrivals::new(Rng::new(seed, 1)),
            streams: Streams { work: Rng::new(seed, 2), clients: Rng::new(seed, 3), downstream: Rng::new(seed, 4) },
            slots: Vec::new(),
            free: Vec::new(),
            gates: gates(scenario, policy, seed),
            station: Station::new(scenario.downstream),
            timeouts: VecDeque::new(),
            timers: BinaryHeap::new(),
            measure: Measure::new(scenario),
            slice_end: 0.0,
            events: 0,
        }
    }

    /// Handles the next event; `false` when the scenario is over.
    fn step(&mut self) -> bool {
        self.drop_stale_timeouts();
        let done = self.station.next();
        let arrival = self.arrivals.next();
        let timeout = self.timeouts.front().map_or(f64::INFINITY, |t| t.0);
        let timer = self.timers.peek().map_or(f64::INFINITY, |t| t.at);
        let expiry = self.next_expiry();
        let edge = self.phase_end.min(self.next_stop.0).min(self.slice_end);
        let at = done.min(arrival).min(timeout).min(timer).min(expiry).min(edge);
        self.now = at.max(self.now);
        self.events += 1;
        if at == done {
            self.served();
        } else if at == arrival {
            self.arrive();
        } else if at == timeout {
            self.time_out();
        } else if at == timer {
            self.timer();
        } else if at == expiry {
            self.expire();
        } else {
            return self.edge();
        }
        true
    }

    fn nanos(&self) -> Nanos {
        Nanos::from_secs_f64(self.now)
    }

    /// A request arrives for the first time.
    fn arrive(&mut self) {
        let recorded = self.arrivals.advance();
        self.first_try(recorded);
    }

    fn first_try(&mut self, recorded: Option<f64>) {
        let work = match recorded {
            Some(work) => work / self.scenario.service_s,
            None => self.draw_work(),
        };
        let gate = if self.gates.len() > 1 { self.streams.clients.below(self.gates.len()) as u32 } else { 0 };
        self.measure.slice(self.phase, self.now).arrivals += 1;
        let slot = self.take_slot(Slot {
            turn: 0,
            state: State::Pausing,
            gate,
            tries: 0,
            first_at: self.now,
            work,
            admitted: Admitted::default(),
        });
        self.try_once(slot);
    }

    fn draw_work(&mut self) -> f64 {
        let rng = &mut self.streams.work;
        match self.scenario.demand {
            Demand::Constant => 1.0,
            Demand::Exponential => rng.exp(),
            Demand::Lognormal { cv } => {
                let variance = (1.0 + cv * cv).ln();
                (variance.sqrt() * rng.normal() - 0.5 * variance).exp()
            }
            Demand::Bimodal { long_share, ratio } => {
                let short = 1.0 / (1.0 + long_share * (ratio - 1.0));
                if rng.unit() < long_share { short * ratio } else { short }
            }
        }
    }

    fn take_slot(&mut self, slot: Slot) -> u32 {
        if let Some(at) = self.free.pop() {
            let turn = self.slots[at as usize].turn;
            self.slots[at as usize] = Slot { turn, ..slot };
            return at;
        }
        self.slots.push(slot);
        (self.slots.len() - 1) as u32
    }

    fn free_slot(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.state = State::Free;
        slot.turn = slot.turn.wrapping_add(1);
        self.free.push(at);
    }

    fn job(&self, at: u32) -> Job {
        Job { slot: at, turn: self.slots[at as usize].turn }
    }

    /// One try at the limiter.
    fn try_once(&mut self, at: u32) {
        let now = self.nanos();
        let gate = self.slots[at as usize].gate as usize;
        self.measure.slice(self.phase, self.now).tries += 1;
        match self.gates[gate].enter(now, at) {
            Entry::Admitted(admitted) => {
                self.give_up_later(at);
                self.begin(at, admitted);
            }
            Entry::Waits(ticket) => {
                self.slots[at as usize].state = State::Waiting(ticket);
                self.give_up_later(at);
            }
            Entry::Refused => {
                self.measure.slice(self.phase, self.now).turned_away += 1;
                self.failed(at);
                self.tick(gate);
            }
        }
    }

    /// An admitted request goes to the downstream.
    fn begin(&mut self, at: u32, admitted: Admitted) {
        let job = self.job(at);
        let phase = &self.scenario.phases[self.phase];
        let grown = 1.0 + phase.work_growth * (self.now - self.phase_start);
        let slot = &mut self.slots[at as usize];
        slot.admitted = admitted;
        slot.state = State::Served;
        let work = slot.work * self.scenario.service_s * phase.work * grown;
        let refused = if phase.errors > 0.0 && self.streams.downstream.unit() < phase.errors {
            Some(Outcome::Fault)
        } else if !self.station.takes(self.now) {
            Some(Outcome::Throttled)
        } else if !self.station.arrive(self.now, job, work) {
            Some(Outcome::Overloaded)
        } else {
            None
        };
        if let Some(outcome) = refused {
            self.slots[at as usize].state = State::Answering;
            self.timers.push(Timer { at: self.now + self.scenario.fast(), due: Due::Answer(job, outcome) });
        }
    }

    /// The downstream is done with a job.
    fn served(&mut self) {
        let Some(job) = self.station.complete(self.now) else { return };
        if self.slots[job.slot as usize].state == State::Abandoned {
            self.free_slot(job.slot);
        } else {
            self.answer(job.slot, Outcome::Success);
        }
    }

    /// The client has its answer.
    fn answer(&mut self, at: u32, outcome: Outcome) {
        let slot = self.slots[at as usize];
        let gate = slot.gate as usize;
        let now = self.nanos();
        self.gates[gate].finish(now, slot.admitted, outcome);
        if outcome == Outcome::Success {
            let latency = self.now - slot.first_at;
            self.measure.latencies.add(latency);
            let good = latency <= self.scenario.slo();
            let slice = self.measure.slice(self.phase, self.now);
            slice.answered += 1;
            slice.good += u32::from(good);
            slice.latency_sum += latency;
            if self.gates.len() > 1 {
                self.measure.answered_by(gate, self.now);
            }
            self.free_slot(at);
            self.think();
        } else {
            self.measure.slice(self.phase, self.now).failed += 1;
            self.failed(at);
        }
        self.admit_waiting(gate);
        self.tick(gate);
    }

    /// Closes a limiter's window if it is due, and lets in who fits now.
    fn tick(&mut self, gate: usize) {
        let now = self.nanos();
        let Some(record) = self.gates[gate].tick(now) else { return };
        let reason = record.reason.index();
        self.measure.slice(self.phase, self.now).reasons[reason] += 1;
        self.admit_waiting(gate);
    }

    fn admit_waiting(&mut self, gate: usize) {
        let now = self.nanos();
        while let Some((at, admitted)) = self.gates[gate].grant(now) {
            self.begin(at, admitted);
        }
    }

    fn next_expiry(&self) -> f64 {
        self.gates.iter().filter_map(Gate::next_expiry).map(Nanos::as_secs_f64).fold(f64::INFINITY, f64::min)
    }

    /// A waiter has waited as long as the limiter allows.
    fn expire(&mut self) {
        let first = |gate: &Gate| gate.next_expiry().unwrap_or(Nanos::NEVER);
        let Some(gate) = (0..self.gates.len()).min_by_key(|i| first(&self.gates[*i])) else { return };
        let Some(at) = self.gates[gate].expire() else { return };
        self.measure.slice(self.phase, self.now).turned_away += 1;
        self.failed(at);
        self.tick(gate);
    }
}

fn gates(scenario: &Scenario, policy: &Policy<'_>, seed: u64) -> Vec<Gate> {
    let spec = &scenario.limiter;
    let room = (spec.queue, spec.queue_s);
    match policy {
        Policy::Static(limits) => vec![Gate::new(limits[0], None, room, Rng::new(seed, 5))],
        Policy::Law { law, initial } => {
            let bounds = Bounds::new(spec.min, spec.max).expect("a scenario is checked before it runs");
            let make = |i: u32| {
                let initial = initial.get(i as usize).or(initial.last()).copied().unwrap_or(20.0);
                let control = Control::new(Nanos(0), bounds, initial, law());
                Gate::new(0, Some(control), room, Rng::new(seed, 5 + u64::from(i)))
            };
            (0..spec.count).map(make).collect()
        }
    }
}
