//! What a class has and uses, in one machine word.
//!
//! `granted` units were taken out of the limiter's common word for this class; `used` of them are in
//! flight. A request enters its class when `used` stays within `granted`, and that alone: the units
//! were counted against the limit when they were granted, so class and total are checked in one step.
//! The version changes whenever the class's part of the limit does, so that nobody swaps a word by an
//! outdated part.

/// The most units that one class has; a request of a class weighs at most as much.
pub const MAX_CLASS_UNITS: u32 = (1 << BITS) - 1;

const BITS: u32 = 24;
const MASK: u64 = (1 << BITS) - 1;
const VERSION: u64 = 1 << (2 * BITS);
const VERSION_MASK: u64 = 0xFFF << (2 * BITS);
const QUEUED: u64 = 1 << 60;
const TIGHT: u64 = 1 << 61;

/// Used (24 bits), granted (24 bits), a version and two flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassWord(pub u64);

impl ClassWord {
    /// Units in flight.
    pub const fn used(self) -> u32 {
        (self.0 & MASK) as u32
    }

    /// Units taken out of the common word.
    pub const fn granted(self) -> u32 {
        ((self.0 >> BITS) & MASK) as u32
    }

    /// Granted and not in flight.
    pub const fn spare(self) -> u32 {
        self.granted() - self.used()
    }

    /// Whether requests of this class wait: then none of its newcomers walks past.
    pub const fn is_queued(self) -> bool {
        self.0 & QUEUED != 0
    }

    /// Whether the limiter is short of units: then what is not held is given back at once.
    pub const fn is_tight(self) -> bool {
        self.0 & TIGHT != 0
    }

    /// With `weight` more in flight, when what is granted suffices.
    pub const fn enter(self, weight: u32) -> Option<Self> {
        if self.spare() >= weight { Some(Self(self.0 + weight as u64)) } else { None }
    }

    /// With `weight` fewer in flight.
    #[must_use]
    pub const fn leave(self, weight: u32) -> Self {
        Self(self.0 - weight as u64)
    }

    /// With `units` more granted, when there is room to count them.
    pub const fn grant(self, units: u32) -> Option<Self> {
        if self.granted() as u64 + units as u64 > MASK { None } else { Some(Self(self.0 + ((units as u64) << BITS))) }
    }

    /// What goes back to the common word when only `held` units are kept for the class, and the word then.
    #[must_use]
    pub fn give_back(self, held: u32) -> (u32, Self) {
        let keep = self.used().max(self.granted().min(held));
        let back = self.granted() - keep;
        (back, Self(self.0 - (u64::from(back) << BITS)))
    }

    /// Whether `weight` more stay within `cap`. What weighs more than the cap fits alone.
    pub const fn fits(self, weight: u32, cap: u32) -> bool {
        let used = self.used();
        used == 0 || used as u64 + weight as u64 <= cap as u64
    }

    /// The next version: whoever looked before has to look again.
    #[must_use]
    pub const fn renewed(self) -> Self {
        Self(self.0 & !VERSION_MASK | self.0.wrapping_add(VERSION) & VERSION_MASK)
    }

    /// With the note that requests of it wait, or that none does.
    #[must_use]
    pub const fn with_queued(self, queued: bool) -> Self {
        Self(if queued { self.0 | QUEUED } else { self.0 & !QUEUED })
    }

    /// With the note that the limiter is short of units, or that it is not.
    #[must_use]
    pub const fn with_tight(self, tight: bool) -> Self {
        Self(if tight { self.0 | TIGHT } else { self.0 & !TIGHT })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let mut word = ClassWord::default().grant(MAX_CLASS_UNITS).expect("room").enter(7).expect("granted");
        word = word.with_queued(true).with_tight(true);
        for _ in 0..5000 {
            word = word.renewed();
        }
        assert_eq!((word.used(), word.granted()), (7, MAX_CLASS_UNITS));
        assert!(word.is_queued() && word.is_tight() && word.grant(1).is_none());
        let word = word.with_queued(false).with_tight(false).leave(3);
        assert_eq!(
            (word.used(), word.granted(), word.is_queued(), word.is_tight()),
            (4, MAX_CLASS_UNITS, false, false)
        );
    }

    #[test]
    fn gives_back_what_is_neither_used_nor_held() {
        let word = ClassWord::default().grant(10).expect("room").enter(4).expect("granted");
        for (held, back) in [(0, 6), (4, 6), (7, 3), (10, 0), (50, 0)] {
            assert_eq!(word.give_back(held).0, back, "{held} held");
        }
    }

    #[test]
    fn enters_within_what_is_granted_and_what_outweighs_the_cap_fits_alone() {
        let word = ClassWord::default().grant(2).expect("room").enter(2).expect("granted");
        assert!(word.enter(1).is_none());
        assert!(!word.fits(1, 2) && word.fits(1, 3));
        assert!(ClassWord::default().fits(9, 2));
    }
}
