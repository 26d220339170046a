//! The gate: the admission values made safe for threads.
//!
//! Limit, in flight and flags are one atomic word. Who enters swaps it, so that in flight can
//! never pass the limit that was in force at that moment; who leaves subtracts. Neither takes a
//! lock. With classes, what a class holds counts as in flight in that word, and a request may enter
//! by its class's own word alone (`classes`). The mutex guards the waiting room, and the division of
//! the limit between classes.
//!
//! No wake-up is lost, because the "somebody waits" flag lives in the same word: a waiter sets it
//! before it looks for room a last time, so whoever leaves either left before that look, or sees
//! the flag and serves the room. The flags are set and cleared under the room's lock only.

mod classes;
mod division;
mod wait;

use std::sync::{Arc, OnceLock};
use std::task::Waker;

pub(crate) use classes::{ClassTable, Refusal};
pub(crate) use wait::{Fate, Wait};

use crate::admission::{Blocked, Capacity, Class, MAX_CLASSES, Mode, Rooms, Step, TurnPolicy, Waiter, Word};
use crate::clock::Clock;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::time::Nanos;
use wait::{CLOSED, EVICTED, EXPIRED, STILL_WAITING, Waiting, admitted};

/// Wakers are called outside the lock, so many at a time.
const BATCH: usize = 32;

/// Its own cache line: threads fight over the word and over nothing else.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What the mutex guards.
#[derive(Debug, Default)]
struct Room {
    rooms: Rooms<Waiting>,
    division: division::Division,
}

/// Lets requests in up to the limit, keeps the rest in order.
#[derive(Debug)]
pub(crate) struct Gate {
    word: Line,
    clock: Clock,
    room: Mutex<Room>,
    /// Mirror of the room's length, for those who do not lock.
    queued: AtomicU64,
    /// Set when the first classes come, and then for good.
    classes: OnceLock<Box<ClassTable>>,
}

/// What a request brings to the room.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    /// Its class's position; 0 without classes.
    pub(crate) class: usize,
    pub(crate) tenant: Option<u64>,
    pub(crate) weight: u32,
}

/// For how long it may wait, and how many may wait with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) deadline: Nanos,
    pub(crate) most_of_class: u32,
    pub(crate) most: u32,
}

/// Somebody is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entered {
    /// Units in flight with it.
    pub(crate) level: u32,
    /// Its class's position plus one; 0 when it was counted for no class.
    pub(crate) class: u32,
}

/// What became of a request that came to the room.
#[derive(Debug)]
pub(crate) enum Arrival<'a> {
    /// There was room after all.
    Admitted(Entered),
    /// It waits.
    Waits(Wait<'a>),
    /// So many wait already that it may not.
    Full,
    /// The gate is closed.
    Closed,
}

impl Gate {
    pub(crate) fn new(limit: u32, mode: Mode, clock: Clock) -> Self {
        Self {
            word: Line(AtomicU64::new(Word::new(limit).with_mode(mode).0)),
            clock,
            room: Mutex::new(Room::default()),
            queued: AtomicU64::new(0),
            classes: OnceLock::new(),
        }
    }

    /// Limit, flags and what is in flight or held for a class, at this moment.
    pub(crate) fn word(&self) -> Word {
        Word(self.word.0.load(Ordering::Acquire))
    }

    /// Units in flight. With classes it is summed up, and may be off while others come and go.
    pub(crate) fn in_flight(&self) -> u32 {
        let occupied = self.word().in_flight();
        self.classes().map_or(occupied, |table| occupied.saturating_sub(table.spare()))
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> u32 {
        u32::try_from(self.queued.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Enters without waiting, for no class. Gives the word with the newcomer in it, or the word that
    /// refused.
    #[inline]
    pub(crate) fn try_enter(&self, weight: u32) -> Result<Word, Word> {
        self.enter_if(weight, |word| word.admits(weight))
    }

    #[inline]
    fn enter_if(&self, weight: u32, admits: impl Fn(Word) -> bool) -> Result<Word, Word> {
        let mut word = Word(self.word.0.load(Ordering::Relaxed));
        while admits(word) {
            let entered = word.enter(weight);
            match self.word.0.compare_exchange_weak(word.0, entered.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Ok(entered),
                Err(now) => word = Word(now),
            }
        }
        Err(word)
    }

    /// Leaves, and serves those who wait. The clock is read only when somebody does.
    #[inline]
    pub(crate) fn leave(&self, weight: u32) {
        if self.give_back(weight) {
            self.serve();
        }
    }

    /// Gives units back to the common word. Tells whether somebody waits for them.
    #[inline]
    fn give_back(&self, units: u32) -> bool {
        let before = Word(self.word.0.fetch_sub(u64::from(units), Ordering::AcqRel));
        debug_assert!(before.in_flight() >= units, "more units left than entered");
        before.has_waiting()
    }

    /// Puts a request into the room, unless there is space in flight or `may_wait(ahead)`, asked with
    /// the number of those before it, refuses.
    pub(crate) fn arrive<E>(
        &self,
        ask: Ask,
        may_wait: impl FnOnce(u32) -> Result<Patience, E>,
    ) -> Result<Arrival<'_>, E> {
        let now = self.clock.now();
        let mut room = lock(&self.room);
        if self.word().is_closed() {
            return Ok(Arrival::Closed);
        }
        if let Some(entered) = self.enter_locked(&mut room, ask) {
            return Ok(Arrival::Admitted(entered));
        }
        let patience = may_wait(room.rooms.ahead(now, ask.class, ask.tenant))?;
        let who = (ask.class, ask.tenant);
        let Ok(evicted) = room.rooms.make_room(now, who, patience.most_of_class, patience.most) else {
            return Ok(Arrival::Full);
        };
        let evicted = evicted.and_then(|waiter| waiter.payload.end(EVICTED));
        let fate = Arc::new(AtomicU64::new(STILL_WAITING));
        let payload = Waiting { fate: Arc::clone(&fate), waker: None };
        let waiter = Waiter { weight: ask.weight, deadline: patience.deadline, payload };
        let spot = room.rooms.push(now, ask.class, ask.tenant, waiter);
        self.note_waiter(ask.class);
        // The last look, after the flag: nobody who left before it saw that we wait.
        self.serve_locked(room);
        evicted.into_iter().for_each(Waker::wake);
        Ok(Arrival::Waits(Wait::new(self, fate, spot, ask.weight)))
    }

    /// Enters if there is room and nobody waits who would have to go first.
    fn enter_locked(&self, room: &mut Room, ask: Ask) -> Option<Entered> {
        if let Some(table) = self.classes() {
            return self.enter_class_locked(table, room, ask);
        }
        let word =
            room.rooms.is_empty().then(|| self.enter_if(ask.weight, |word| word.admits_waiter(ask.weight)))?.ok()?;
        Some(Entered { level: word.in_flight(), class: 0 })
    }

    /// Changes the limit at once. Tells whether the room is to be served (it may be lower or higher).
    #[must_use = "serve the room when somebody waits"]
    pub(crate) fn set_limit(&self, limit: u32) -> bool {
        self.change(|word| word.with_limit(limit))
    }

    /// Changes the mode at once. Tells whether the room is to be served.
    #[must_use = "serve the room when somebody waits"]
    pub(crate) fn set_mode(&self, mode: Mode) -> bool {
        self.change(|word| word.with_mode(mode))
    }

    fn change(&self, change: impl Fn(Word) -> Word) -> bool {
        let Some(table) = self.classes() else { return self.update(change).has_waiting() };
        let mut room = lock(&self.room);
        self.divide(table, &mut room, change);
        !room.rooms.is_empty()
    }

    /// Puts other classes in place, by position. Those who are in flight or wait keep their places.
    pub(crate) fn set_classes(&self, classes: Vec<Class>) {
        let mut room = lock(&self.room);
        room.rooms.configure(&classes);
        room.division.set_classes(classes);
        let table = self.classes.get_or_init(Box::default);
        (0..MAX_CLASSES).filter(|at| room.rooms.len_of(*at) > 0).for_each(|at| table.note_queued(at));
        self.divide(table, &mut room, |word| word);
        self.serve_locked(room);
    }

    /// Takes over how turns are shared between tenants.
    pub(crate) fn set_turns(&self, policy: &TurnPolicy) {
        lock(&self.room).rooms.set_turns(policy);
    }

    /// How many of a class wait.
    pub(crate) fn queued_of(&self, class: usize) -> u32 {
        lock(&self.room).rooms.len_of(class)
    }

    fn update(&self, change: impl Fn(Word) -> Word) -> Word {
        let mut word = Word(self.word.0.load(Ordering::Relaxed));
        loop {
            let changed = change(word);
            match self.word.0.compare_exchange_weak(word.0, changed.0, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return changed,
                Err(now) => word = Word(now),
            }
        }
    }

    /// Admits nobody any more, and sends away those who wait. Permits that are out stay valid.
    pub(crate) fn close(&self) {
        let mut wake = Vec::new();
        {
            let mut room = lock(&self.room);
            match self.classes() {
                Some(table) => self.divide(table, &mut room, Word::closed),
                None => drop(self.update(Word::closed)),
            }
            let now = self.clock.now();
            while let Some(waiter) = room.rooms.pop(now) {
                wake.extend(waiter.payload.end(CLOSED));
            }
            self.note(&mut room, false);
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// Admits waiters in order as long as there is room; those whose deadline has passed leave
    /// at their turn without using a place.
    pub(crate) fn serve(&self) {
        self.serve_locked(lock(&self.room));
    }

    fn serve_locked<'a>(&'a self, mut room: MutexGuard<'a, Room>) {
        let now = self.clock.now();
        loop {
            let mut wake = [const { None }; BATCH];
            let mut served = 0;
            let mut for_shared = false;
            while served < BATCH {
                self.fund(&mut room);
                let (waiter, fate) = match room.rooms.step(now, &Inside(self)) {
                    Step::Admitted(waiter, entered) => (waiter, admitted(entered)),
                    Step::Expired(waiter) => (waiter, EXPIRED),
                    Step::Nobody { for_shared: shared } => {
                        for_shared = shared;
                        break;
                    }
                };
                wake[served] = waiter.payload.end(fate);
                served += 1;
            }
            let again = self.note(&mut room, for_shared);
            drop(room);
            wake.into_iter().flatten().for_each(Waker::wake);
            if served < BATCH && !again {
                return;
            }
            room = lock(&self.room);
        }
    }

    /// Under the room's lock: before a waiter's last look.
    fn note_waiter(&self, class: usize) {
        self.word.0.fetch_or(Word::new(0).with_waiting(true).0, Ordering::AcqRel);
        if let Some(table) = self.classes() {
            table.note_queued(class);
            self.tighten(table);
            table.settle();
        }
    }

    /// Under the room's lock, after a look at all: the mirror and the flags. Tells whether another look
    /// is due, since the flag was set only now.
    fn note(&self, room: &mut Room, for_shared: bool) -> bool {
        self.queued.store(u64::from(room.rooms.len()), Ordering::Relaxed);
        if let Some(table) = self.classes() {
            table.note_drained(&room.rooms);
        }
        let waits = for_shared || room.division.unfunded;
        let waited = self.word().has_waiting();
        if waits != waited {
            self.update(|word| word.with_waiting(waits));
            if let Some(table) = self.classes() {
                table.settle();
            }
        }
        waits && !waited
    }
}

/// What the room asks who is next.
struct Inside<'a>(&'a Gate);

impl Capacity for Inside<'_> {
    type Entered = Entered;

    fn claims(&self, class: usize, weight: u32) -> bool {
        self.0.classes().is_some_and(|table| table.claims(class, weight))
    }

    fn enter(&self, class: usize, weight: u32, own_only: bool) -> Result<Entered, Blocked> {
        if let Some(table) = self.0.classes() {
            return self.0.enter_waiter(table, class, weight, own_only);
        }
        match self.0.enter_if(weight, |word| word.admits_waiter(weight)) {
            Ok(word) => Ok(Entered { level: word.in_flight(), class: 0 }),
            Err(_) => Err(Blocked::Shared),
        }
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;

#[cfg(all(test, tidegate_loom))]
mod loom_tests;
