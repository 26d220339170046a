//! A request in the waiting room, as its future sees it.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::{Entered, Gate};
use crate::admission::Spot;
use crate::sync::{AtomicU64, Ordering, lock};

/// What became of a waiter: set under the room's lock, read without it.
pub(super) const STILL_WAITING: u64 = 0;
pub(super) const EXPIRED: u64 = 1;
pub(super) const CLOSED: u64 = 2;
pub(super) const EVICTED: u64 = 3;
/// Admitted; its class is in the next byte, the level it met in the upper half.
const ADMITTED: u64 = 4;

/// The fate of somebody who entered.
pub(super) fn admitted(entered: Entered) -> u64 {
    ADMITTED | u64::from(entered.class) << 8 | u64::from(entered.level) << 32
}

/// What the room keeps with a waiter.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) fate: Arc<AtomicU64>,
    pub(super) waker: Option<Waker>,
}

impl Waiting {
    /// Tells the waiter. Its waker is to be called outside of the lock.
    pub(super) fn end(self, fate: u64) -> Option<Waker> {
        self.fate.store(fate, Ordering::Release);
        self.waker
    }
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// In.
    Admitted(Entered),
    /// Its deadline passed.
    Expired,
    /// Another took its place in the room.
    Evicted,
    /// The gate closed.
    Closed,
}

/// A request in the room. Dropping it gives up the place, or gives back what it was just given.
#[derive(Debug)]
pub(crate) struct Wait<'a> {
    gate: &'a Gate,
    fate: Arc<AtomicU64>,
    spot: Spot,
    weight: u32,
    done: bool,
}

impl<'a> Wait<'a> {
    pub(super) fn new(gate: &'a Gate, fate: Arc<AtomicU64>, spot: Spot, weight: u32) -> Self {
        Self { gate, fate, spot, weight, done: false }
    }

    fn fate(&self) -> Option<Fate> {
        let fate = self.fate.load(Ordering::Acquire);
        match fate & 0xFF {
            STILL_WAITING => None,
            EXPIRED => Some(Fate::Expired),
            CLOSED => Some(Fate::Closed),
            EVICTED => Some(Fate::Evicted),
            _ => Some(Fate::Admitted(Entered { level: (fate >> 32) as u32, class: (fate >> 8) as u32 & 0xFF })),
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
        let waker = &mut room.rooms.get_mut(self.spot).waker;
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
        room.rooms.remove(self.spot);
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
        if let Fate::Admitted(entered) = self.leave_room() {
            self.gate.leave_place(entered.class, self.weight);
        }
    }
}
