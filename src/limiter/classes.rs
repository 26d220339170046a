//! The classes of a limiter by name, and what is counted for each.
//!
//! A class keeps its position for the limiter's life, so that permits which are out know where they
//! belong; a class that is taken away leaves its position to nobody but a later one of the same name.
//! Position 0 is the default class.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::admit::Admit;
use crate::admission::{Class, DEFAULT_CLASS, MAX_CLASSES, Share};
use crate::rejection::RejectReason;

/// A class of one limiter, found once by its name: naming it costs nothing then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClassId(pub(super) u8);

/// What does not depend on the gate.
#[derive(Debug, Default)]
pub(super) struct NamedClass {
    name: OnceLock<Arc<str>>,
    /// How many may wait, and how long; the largest number where the limiter's own counts.
    length: AtomicU32,
    wait_ns: AtomicU64,
    priority: AtomicU32,
    rejected: [AtomicU64; RejectReason::ALL.len()],
    pub(super) waited: AtomicU64,
}

impl NamedClass {
    fn configure(&self, class: &Class) {
        let (length, wait) = class.own_room();
        self.length.store(length.unwrap_or(u32::MAX), Ordering::Relaxed);
        let wait = wait.and_then(|wait| u64::try_from(wait.as_nanos()).ok()).unwrap_or(u64::MAX);
        self.wait_ns.store(wait, Ordering::Relaxed);
        self.priority.store(u32::from(class.rank()), Ordering::Relaxed);
    }

    pub(super) fn name(&self) -> Option<&Arc<str>> {
        self.name.get()
    }

    pub(super) fn priority(&self) -> u8 {
        self.priority.load(Ordering::Relaxed) as u8
    }

    pub(super) fn room(&self) -> (u32, Duration) {
        (self.length.load(Ordering::Relaxed), Duration::from_nanos(self.wait_ns.load(Ordering::Relaxed)))
    }

    pub(super) fn count_rejected(&self, reason: RejectReason) {
        self.rejected[reason.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn rejected(&self) -> [u64; RejectReason::ALL.len()] {
        RejectReason::ALL.map(|reason| self.rejected[reason.index()].load(Ordering::Relaxed))
    }
}

/// All positions.
#[derive(Debug)]
pub(super) struct NamedClasses {
    slots: Box<[NamedClass]>,
    /// Positions whose names are in use, by bit.
    live: AtomicU32,
}

impl Default for NamedClasses {
    fn default() -> Self {
        Self { slots: (0..MAX_CLASSES).map(|_| NamedClass::default()).collect(), live: AtomicU32::new(0) }
    }
}

impl NamedClasses {
    /// Finds a position for each class, and puts them in order of position. Those in between that are
    /// not in use any more have no reserve and no cap.
    pub(super) fn assign(&self, classes: &[Class]) -> Result<Vec<Class>, InvalidClasses> {
        let placed = self.place(classes)?;
        let mut live = 1;
        for (at, (slot, class)) in self.slots.iter().zip(&placed).enumerate() {
            slot.configure(class);
            let _ = slot.name.set(Arc::clone(class.name()));
            live |= u32::from(classes.iter().any(|c| c.name() == class.name())) << at;
        }
        self.live.store(live, Ordering::Release);
        Ok(placed)
    }

    /// What [`NamedClasses::assign`] would give. Changes nothing.
    pub(super) fn place(&self, classes: &[Class]) -> Result<Vec<Class>, InvalidClasses> {
        check(classes)?;
        let mut wanted: Vec<_> = classes.iter().filter(|class| **class.name() != *DEFAULT_CLASS).collect();
        let default = classes.iter().find(|class| **class.name() == *DEFAULT_CLASS).cloned();
        let mut placed = vec![default.unwrap_or_else(|| Class::new(DEFAULT_CLASS))];
        for slot in &self.slots[1..] {
            let Some(name) = slot.name() else { break };
            let found = wanted.iter().position(|class| class.name() == name).map(|at| wanted.remove(at));
            placed.push(found.cloned().unwrap_or_else(|| Class::new(Arc::clone(name))));
        }
        placed.extend(wanted.into_iter().cloned());
        if placed.len() > MAX_CLASSES {
            return Err(InvalidClasses::TooMany { names: placed.len() });
        }
        Ok(placed)
    }

    /// The position of a request's class; 0 when it names none or one that is not known.
    #[inline]
    pub(super) fn position(&self, admit: &Admit<'_>) -> usize {
        match admit.class_chosen() {
            Some(ClassId(at)) if self.is_live(usize::from(at)) => usize::from(at),
            Some(_) => 0,
            None => admit.class_name().and_then(|name| self.find(name)).unwrap_or(0),
        }
    }

    fn is_live(&self, at: usize) -> bool {
        at < MAX_CLASSES && self.live.load(Ordering::Acquire) & 1 << at != 0
    }

    /// A class by its name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let named = |slot: &NamedClass| slot.name().map(|own| **own == *name);
        let at = self.slots.iter().map_while(named).position(|same| same)?;
        self.is_live(at).then_some(at)
    }

    /// Those in use, with their positions.
    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &NamedClass)> {
        self.slots.iter().enumerate().filter(|(at, _)| self.is_live(*at))
    }

    pub(super) fn at(&self, class: usize) -> &NamedClass {
        &self.slots[class]
    }
}

fn check(classes: &[Class]) -> Result<(), InvalidClasses> {
    let mut fractions = 0.0;
    for (at, class) in classes.iter().enumerate() {
        let name = || Arc::clone(class.name());
        if class.name().is_empty() {
            return Err(InvalidClasses::NoName);
        }
        if classes[..at].iter().any(|other| other.name() == class.name()) {
            return Err(InvalidClasses::Twice { name: name() });
        }
        let cap = class.cap_share().unwrap_or(Share::Fraction(1.0));
        if !class.reserve_share().is_valid() || !cap.is_valid() {
            return Err(InvalidClasses::Fraction { name: name() });
        }
        if let Share::Fraction(part) = class.reserve_share() {
            fractions += part;
        }
        let more_than_cap = match (class.reserve_share(), cap) {
            (Share::Units(reserve), Share::Units(cap)) => reserve > cap,
            (Share::Fraction(reserve), Share::Fraction(cap)) => reserve > cap,
            _ => false,
        };
        if more_than_cap {
            return Err(InvalidClasses::ReserveAboveCap { name: name() });
        }
    }
    if fractions > 1.0 + 1e-9 {
        Err(InvalidClasses::Sum { percent: (fractions * 100.0).round() as u32 })
    } else {
        Ok(())
    }
}

/// Why classes are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidClasses {
    /// A name is empty.
    NoName,
    /// A name stands twice.
    Twice {
        /// The name.
        name: Arc<str>,
    },
    /// A fraction is not within 0 and 1.
    Fraction {
        /// The class.
        name: Arc<str>,
    },
    /// A reserve is larger than the cap.
    ReserveAboveCap {
        /// The class.
        name: Arc<str>,
    },
    /// Reserved fractions add up to more than the whole.
    Sum {
        /// Their sum, in percent of the limit.
        percent: u32,
    },
    /// More names than a limiter has positions in its life.
    TooMany {
        /// Names so far, the default class and those not in use any more included.
        names: usize,
    },
}

impl fmt::Display for InvalidClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("a class needs a name: it was empty"),
            Self::Twice { name } => write!(f, "class \"{name}\" stands twice: names must differ"),
            Self::Fraction { name } => write!(f, "class \"{name}\": a fraction must be within 0 and 1"),
            Self::ReserveAboveCap { name } => write!(f, "class \"{name}\": the reserve is above the cap"),
            Self::Sum { percent } => write!(f, "reserves add up to {percent} % of the limit: at most 100 % is there"),
            Self::TooMany { names } => write!(
                f,
                "{names} names of classes, the default and those that are gone included: at most {MAX_CLASSES} in a limiter's life"
            ),
        }
    }
}

impl std::error::Error for InvalidClasses {}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(classes: &[Class]) -> Vec<&str> {
        classes.iter().map(|class| &**class.name()).collect()
    }

    #[test]
    fn positions_stay_and_the_unknown_go_to_the_default() {
        let named = NamedClasses::default();
        let placed = named.assign(&[Class::new("a"), Class::new("b")]).expect("valid");
        assert_eq!(names(&placed), ["default", "a", "b"]);
        let placed = named.assign(&[Class::new("c"), Class::new("b").priority(1)]).expect("valid");
        assert_eq!(names(&placed), ["default", "a", "b", "c"]);
        assert_eq!(placed[2].rank(), 1);
        let position = |name| named.position(&Admit::new().class(name));
        assert_eq!(["a", "b", "c", "d", "default"].map(position), [0, 2, 3, 0, 0], "a is gone");
        named.assign(&[Class::new("a")]).expect("valid");
        assert_eq!(named.find("a"), Some(1), "and is back in its place");
    }

    #[test]
    fn wrong_classes_are_refused_with_what_is_allowed() {
        let many: Vec<_> = (0..32).map(|n| Class::new(format!("c{n}"))).collect();
        let half = |name: &str| Class::new(name.to_owned()).reserve(Share::Fraction(0.6));
        for (classes, says) in [
            (vec![Class::new("")], "needs a name"),
            (vec![Class::new("a"), Class::new("a")], "\"a\" stands twice"),
            (vec![Class::new("a").cap(Share::Fraction(1.5))], "within 0 and 1"),
            (vec![Class::new("a").reserve(Share::Units(5)).cap(Share::Units(4))], "above the cap"),
            (vec![half("a"), half("b")], "120 %"),
            (many, "at most 32"),
        ] {
            let error = NamedClasses::default().assign(&classes).expect_err(says).to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
