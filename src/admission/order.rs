//! In which order those who wait enter, and how long they may wait for it.
//!
//! Adaptive order is controlled delay: a queue that has stood for longer than its target holds
//! requests that are too old to be of use, so the newest go first and the old leave early; when
//! the queue has drained, it is a plain queue again. (After CoDel, Nichols and Jacobson 2012, and
//! adaptive LIFO, Maurer 2015.) A plain value; it keeps nobody itself.

use std::time::Duration;

use crate::time::Nanos;

/// The order of a waiting room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// Newest first, always. For comparison: it starves the unlucky though there is no overload.
    Lifo,
    /// First come, first served, until the queue has stood for longer than `target`. From then until
    /// it has drained: newest first, and nobody waits longer than `target`.
    Adaptive {
        /// What a queue may stand, and what a request then may wait.
        target: Duration,
    },
}

/// Which end is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Oldest,
    Newest,
}

/// Since when a queue has not been empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    since: Option<Nanos>,
}

impl Standing {
    /// Somebody came.
    pub(super) fn came(&mut self, now: Nanos) {
        self.since.get_or_insert(now);
    }

    /// Nobody is left.
    pub(super) fn drained(&mut self) {
        self.since = None;
    }

    fn longer_than(self, target: Duration, now: Nanos) -> bool {
        self.since.is_some_and(|since| now.since(since) > target)
    }

    /// Who is next.
    pub(super) fn next(self, order: Order, now: Nanos) -> End {
        match order {
            Order::Fifo => End::Oldest,
            Order::Lifo => End::Newest,
            Order::Adaptive { target } if self.longer_than(target, now) => End::Newest,
            Order::Adaptive { .. } => End::Oldest,
        }
    }

    /// Those who came at this time or before have waited too long.
    pub(super) fn too_old(self, order: Order, now: Nanos) -> Option<Nanos> {
        match order {
            Order::Adaptive { target } if self.longer_than(target, now) => Some(now - target),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn adaptive_turns_when_the_queue_stands_and_turns_back_when_it_drains() {
        let order = Order::Adaptive { target: Duration::from_millis(10) };
        let mut standing = Standing::default();
        standing.came(Nanos(5 * MS));
        standing.came(Nanos(12 * MS));
        assert_eq!(standing.next(order, Nanos(15 * MS)), End::Oldest, "stands for exactly the target");
        assert_eq!(standing.too_old(order, Nanos(15 * MS)), None);
        assert_eq!(standing.next(order, Nanos(16 * MS)), End::Newest);
        assert_eq!(standing.too_old(order, Nanos(16 * MS)), Some(Nanos(6 * MS)));
        standing.drained();
        standing.came(Nanos(17 * MS));
        assert_eq!(standing.next(order, Nanos(18 * MS)), End::Oldest);
    }

    #[test]
    fn the_plain_orders_never_turn() {
        let mut standing = Standing::default();
        standing.came(Nanos(0));
        let late = Nanos(u64::MAX / 2);
        assert_eq!(standing.next(Order::Fifo, late), End::Oldest);
        assert_eq!(standing.next(Order::Lifo, late), End::Newest);
        assert_eq!((standing.too_old(Order::Fifo, late), standing.too_old(Order::Lifo, late)), (None, None));
    }
}
