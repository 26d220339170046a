//! The limiter under virtual time: the shipped word, waiting room and control, and what the real
//! limiter does with atomics and a mutex done in plain steps.
//!
//! It decides nothing of its own. One difference: simulated requests all weigh one unit.

use std::time::Duration;

use super::rng::Rng;
use crate::admission::{Ticket, Waiter, WaitingRoom, Word};
use crate::control::{Control, Record};
use crate::outcome::Outcome;
use crate::time::Nanos;
use crate::window::{Sample, Totals, Unfinished, level_of};

/// What an admitted request carries until it ends.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Admitted {
    pub(super) start: Nanos,
    pub(super) in_flight: u32,
    pub(super) timed: bool,
}

/// What became of an attempt to enter.
pub(super) enum Entry {
    Admitted(Admitted),
    Waits(Ticket),
    Refused,
}

/// One limiter.
pub(super) struct Gate {
    word: Word,
    room: WaitingRoom<u32>,
    room_len: u32,
    room_time: Duration,
    control: Option<Control>,
    unfinished: Unfinished,
    totals: Totals,
    rng: Rng,
}

impl Gate {
    /// With a control that moves the limit, or with none: then [`Gate::set_limit`] does.
    pub(super) fn new(limit: u32, control: Option<Control>, room: (u32, f64), rng: Rng) -> Self {
        Self {
            word: Word::new(control.as_ref().map_or(limit, Control::applied)),
            room: WaitingRoom::default(),
            room_len: room.0,
            room_time: Duration::from_secs_f64(room.1),
            control,
            unfinished: Unfinished::default(),
            totals: Totals::default(),
            rng,
        }
    }

    pub(super) fn in_flight(&self) -> u32 {
        self.word.in_flight()
    }

    pub(super) fn limit(&self) -> u32 {
        self.word.limit()
    }

    pub(super) fn into_control(self) -> Option<Control> {
        self.control
    }

    pub(super) fn set_limit(&mut self, limit: u32) {
        self.word = self.word.with_limit(limit);
    }

    /// A request comes; `id` is what [`Gate::grant`] gives back when its turn has come.
    pub(super) fn enter(&mut self, now: Nanos, id: u32) -> Entry {
        if self.word.admits(1) {
            return Entry::Admitted(self.admit(now));
        }
        if self.room.len() < self.room_len {
            self.totals.waited += 1;
            self.word = self.word.with_waiting(true);
            let deadline = now + self.room_time;
            return Entry::Waits(self.room.push(Waiter { weight: 1, deadline, payload: id }));
        }
        self.totals.turned_away += 1;
        Entry::Refused
    }

    fn admit(&mut self, now: Nanos) -> Admitted {
        self.word = self.word.enter(1);
        let in_flight = self.word.in_flight();
        let timed = match &self.control {
            Some(control) => match control.sampler().one_in() {
                1 => true,
                one_in => self.rng.bits() & u64::from(one_in - 1) == 0,
            },
            None => false,
        };
        if timed {
            self.unfinished.start(level_of(in_flight), now);
        }
        Admitted { start: now, in_flight, timed }
    }

    /// A request has left the downstream.
    pub(super) fn finish(&mut self, now: Nanos, admitted: Admitted, outcome: Outcome) {
        self.word = self.word.leave(1);
        self.totals.finished.add(outcome, 1);
        if admitted.timed {
            self.unfinished.finish(level_of(admitted.in_flight), admitted.start);
            if let Some(control) = &mut self.control {
                let (start, in_flight) = (admitted.start, admitted.in_flight);
                control.push(Sample { start, end: now, in_flight, outcome });
            }
        }
    }

    /// Closes the window if it is due and puts the new limit in force.
    pub(super) fn tick(&mut self, now: Nanos) -> Option<&Record> {
        let control = self.control.as_mut().filter(|control| control.is_due(now))?;
        let record = control.close(now, &self.totals, self.word.in_flight(), &self.unfinished);
        self.word = self.word.with_limit(record.new);
        Some(record)
    }

    /// Lets the next waiter in, if it fits.
    pub(super) fn grant(&mut self, now: Nanos) -> Option<(u32, Admitted)> {
        if !self.word.has_waiting() || !self.word.admits_waiter(1) {
            return None;
        }
        let waiter = self.room.pop()?;
        self.word = self.word.with_waiting(!self.room.is_empty());
        Some((waiter.payload, self.admit(now)))
    }

    /// When the first waiter has waited too long.
    pub(super) fn next_expiry(&self) -> Option<Nanos> {
        self.room.first().map(|waiter| waiter.deadline)
    }

    /// The first waiter has waited too long: it is refused.
    pub(super) fn expire(&mut self) -> Option<u32> {
        let waiter = self.room.pop()?;
        self.word = self.word.with_waiting(!self.room.is_empty());
        self.totals.turned_away += 1;
        Some(waiter.payload)
    }

    /// A waiter's client gave up.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.room.remove(ticket);
        self.word = self.word.with_waiting(!self.room.is_empty());
    }
}
