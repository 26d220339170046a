//! How a process stands with the store: shared or lost, and when to trust the store again.
//!
//! One failure is enough to do without the store, since no request is to wait for a second. When it was
//! only late or out of reach, it is asked again at once, and a good answer settles the doubt: nothing
//! was lost. A second failure, or one that says why, is a loss. The way back from that takes several
//! good answers in a row, and more of them the sooner the store was lost again: a store that comes and
//! goes would otherwise drag the rate along.

use std::time::Duration;

use super::store::Loss;
use crate::time::Nanos;

/// Good answers in a row that lead back.
const GOOD_ENOUGH: u32 = 3;
/// At most so many after repeated losses.
const MOST_GOOD: u32 = 24;
/// A loss so soon after the way back doubles what is asked of the next one.
const SOON: Duration = Duration::from_secs(60);
/// Between two looks at a store that is lost.
const PROBE: Duration = Duration::from_millis(250);

/// A change of standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The store answered for the first time.
    Joined,
    /// The store was lost: the ceiling falls back.
    Lost(Loss),
    /// The store answers again; how long it did not.
    Back(Duration),
}

/// Shared, or lost and since when.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    lost: Option<(Loss, Nanos)>,
    /// It failed once, and may answer yet.
    doubt: Option<Loss>,
    good: u32,
    needed: u32,
    back: Option<Nanos>,
    next_probe: Nanos,
}

impl Standing {
    /// Not joined yet.
    pub fn new(now: Nanos) -> Self {
        Self { lost: Some((Loss::Joining, now)), doubt: None, good: 0, needed: 1, back: None, next_probe: now }
    }

    /// Why the store is of no use, if so.
    pub fn loss(&self) -> Option<Loss> {
        self.lost.map(|(loss, _)| loss).or(self.doubt)
    }

    /// When a lost store is looked at next.
    pub fn next_probe(&self) -> Nanos {
        self.next_probe
    }

    /// The store gave a good answer.
    pub fn answered(&mut self, now: Nanos, jitter: f64) -> Option<Turn> {
        self.doubt = None;
        let (loss, since) = self.lost?;
        self.good += 1;
        self.probe_later(now, jitter);
        if self.good < self.needed {
            return None;
        }
        (self.lost, self.good, self.back) = (None, 0, Some(now));
        Some(if loss == Loss::Joining { Turn::Joined } else { Turn::Back(now.since(since)) })
    }

    /// The store failed.
    pub fn failed(&mut self, now: Nanos, loss: Loss, jitter: f64) -> Option<Turn> {
        self.probe_later(now, jitter);
        self.good = 0;
        if let Some((was, _)) = &mut self.lost {
            let first = std::mem::replace(was, loss) == Loss::Joining;
            self.needed = self.needed.max(GOOD_ENOUGH);
            return first.then_some(Turn::Lost(loss));
        }
        if self.doubt.is_none() && matches!(loss, Loss::Slow | Loss::Unreachable) {
            self.doubt = Some(loss);
            self.next_probe = now;
            return None;
        }
        self.doubt = None;
        let soon = self.back.is_some_and(|back| now.since(back) < SOON) && self.needed >= GOOD_ENOUGH;
        self.needed = if soon { (2 * self.needed).min(MOST_GOOD) } else { GOOD_ENOUGH };
        self.lost = Some((loss, now));
        Some(Turn::Lost(loss))
    }

    fn probe_later(&mut self, now: Nanos, jitter: f64) {
        self.next_probe = now + PROBE.mul_f64(1.0 + 0.25 * jitter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn one_late_answer_is_a_doubt_that_the_next_good_one_settles() {
        let mut standing = Standing::new(at(0));
        standing.answered(at(1), 0.0);
        for round in 2..20 {
            assert_eq!(standing.failed(at(round), Loss::Slow, 0.0), None);
            assert_eq!((standing.loss(), standing.next_probe()), (Some(Loss::Slow), at(round)), "asked again at once");
            assert_eq!(standing.answered(at(round), 0.0), None);
            assert_eq!(standing.loss(), None);
        }
        assert_eq!(standing.failed(at(30), Loss::ReadOnly, 0.0), Some(Turn::Lost(Loss::ReadOnly)), "no doubt");
    }

    #[test]
    fn the_first_answer_joins_and_a_second_failure_goes_over() {
        let mut standing = Standing::new(at(0));
        assert_eq!(standing.loss(), Some(Loss::Joining));
        assert_eq!(standing.answered(at(1), 0.0), Some(Turn::Joined));
        assert_eq!(standing.answered(at(2), 0.0), None);
        assert_eq!(standing.failed(at(3), Loss::Slow, 0.0), None);
        assert_eq!(standing.failed(at(3), Loss::Slow, 0.0), Some(Turn::Lost(Loss::Slow)));
        assert_eq!(standing.failed(at(4), Loss::Unreachable, 0.0), None, "said once");
        assert_eq!(standing.loss(), Some(Loss::Unreachable));
        assert_eq!(standing.next_probe(), at(254));
    }

    #[test]
    fn the_way_back_takes_good_answers_in_a_row_and_more_after_a_relapse() {
        let mut standing = Standing::new(at(0));
        standing.answered(at(0), 0.0);
        let mut needed = Vec::new();
        for round in 0..5 {
            let began = 1000 * round;
            standing.failed(at(began), Loss::Slow, 0.0);
            standing.failed(at(began), Loss::Slow, 0.0);
            standing.answered(at(began), 0.0);
            standing.failed(at(began), Loss::Slow, 0.0);
            needed.push((1..).find(|_| standing.answered(at(began + 100), 0.0).is_some()).unwrap_or_default());
        }
        assert_eq!(needed, [3, 6, 12, 24, 24]);
        standing.failed(at(600_000), Loss::Full, 0.0);
        assert_eq!((1..).find(|_| standing.answered(at(600_001), 0.0).is_some()), Some(3), "long ago is forgiven");
    }

    #[test]
    fn a_store_that_was_never_there_is_said_once() {
        let mut standing = Standing::new(at(0));
        assert_eq!(standing.failed(at(1), Loss::Unreachable, 0.0), Some(Turn::Lost(Loss::Unreachable)));
        assert_eq!(standing.failed(at(2), Loss::Unreachable, 0.0), None);
    }
}
