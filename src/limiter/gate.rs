//! The gate: the admission values made safe for threads.
//!
//! Limit, in flight and flags are one atomic word. Who enters swaps it, so that in flight can
//! never pass the limit that was in force at that moment; who leaves subtracts. Neither takes a
//! lock. The mutex guards the waiting room only.
//!
//! No wake-up is lost, because the "somebody waits" flag lives in the same word: a waiter sets it
//! before it looks for room a last time, so whoever leaves either left before that look, or sees
//! the flag and serves the room. The flag is set and cleared under the room's lock only.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::admission::{Mode, Ticket, Waiter, WaitingRoom, Word};
use crate::clock::Clock;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, lock};
use crate::time::Nanos;

/// What became of a waiter: set under the room's lock, read without it.
const STILL_WAITING: u64 = 0;
const EXPIRED: u64 = 1;
const CLOSED: u64 = 2;
/// Admitted; the in-flight level it met is in the upper half.
const ADMITTED: u64 = 3;

/// Wakers are called outside the lock, so many at a time.
const BATCH: usize = 32;

#[derive(Debug)]
struct Waiting {
    fate: Arc<AtomicU64>,
    waker: Option<Waker>,
}

/// Its own cache line: threads fight over the word and over nothing else.
#[derive(Debug)]
#[repr(align(128))]
struct Line(AtomicU64);

/// Lets requests in up to the limit, keeps the rest in order.
#[derive(Debug)]
pub(crate) struct Gate {
    word: Line,
    clock: Clock,
    room: Mutex<WaitingRoom<Waiting>>,
    /// Mirror of the room's length, for those who do not lock.
    queued: AtomicU64,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In: the units in flight with it.
    Admitted(u32),
    /// Its deadline passed.
    Expired,
    /// The gate closed.
    Closed,
}

/// What became of a request that came to the room.
#[derive(Debug)]
pub(crate) enum Arrival<'a> {
    /// There was room after all: the units in flight with it.
    Admitted(u32),
    /// It waits.
    Waits(Wait<'a>),
    /// The gate is closed.
    Closed,
}

impl Gate {
    pub(crate) fn new(limit: u32, mode: Mode, clock: Clock) -> Self {
        Self {
            word: Line(AtomicU64::new(Word::new(limit).with_mode(mode).0)),
            clock,
            room: Mutex::new(WaitingRoom::default()),
            queued: AtomicU64::new(0),
        }
    }

    /// Limit, in flight and flags at this moment.
    pub(crate) fn word(&self) -> Word {
        Word(self.word.0.load(Ordering::Acquire))
    }

    /// How many wait.
    pub(crate) fn queued(&self) -> u32 {
        u32::try_from(self.queued.load(Ordering::Relaxed)).unwrap_or(u32::MAX)
    }

    /// Enters without waiting. Gives the word with the newcomer in it, or the word that refused.
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
        let before = Word(self.word.0.fetch_sub(u64::from(weight), Ordering::AcqRel));
        debug_assert!(before.in_flight() >= weight, "more units left than entered");
        if before.has_waiting() {
            self.serve();
        }
    }

    /// Puts a request into the room, unless there is space in flight or `may_wait(ahead)`, asked with
    /// the number of those before it, refuses. It is served until `deadline`, which `may_wait` gives.
    pub(crate) fn arrive<E>(
        &self,
        weight: u32,
        may_wait: impl FnOnce(u32) -> Result<Nanos, E>,
    ) -> Result<Arrival<'_>, E> {
        let mut room = lock(&self.room);
        if self.word().is_closed() {
            return Ok(Arrival::Closed);
        }
        if room.is_empty()
            && let Ok(word) = self.enter_if(weight, |word| word.admits_waiter(weight))
        {
            return Ok(Arrival::Admitted(word.in_flight()));
        }
        let deadline = may_wait(room.len())?;
        let fate = Arc::new(AtomicU64::new(STILL_WAITING));
        let ticket = room.push(Waiter { weight, deadline, payload: Waiting { fate: Arc::clone(&fate), waker: None } });
        self.word.0.fetch_or(Word::new(0).with_waiting(true).0, Ordering::AcqRel);
        // The last look, after the flag: nobody who left before it saw that we wait.
        self.serve_locked(room);
        Ok(Arrival::Waits(Wait { gate: self, fate, ticket, weight, done: false }))
    }

    /// Changes the limit at once. Tells whether the room is to be served (it may be lower or higher).
    #[must_use = "serve the room when somebody waits"]
    pub(crate) fn set_limit(&self, limit: u32) -> bool {
        self.update(|word| word.with_limit(limit)).has_waiting()
    }

    /// Changes the mode at once. Tells whether the room is to be served.
    #[must_use = "serve the room when somebody waits"]
    pub(crate) fn set_mode(&self, mode: Mode) -> bool {
        self.update(|word| word.with_mode(mode)).has_waiting()
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
        self.update(Word::closed);
        let mut wake = Vec::new();
        {
            let mut room = lock(&self.room);
            while let Some(waiter) = room.pop() {
                waiter.payload.fate.store(CLOSED, Ordering::Release);
                wake.extend(waiter.payload.waker);
            }
            self.note_len(&room);
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// Admits waiters in order as long as there is room; those whose deadline has passed leave
    /// at their turn without using a place.
    pub(crate) fn serve(&self) {
        self.serve_locked(lock(&self.room));
    }

    fn serve_locked<'a>(&'a self, mut room: MutexGuard<'a, WaitingRoom<Waiting>>) {
        let now = self.clock.now();
        loop {
            let mut wake = [const { None }; BATCH];
            let mut served = 0;
            while served < BATCH
                && let Some(first) = room.first()
            {
                let fate = if first.deadline <= now {
                    EXPIRED
                } else {
                    let weight = first.weight;
                    match self.enter_if(weight, |word| word.admits_waiter(weight)) {
                        Ok(word) => ADMITTED | u64::from(word.in_flight()) << 32,
                        Err(_) => break,
                    }
                };
                let waiter = room.pop().expect("the first waiter is there");
                waiter.payload.fate.store(fate, Ordering::Release);
                wake[served] = waiter.payload.waker;
                served += 1;
            }
            self.note_len(&room);
            drop(room);
            wake.into_iter().flatten().for_each(Waker::wake);
            if served < BATCH {
                return;
            }
            room = lock(&self.room);
        }
    }

    /// Under the room's lock: the mirror, and the flag when the room is empty.
    fn note_len(&self, room: &WaitingRoom<Waiting>) {
        self.queued.store(u64::from(room.len()), Ordering::Relaxed);
        if room.is_empty() {
            self.word.0.fetch_and(!Word::new(0).with_waiting(true).0, Ordering::AcqRel);
        }
    }
}

/// A request in the room. Dropping it gives up the place, or gives back what it was just given.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    gate: &'a Gate,
    fate: Arc<AtomicU64>,
    ticket: Ticket,
    weight: u32,
    done: bool,
}

impl Wait<'_> {
    fn fate(&self) -> Option<Fate> {
        let fate = self.fate.load(Ordering::Acquire);
        match fate & u64::from(u32::MAX) {
            STILL_WAITING => None,
            EXPIRED => Some(Fate::Expired),
            CLOSED => Some(Fate::Closed),
            _ => Some(Fate::Admitted((fate >> 32) as u32)),
        }
    }

    /// Ready when the wait has ended. An admitted waiter owns its units from then on.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fate> {
        if let Some(fate) = self.fate() {
            self.done = true;
            return Poll::Ready(fate);
        }
        let mut room = lock(&self.gate.room);
        // Fates change under the lock only: this look is final.
        if let Some(fate) = self.fate() {
            self.done = true;
            return Poll::Ready(fate);
        }
        let waker = &mut room.get_mut(self.ticket).payload.waker;
        if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Gives up because time ran out; a place that was given in the same moment is taken all the same.
    pub(crate) fn give_up(mut self) -> Fate {
        let fate = self.leave_room();
        self.done = true;
        fate
    }

    fn leave_room(&mut self) -> Fate {
        let mut room = lock(&self.gate.room);
        if let Some(fate) = self.fate() {
            return fate;
        }
        room.remove(self.ticket);
        // Those behind may fit where this one did not.
        self.gate.serve_locked(room);
        Fate::Expired
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        if let Fate::Admitted(_) = self.leave_room() {
            self.gate.leave(self.weight);
        }
    }
}

#[cfg(all(test, not(tidegate_loom)))]
mod tests;

#[cfg(all(test, tidegate_loom))]
mod loom_tests;
