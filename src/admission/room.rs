//! The waiting room: a bounded FIFO of requests in front of a full limiter.
//!
//! A plain value: it knows who waits, in which order, how heavy, and until when. It admits nobody;
//! it only answers who is next. Any waiter can leave from any place in constant time, so a crowd
//! that gives up leaves nothing behind.

use crate::time::Nanos;

/// A place in the room. Not valid any more once its waiter has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u32);

/// Somebody who waits.
#[derive(Debug)]
pub struct Waiter<T> {
    /// Units it wants.
    pub weight: u32,
    /// When it is no longer to be admitted.
    pub deadline: Nanos,
    /// What the owner of the room keeps with it.
    pub payload: T,
}

#[derive(Debug)]
struct Place<T> {
    waiter: Option<Waiter<T>>,
    before: u32,
    after: u32,
}

const NOBODY: u32 = u32::MAX;

/// A doubly linked FIFO in a vector that never grows past the most that ever waited at once.
#[derive(Debug)]
pub struct WaitingRoom<T> {
    places: Vec<Place<T>>,
    free: u32,
    first: u32,
    last: u32,
    len: u32,
    units: u64,
}

impl<T> Default for WaitingRoom<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: NOBODY, first: NOBODY, last: NOBODY, len: 0, units: 0 }
    }
}

impl<T> WaitingRoom<T> {
    /// Puts a waiter at the end.
    pub fn push(&mut self, waiter: Waiter<T>) -> Ticket {
        self.units += u64::from(waiter.weight);
        self.len += 1;
        let place = Place { waiter: Some(waiter), before: self.last, after: NOBODY };
        let at = if self.free == NOBODY {
            self.places.push(place);
            u32::try_from(self.places.len() - 1).expect("a room holds fewer than 2^32 waiters")
        } else {
            let at = self.free;
            self.free = self.places[at as usize].after;
            self.places[at as usize] = place;
            at
        };
        match self.last {
            NOBODY => self.first = at,
            last => self.places[last as usize].after = at,
        }
        self.last = at;
        Ticket(at)
    }

    /// Who is next.
    pub fn first(&self) -> Option<&Waiter<T>> {
        self.places.get(self.first as usize)?.waiter.as_ref()
    }

    /// Who came last.
    pub fn last(&self) -> Option<&Waiter<T>> {
        self.places.get(self.last as usize)?.waiter.as_ref()
    }

    /// The place of who is next.
    pub fn first_ticket(&self) -> Option<Ticket> {
        (self.first != NOBODY).then_some(Ticket(self.first))
    }

    /// The place of who came last.
    pub fn last_ticket(&self) -> Option<Ticket> {
        (self.last != NOBODY).then_some(Ticket(self.last))
    }

    /// A waiter that still waits.
    pub fn get_mut(&mut self, ticket: Ticket) -> &mut Waiter<T> {
        self.places[ticket.0 as usize].waiter.as_mut().expect("a ticket is of one who still waits")
    }

    /// Takes out who is next.
    pub fn pop(&mut self) -> Option<Waiter<T>> {
        (self.first != NOBODY).then(|| self.remove(Ticket(self.first)))
    }

    /// Takes out a waiter from wherever it stands. The ticket must be of one who still waits.
    pub fn remove(&mut self, ticket: Ticket) -> Waiter<T> {
        let at = ticket.0;
        let place = &mut self.places[at as usize];
        let waiter = place.waiter.take().expect("a ticket is given back once");
        let (before, after) = (place.before, place.after);
        place.after = self.free;
        self.free = at;
        match before {
            NOBODY => self.first = after,
            before => self.places[before as usize].after = after,
        }
        match after {
            NOBODY => self.last = before,
            after => self.places[after as usize].before = before,
        }
        self.len -= 1;
        self.units -= u64::from(waiter.weight);
        waiter
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The units that all of them want.
    pub fn units(&self) -> u64 {
        self.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    fn waiter(payload: u32) -> Waiter<u32> {
        Waiter { weight: 1 + payload % 3, deadline: Nanos::NEVER, payload }
    }

    #[test]
    fn leaves_from_head_middle_and_tail() {
        for leaves in 0..3 {
            let mut room = WaitingRoom::default();
            let tickets: Vec<_> = (0..3).map(|i| room.push(waiter(i))).collect();
            room.remove(tickets[leaves]);
            let rest: Vec<_> = std::iter::from_fn(|| room.pop()).map(|w| w.payload as usize).collect();
            assert_eq!(rest, (0..3).filter(|i| *i != leaves).collect::<Vec<_>>());
            assert_eq!((room.len(), room.units()), (0, 0));
        }
    }

    #[test]
    fn a_million_who_give_up_leave_nothing_behind() {
        let mut room = WaitingRoom::default();
        room.push(waiter(0));
        for i in 0..1_000_000 {
            let ticket = room.push(waiter(i));
            room.remove(ticket);
        }
        assert_eq!((room.len(), room.places.len()), (1, 2));
    }

    proptest! {
        #[test]
        fn behaves_like_a_plain_queue(operations in prop::collection::vec((0..3_u8, 0..16_usize), 1..200)) {
            let mut room = WaitingRoom::default();
            let mut model: VecDeque<(u32, Ticket)> = VecDeque::new();
            for (next, (operation, at)) in (0_u32..).zip(operations) {
                match operation {
                    0 => model.push_back((next, room.push(waiter(next)))),
                    1 => prop_assert_eq!(room.pop().map(|w| w.payload), model.pop_front().map(|(p, _)| p)),
                    _ => if let Some((payload, ticket)) = model.remove(at) {
                        prop_assert_eq!(room.remove(ticket).payload, payload);
                    },
                }
                prop_assert_eq!(room.first().map(|w| w.payload), model.front().map(|(p, _)| *p));
                prop_assert_eq!(room.last().map(|w| w.payload), model.back().map(|(p, _)| *p));
                prop_assert_eq!(room.first_ticket(), model.front().map(|(_, t)| *t));
                prop_assert_eq!(room.last_ticket(), model.back().map(|(_, t)| *t));
                prop_assert_eq!(room.len() as usize, model.len());
                prop_assert_eq!(room.units(), model.iter().map(|(p, _)| u64::from(waiter(*p).weight)).sum::<u64>());
            }
        }
    }
}
