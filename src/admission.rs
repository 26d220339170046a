//! Admission: may a request be in flight now?
//!
//! Capacity is two numbers compared, limit and in flight, never a count of free permits: a lower
//! limit binds at once, however many wait. Both numbers and the flags live in one [`Word`], so that
//! whoever swaps it atomically sees and changes them together. Classes have a [`ClassWord`] each, for
//! the units they were granted out of it. The waiting room ([`Rooms`]) stands beside them.
//! All are plain values; the limiter's gate puts them into atomics and a mutex, the simulator
//! uses them as they are.

mod class;
mod class_room;
mod class_word;
mod lending;
mod order;
mod room;
mod rooms;
mod seen;
mod turns;

pub use class::{Class, DEFAULT_CLASS, Lend, MAX_CLASSES, Part, Share, partition};
pub use class_word::{ClassWord, MAX_CLASS_UNITS};
pub use lending::{Loan, loans};
pub use order::Order;
pub use room::{Ticket, Waiter, WaitingRoom};
pub use rooms::{Blocked, Capacity, Full, Rooms, Spot, Step};
pub use turns::TurnPolicy;

use crate::bounds::MAX_LIMIT;

/// What a limiter does with its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Requests past the limit wait or are refused.
    #[default]
    Enforce,
    /// Everything is admitted; what would have been refused is counted and reported.
    Shadow,
    /// Everything is admitted, nothing is judged.
    Off,
}

impl Mode {
    /// The label used in config, metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Mode::Enforce => "enforce",
            Mode::Shadow => "shadow",
            Mode::Off => "off",
        }
    }
}

/// The largest weight of one request, in units; a larger one counts as this.
pub const MAX_WEIGHT: u32 = 1 << 24;

const IN_FLIGHT_BITS: u32 = 31;
const IN_FLIGHT_MASK: u64 = (1 << IN_FLIGHT_BITS) - 1;
const LIMIT_MASK: u64 = MAX_LIMIT as u64;
const WAITING: u64 = 1 << 60;
const SHADOW: u64 = 1 << 61;
const OFF: u64 = 1 << 62;
const CLOSED: u64 = 1 << 63;

/// In flight (low 31 bits), limit (29 bits) and flags, in one machine word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word(pub u64);

impl Word {
    /// Nothing in flight, `limit` in force, enforcing.
    pub const fn new(limit: u32) -> Self {
        Self((limit as u64 & LIMIT_MASK) << IN_FLIGHT_BITS)
    }

    /// Units in flight.
    pub const fn in_flight(self) -> u32 {
        (self.0 & IN_FLIGHT_MASK) as u32
    }

    /// The limit in force.
    pub const fn limit(self) -> u32 {
        ((self.0 >> IN_FLIGHT_BITS) & LIMIT_MASK) as u32
    }

    /// Whether somebody waits: then nobody may walk past.
    pub const fn has_waiting(self) -> bool {
        self.0 & WAITING != 0
    }

    /// Whether nobody is admitted any more.
    pub const fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// The mode.
    pub const fn mode(self) -> Mode {
        if self.0 & OFF != 0 {
            Mode::Off
        } else if self.0 & SHADOW != 0 {
            Mode::Shadow
        } else {
            Mode::Enforce
        }
    }

    /// Whether `weight` units fit under the limit. What weighs more than the limit fits alone,
    /// when nothing else is in flight: it is never locked out for good.
    pub const fn fits(self, weight: u32) -> bool {
        let in_flight = self.in_flight();
        in_flight == 0 || in_flight + weight <= self.limit()
    }

    /// Whether a newcomer of `weight` units may enter without waiting.
    pub const fn admits(self, weight: u32) -> bool {
        if self.0 & (WAITING | SHADOW | OFF | CLOSED) == 0 {
            return self.fits(weight);
        }
        // Shadow and off admit past the limit, as long as the count itself has room.
        self.0 & CLOSED == 0 && self.0 & (SHADOW | OFF) != 0 && self.has_room_to_count(weight)
    }

    /// Whether the next waiter, of `weight` units, may enter. It need not fear those who wait.
    pub const fn admits_waiter(self, weight: u32) -> bool {
        Word(self.0 & !WAITING).admits(weight)
    }

    const fn has_room_to_count(self, weight: u32) -> bool {
        self.in_flight() as u64 + (weight as u64) < IN_FLIGHT_MASK
    }

    /// With `weight` units more in flight.
    #[must_use]
    pub const fn enter(self, weight: u32) -> Self {
        Self(self.0 + weight as u64)
    }

    /// With `weight` units fewer in flight.
    #[must_use]
    pub const fn leave(self, weight: u32) -> Self {
        Self(self.0 - weight as u64)
    }

    /// With another limit.
    #[must_use]
    pub const fn with_limit(self, limit: u32) -> Self {
        Self(self.0 & !(LIMIT_MASK << IN_FLIGHT_BITS) | (limit as u64 & LIMIT_MASK) << IN_FLIGHT_BITS)
    }

    /// With the note that somebody waits, or that nobody does.
    #[must_use]
    pub const fn with_waiting(self, waiting: bool) -> Self {
        Self(if waiting { self.0 | WAITING } else { self.0 & !WAITING })
    }

    /// In another mode.
    #[must_use]
    pub const fn with_mode(self, mode: Mode) -> Self {
        let flags = match mode {
            Mode::Enforce => 0,
            Mode::Shadow => SHADOW,
            Mode::Off => OFF,
        };
        Self(self.0 & !(SHADOW | OFF) | flags)
    }

    /// Closed for newcomers.
    #[must_use]
    pub const fn closed(self) -> Self {
        Self(self.0 | CLOSED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_in_flight_and_flags_do_not_touch_each_other() {
        let word = Word::new(MAX_LIMIT).enter(7).with_waiting(true).with_mode(Mode::Shadow).with_limit(5).leave(3);
        assert_eq!((word.in_flight(), word.limit(), word.mode()), (4, 5, Mode::Shadow));
        assert!(word.has_waiting() && !word.is_closed());
        assert_eq!(word.closed().with_mode(Mode::Enforce).with_waiting(false).with_limit(9).in_flight(), 4);
    }

    #[test]
    fn over_weight_enters_alone_and_only_alone() {
        let empty = Word::new(4);
        assert!(empty.admits(100));
        assert!(!empty.enter(1).admits(100));
        assert!(!empty.enter(100).admits(1), "and nobody beside it");
    }

    #[test]
    fn a_lower_limit_binds_though_more_is_in_flight() {
        let word = Word::new(20).enter(20).with_limit(2);
        assert!(!word.leave(17).admits(1), "three in flight");
        assert!(word.leave(19).admits(1), "one in flight");
    }

    #[test]
    fn nobody_walks_past_those_who_wait() {
        let word = Word::new(4).with_waiting(true);
        assert!(!word.admits(1));
        assert!(word.admits_waiter(1));
    }

    #[test]
    fn shadow_and_off_admit_past_the_limit_but_not_past_the_count() {
        for mode in [Mode::Shadow, Mode::Off] {
            let word = Word::new(1).enter(5).with_mode(mode);
            assert!(word.admits(1));
            assert!(!word.enter(IN_FLIGHT_MASK as u32 - 6).admits(1), "the count is full");
            assert!(!word.closed().admits(1));
        }
    }
}
