//! Clients: when they give up, go away, try again, think.

use std::cmp::Ordering;

use super::{Engine, Slot, State};
use crate::outcome::Outcome;
use crate::sim::scenario::Abandoned;
use crate::sim::station::Job;

/// Something that is due at a time of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) at: f64,
    pub(super) due: Due,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Due {
    /// The downstream's quick answer arrives.
    Answer(Job, Outcome),
    /// A failed request is tried again.
    Retry(Job),
    /// The client goes away.
    Cancel(Job),
    /// A client of a closed loop asks.
    Ask,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    /// Turned round: the soonest is the largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at.total_cmp(&self.at)
    }
}

impl Engine<'_> {
    pub(super) fn start_clients(&mut self) {
        for _ in 0..self.scenario.clients.closed.map_or(0, |closed| closed.clients) {
            self.think();
        }
    }

    /// In a closed loop, the client of a request that is over asks again after a pause.
    pub(super) fn think(&mut self) {
        if let Some(closed) = self.scenario.clients.closed {
            let at = self.now + closed.think_s * self.streams.clients.exp();
            self.timers.push(Timer { at, due: Due::Ask });
        }
    }

    /// Notes when the client of a try gives up, or goes away by itself.
    pub(super) fn give_up_later(&mut self, at: u32) {
        let job = self.job(at);
        self.timeouts.push_back((self.now + self.scenario.timeout(), job));
        let clients = &self.scenario.clients;
        if clients.cancel_share > 0.0 && self.streams.clients.unit() < clients.cancel_share {
            let after = clients.cancel_after_s.unwrap_or(self.scenario.service_s) * self.streams.clients.exp();
            self.timers.push(Timer { at: self.now + after, due: Due::Cancel(job) });
        }
    }

    /// Time-outs of tries that are over would only cost events.
    pub(super) fn drop_stale_timeouts(&mut self) {
        while let Some((_, job)) = self.timeouts.front() {
            if self.is_open(*job) {
                return;
            }
            self.timeouts.pop_front();
        }
    }

    /// Whether the client of this try still waits.
    fn is_open(&self, job: Job) -> bool {
        let slot = &self.slots[job.slot as usize];
        slot.turn == job.turn && matches!(slot.state, State::Waiting(_) | State::Served | State::Answering)
    }

    /// A try failed: the client tries again, or the request is lost.
    pub(super) fn failed(&mut self, at: u32) {
        // Whatever still points at this try is stale from here on.
        let slot = &mut self.slots[at as usize];
        slot.turn = slot.turn.wrapping_add(1);
        if slot.tries >= self.scenario.clients.retries {
            self.free_slot(at);
            self.think();
            return;
        }
        slot.tries += 1;
        slot.state = State::Pausing;
        let doubled = f64::from(slot.tries - 1).exp2();
        let mean = self.scenario.clients.backoff_s.unwrap_or(self.scenario.service_s);
        let pause = mean * doubled * self.streams.clients.between(0.5, 1.5);
        let job = self.job(at);
        self.timers.push(Timer { at: self.now + pause, due: Due::Retry(job) });
    }

    /// A timer is due.
    pub(super) fn timer(&mut self) {
        let Some(timer) = self.timers.pop() else { return };
        match timer.due {
            Due::Answer(job, outcome) if self.is_open(job) => self.answer(job.slot, outcome),
            Due::Cancel(job) if self.is_open(job) => self.leave(job.slot, Outcome::Cancelled),
            Due::Retry(job) => self.try_once(job.slot),
            Due::Ask => self.first_try(None),
            Due::Answer(..) | Due::Cancel(_) => {}
        }
    }

    /// The client gives up on what it waits for.
    pub(super) fn time_out(&mut self) {
        let Some((_, job)) = self.timeouts.pop_front() else { return };
        let at = job.slot;
        self.measure.latencies.add(self.scenario.timeout());
        self.measure.slice(self.phase, self.now).timed_out += 1;
        self.leave(at, Outcome::Overloaded);
    }

    /// A try ends before its answer: the client is gone, its permit is given back.
    fn leave(&mut self, at: u32, outcome: Outcome) {
        let slot = self.slots[at as usize];
        let gate = slot.gate as usize;
        let now = self.nanos();
        match slot.state {
            State::Waiting(ticket) => self.gates[gate].forget(ticket),
            State::Served | State::Answering => self.gates[gate].finish(now, slot.admitted, outcome),
            State::Free | State::Pausing | State::Abandoned => return,
        }
        let goes_on = slot.state == State::Served && self.scenario.abandoned == Abandoned::GoesOn;
        if slot.state == State::Served && !goes_on {
            self.station.cancel(self.now, self.job(at));
        }
        let client = if goes_on {
            self.slots[at as usize].state = State::Abandoned;
            self.take_slot(Slot { turn: 0, state: State::Pausing, ..slot })
        } else {
            at
        };
        if outcome == Outcome::Cancelled {
            self.free_slot(client);
            self.think();
        } else {
            self.failed(client);
        }
        self.admit_waiting(gate);
        self.tick(gate);
    }
}
