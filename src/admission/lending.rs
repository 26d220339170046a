//! Who uses whose reserve: for those who look, not for those who decide. Pure.

use super::class::{MAX_CLASSES, Part};

/// What a class lends and has borrowed, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loan {
    /// Units of its reserve that others use.
    pub lent: u32,
    /// Units that it uses of others' reserves.
    pub borrowed: u32,
}

/// Loans between classes that use `used` units each of `limit`, where `occupied` are in flight or held.
///
/// A unit in flight bears no name, so a loan is what remains: reserved units that neither their owner
/// uses nor anybody keeps free are lent; those above their own reserve have borrowed them, in proportion.
pub fn loans(limit: u32, occupied: u32, classes: &[(Part, u32)]) -> [Loan; MAX_CLASSES] {
    let unused = |(part, used): &(Part, u32)| u64::from(part.reserve.saturating_sub((*used).max(part.held)));
    let beyond = |(part, used): &(Part, u32)| u64::from(used.saturating_sub(part.reserve));
    let (all_unused, all_beyond): (u64, u64) = (classes.iter().map(unused).sum(), classes.iter().map(beyond).sum());
    let free = u64::from(limit.saturating_sub(occupied));
    let lent = all_unused.saturating_sub(free).min(all_beyond);
    let mut loans = [Loan::default(); MAX_CLASSES];
    for (loan, class) in loans.iter_mut().zip(classes) {
        let part = |of: u64, all: u64| (lent * of).checked_div(all).unwrap_or(0) as u32;
        *loan = Loan { lent: part(unused(class), all_unused), borrowed: part(beyond(class), all_beyond) };
    }
    loans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(reserve: u32, held: u32, used: u32) -> (Part, u32) {
        (Part { reserve, held, cap: u32::MAX }, used)
    }

    #[test]
    fn what_is_neither_used_nor_free_is_lent() {
        let classes = [class(20, 0, 5), class(0, 0, 90)];
        assert_eq!(loans(100, 95, &classes)[..2], [Loan { lent: 10, borrowed: 0 }, Loan { lent: 0, borrowed: 10 }]);
        assert_eq!(loans(100, 70, &[class(20, 0, 5), class(0, 0, 65)])[0].lent, 0, "enough is free");
    }

    #[test]
    fn what_is_held_is_not_lent() {
        let classes = [class(20, 20, 5), class(0, 0, 80)];
        assert_eq!(loans(100, 100, &classes)[..2], [Loan::default(); 2]);
    }

    #[test]
    fn nobody_who_keeps_to_its_reserve_has_borrowed() {
        let classes = [class(30, 0, 0), class(30, 0, 30), class(0, 0, 30), class(0, 0, 10)];
        let borrowed: Vec<_> = loans(80, 70, &classes)[..4].iter().map(|loan| loan.borrowed).collect();
        assert_eq!(borrowed, [0, 0, 15, 5]);
    }
}
