//! The waiting room of all classes: who enters next, who makes room.
//!
//! Classes below their reserve go first, then higher priorities, then who came first; within a class
//! the [`class room`](super::class_room) decides. A class that is at its cap keeps nobody else
//! waiting; a request that does not fit into what all share does, except for those whose class has
//! units of its own. A plain value: it asks a [`Capacity`] whether somebody enters.

use super::class::{Class, MAX_CLASSES};
use super::class_room::{ClassRoom, Next, Place};
use super::room::Waiter;
use super::turns::TurnPolicy;
use crate::time::Nanos;

/// Why somebody does not enter now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Its class has all it may have.
    Class,
    /// What all share is used up.
    Shared,
}

/// What there is to enter into.
pub trait Capacity {
    /// What is known of somebody who entered.
    type Entered;

    /// Whether a class is below its reserve with `weight` units more.
    fn claims(&self, class: usize, weight: u32) -> bool;

    /// Lets somebody of a class in, if it fits. With `own_only` it takes nothing that all share.
    ///
    /// # Errors
    /// [`Blocked`] says what does not suffice.
    fn enter(&self, class: usize, weight: u32, own_only: bool) -> Result<Self::Entered, Blocked>;
}

/// A place in the room. Not valid any more once its waiter has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spot {
    class: u8,
    place: Place,
}

/// What happened next in the room.
#[derive(Debug)]
pub enum Step<T, E> {
    /// Somebody entered.
    Admitted(Waiter<T>, E),
    /// Somebody had waited too long.
    Expired(Waiter<T>),
    /// Nobody enters now. `for_shared` tells whether somebody waits for what all share.
    Nobody {
        /// Somebody waits for what all share.
        for_shared: bool,
    },
}

/// The waiting room of a limiter.
#[derive(Debug)]
pub struct Rooms<T> {
    rooms: Vec<ClassRoom<T>>,
    len: u32,
    arrivals: u64,
}

impl<T> Default for Rooms<T> {
    fn default() -> Self {
        Self { rooms: vec![ClassRoom::default()], len: 0, arrivals: 0 }
    }
}

impl<T> Rooms<T> {
    /// Takes over priorities and orders, by position; at most [`MAX_CLASSES`]. Whoever waits stays.
    pub fn configure(&mut self, classes: &[Class]) {
        while self.rooms.len() < classes.len().min(MAX_CLASSES) {
            self.rooms.push(ClassRoom::default());
        }
        for (room, class) in self.rooms.iter_mut().zip(classes) {
            room.configure(class);
        }
    }

    /// Takes over how turns are shared between tenants.
    pub fn set_turns(&mut self, policy: &TurnPolicy) {
        for room in &mut self.rooms {
            room.set_turns(policy.clone());
        }
    }

    /// Lets somebody wait.
    pub fn push(&mut self, now: Nanos, class: usize, tenant: Option<u64>, waiter: Waiter<T>) -> Spot {
        self.arrivals += 1;
        self.len += 1;
        let place = self.rooms[class].push(now, self.arrivals, tenant, waiter);
        Spot { class: class as u8, place }
    }

    /// Makes room for a newcomer to a room in which `most` of its class and `most_in_all` may wait,
    /// if it is to be made at the cost of another: a tenant with more of its class waiting,
    /// or somebody of a lower priority.
    ///
    /// # Errors
    /// When the newcomer is the one to go.
    pub fn make_room(
        &mut self,
        now: Nanos,
        (class, tenant): (usize, Option<u64>),
        most: u32,
        most_in_all: u32,
    ) -> Result<Option<Waiter<T>>, Full> {
        let own = &self.rooms[class];
        let goes = if own.len() >= most {
            (class, own.place_for(tenant, now))
        } else if self.len >= most_in_all {
            let lower = (0..self.rooms.len()).filter(|at| self.rooms[*at].len() > 0);
            match lower.min_by_key(|at| self.rooms[*at].priority) {
                Some(least) if self.rooms[least].priority < own.priority => {
                    (least, self.rooms[least].least_urgent(now))
                }
                _ => (class, own.place_for(tenant, now)),
            }
        } else {
            return Ok(None);
        };
        let (class, Some(place)) = goes else { return Err(Full) };
        Ok(Some(self.remove(Spot { class: class as u8, place })))
    }

    /// Takes out somebody who gives up. The spot must be of one who still waits.
    pub fn remove(&mut self, spot: Spot) -> Waiter<T> {
        self.len -= 1;
        self.rooms[usize::from(spot.class)].remove(spot.place)
    }

    /// Takes out anybody; for closing.
    pub fn pop(&mut self, now: Nanos) -> Option<Waiter<T>> {
        let class = (0..self.rooms.len()).find(|at| self.rooms[*at].len() > 0)?;
        let place = self.rooms[class].next(now)?.place;
        Some(self.remove(Spot { class: class as u8, place }))
    }

    /// Lets the next one in, if there is one that fits.
    pub fn step<C: Capacity>(&mut self, now: Nanos, capacity: &C) -> Step<T, C::Entered> {
        let mut line = [const { None }; MAX_CLASSES];
        let mut waiting = 0;
        for class in 0..self.rooms.len() {
            let room = &self.rooms[class];
            let Some(next) = room.next(now) else { continue };
            if next.expired {
                return Step::Expired(self.remove(Spot { class: class as u8, place: next.place }));
            }
            let first = (!capacity.claims(class, next.weight), u8::MAX - room.priority, next.seq);
            line[waiting] = Some((first, class, next));
            waiting += 1;
        }
        let line = &mut line[..waiting];
        line.sort_unstable_by_key(|slot| slot.as_ref().map(|(first, _, _)| *first));
        let mut for_shared = false;
        for (_, class, next) in line.iter().flatten() {
            let class = *class;
            match capacity.enter(class, next.weight, for_shared) {
                Ok(entered) => return Step::Admitted(self.take(class, next, now), entered),
                Err(Blocked::Shared) => for_shared = true,
                Err(Blocked::Class) => {}
            }
        }
        Step::Nobody { for_shared }
    }

    fn take(&mut self, class: usize, next: &Next, now: Nanos) -> Waiter<T> {
        self.len -= 1;
        self.rooms[class].take(next, now)
    }

    /// What the room's owner keeps with somebody who still waits.
    pub fn get_mut(&mut self, spot: Spot) -> &mut T {
        self.rooms[usize::from(spot.class)].get_mut(spot.place)
    }

    /// How many wait.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many of a class wait.
    pub fn len_of(&self, class: usize) -> u32 {
        self.rooms.get(class).map_or(0, ClassRoom::len)
    }

    /// How many are served before a newcomer, about.
    pub fn ahead(&self, now: Nanos, class: usize, tenant: Option<u64>) -> u32 {
        let own = &self.rooms[class];
        let others = self.rooms.iter().enumerate().filter(|(at, room)| *at != class && room.priority >= own.priority);
        own.ahead(tenant, now).saturating_add(others.map(|(_, room)| room.len()).sum())
    }
}

/// The room is full, and the newcomer is the one to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

#[cfg(test)]
mod tests;
