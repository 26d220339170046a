//! A class: a named share of a limiter, as an operator describes it.
//!
//! What a class is promised is a share of the limit or a number of units; [`partition`] turns the
//! promises of all classes into units under the limit in force. It keeps that reserves never add up
//! to the whole limit: one unit at least stays free for everybody, so that nobody is locked out.

use std::sync::Arc;
use std::time::Duration;

use super::order::Order;

/// The most classes a limiter has in its life, the default one included.
pub const MAX_CLASSES: usize = 32;

/// The name of the class of requests that name none, or one that is not known.
pub const DEFAULT_CLASS: &str = "default";

/// A part of a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// So many units, whatever the limit is.
    Units(u32),
    /// This part of the limit, `0.0..=1.0`.
    Fraction(f64),
}

impl Share {
    /// Whether it is a number of units, or a fraction within 0 and 1.
    pub fn is_valid(self) -> bool {
        match self {
            Share::Units(_) => true,
            Share::Fraction(part) => (0.0..=1.0).contains(&part),
        }
    }

    /// Whole units of `limit`, rounded down.
    fn floor(self, limit: u32) -> u32 {
        match self {
            Share::Units(units) => units,
            // A hair up, so that 0.29 of 100 is 29 though it is 28.999999999999996.
            Share::Fraction(part) => (f64::from(limit) * part + 1e-9) as u32,
        }
    }

    /// Whole units of `limit`, rounded up.
    fn ceil(self, limit: u32) -> u32 {
        match self {
            Share::Units(units) => units,
            Share::Fraction(part) => (f64::from(limit) * part - 1e-9).ceil().max(0.0) as u32,
        }
    }
}

/// Whether others may use what a class has reserved and does not need just now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lend {
    /// Nobody else uses the reserve: its owner never waits for it.
    #[default]
    Nothing,
    /// Others may use all of it. Its owner then waits for the next unit that is given back, ahead of
    /// everybody who is not below a reserve: at most one typical latency. An owner that
    /// does not wait is refused meanwhile.
    Allowed,
}

/// A named share of a limiter.
///
/// ```
/// use tidegate::{Class, Share};
///
/// let query = Class::new("query").reserve(Share::Fraction(0.2)).priority(200);
/// let batch = Class::new("batch").cap(Share::Units(10)).priority(50);
/// # let _ = (query, batch);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    name: Arc<str>,
    reserve: Share,
    cap: Option<Share>,
    lend: Lend,
    priority: u8,
    order: Order,
    length: Option<u32>,
    wait: Option<Duration>,
}

impl Class {
    /// The priority of a class that says nothing else.
    pub const USUAL_PRIORITY: u8 = 100;

    /// A class without reserve or cap.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            reserve: Share::Units(0),
            cap: None,
            lend: Lend::Nothing,
            priority: Self::USUAL_PRIORITY,
            order: Order::Fifo,
            length: None,
            wait: None,
        }
    }

    /// What it always gets. Default: nothing. Reserves are scaled down together when the limit falls
    /// to their sum.
    #[must_use]
    pub fn reserve(mut self, reserve: Share) -> Self {
        self.reserve = reserve;
        self
    }

    /// The most it gets, one unit at least. Default: no cap. A request that weighs more enters when
    /// nothing else of its class is in flight.
    #[must_use]
    pub fn cap(mut self, cap: Share) -> Self {
        self.cap = Some(cap);
        self
    }

    /// Whether its unused reserve is lent. Default: [`Lend::Nothing`].
    #[must_use]
    pub fn lend(mut self, lend: Lend) -> Self {
        self.lend = lend;
        self
    }

    /// Who enters first and is refused last: higher goes before lower. Default 100.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// In which order its requests leave the waiting room. Default: [`Order::Fifo`].
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// How many of its requests may wait, and how long, both within what the limiter allows.
    /// Default: as the limiter says.
    #[must_use]
    pub fn waiting_room(mut self, length: u32, longest: Duration) -> Self {
        (self.length, self.wait) = (Some(length), Some(longest));
        self
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it always gets.
    pub fn reserve_share(&self) -> Share {
        self.reserve
    }

    /// The most it gets.
    pub fn cap_share(&self) -> Option<Share> {
        self.cap
    }

    /// Whether its unused reserve is lent.
    pub fn lends(&self) -> Lend {
        self.lend
    }

    /// Its priority.
    pub fn rank(&self) -> u8 {
        self.priority
    }

    /// The order of its part of the waiting room.
    pub fn room_order(&self) -> Order {
        self.order
    }

    /// How many may wait and how long, when it says so itself.
    pub fn own_room(&self) -> (Option<u32>, Option<Duration>) {
        (self.length, self.wait)
    }
}

/// What a class has under the limit in force, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// What it always gets.
    pub reserve: u32,
    /// What of its reserve is kept free for it while it does not use it.
    pub held: u32,
    /// The most it gets.
    pub cap: u32,
}

/// Divides a limit. Reserves whose sum reaches the limit are scaled down together, so that one unit
/// at least is nobody's own.
pub fn partition(limit: u32, classes: &[Class]) -> [Part; MAX_CLASSES] {
    let mut parts = [Part::default(); MAX_CLASSES];
    let mut sum = 0;
    for (part, class) in parts.iter_mut().zip(classes) {
        part.cap = class.cap.map_or(u32::MAX, |cap| cap.ceil(limit).max(1));
        part.reserve = class.reserve.floor(limit).min(part.cap);
        sum += u64::from(part.reserve);
    }
    let most = u64::from(limit.saturating_sub(1));
    for (part, class) in parts.iter_mut().zip(classes) {
        if sum > most {
            part.reserve = (u64::from(part.reserve) * most / sum) as u32;
        }
        part.held = if class.lend == Lend::Nothing { part.reserve } else { 0 };
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reserves(limit: u32, shares: &[Share]) -> Vec<u32> {
        let classes: Vec<_> = shares.iter().map(|share| Class::new("c").reserve(*share)).collect();
        partition(limit, &classes)[..shares.len()].iter().map(|part| part.reserve).collect()
    }

    #[test]
    fn fractions_follow_the_limit_and_numbers_stay() {
        let shares = [Share::Fraction(0.2), Share::Units(5)];
        assert_eq!(reserves(100, &shares), [20, 5]);
        assert_eq!(reserves(50, &shares), [10, 5]);
        assert_eq!(reserves(100, &[Share::Fraction(0.29)]), [29]);
    }

    #[test]
    fn reserves_shrink_together_when_the_limit_falls_to_their_sum() {
        let shares = [Share::Units(30), Share::Units(10)];
        assert_eq!(reserves(41, &shares), [30, 10]);
        assert_eq!(reserves(21, &shares), [15, 5]);
        assert_eq!(reserves(1, &shares), [0, 0], "the last unit is everybody's");
    }

    #[test]
    fn a_cap_is_at_least_one_and_bounds_the_reserve() {
        let class = |cap| [Class::new("c").reserve(Share::Units(8)).cap(cap)];
        assert_eq!(partition(100, &class(Share::Fraction(0.001)))[0], Part { reserve: 1, held: 1, cap: 1 });
        assert_eq!(partition(100, &class(Share::Units(6)))[0], Part { reserve: 6, held: 6, cap: 6 });
    }

    #[test]
    fn what_may_be_lent_is_not_held() {
        let class = [Class::new("c").reserve(Share::Units(8)).lend(Lend::Allowed)];
        assert_eq!(partition(100, &class)[0], Part { reserve: 8, held: 0, cap: u32::MAX });
    }

    proptest! {
        #[test]
        fn reserves_never_take_the_whole_limit(limit in 1..5000_u32, wants in prop::collection::vec(0..3000_u32, 1..32)) {
            let shares: Vec<_> = wants.iter().map(|w| Share::Units(*w)).collect();
            let reserves = reserves(limit, &shares);
            prop_assert!(reserves.iter().sum::<u32>() < limit);
            prop_assert!(reserves.iter().zip(&wants).all(|(got, want)| got <= want));
        }
    }
}
