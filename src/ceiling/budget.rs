//! A budget of attempts: so many calls and not one more, however they end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many attempts for a run, shared by all who have a clone.
///
/// An attempt is spent before the call and stays spent when the call fails: a run with a budget of
/// `n` makes at most `n` calls though every one fails.
///
/// ```
/// use tidegate::ceiling::Budget;
///
/// let budget = Budget::new(2);
/// assert!(budget.spend().is_ok());
/// assert!(budget.clone().spend().is_ok());
/// assert!(budget.spend().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Arc<Spending>);

#[derive(Debug)]
struct Spending {
    attempts: u64,
    left: AtomicU64,
}

/// A budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// How many attempts the budget had.
    pub attempts: u64,
}

impl Budget {
    /// A budget of `attempts`; 0 allows none.
    pub fn new(attempts: u64) -> Self {
        Self(Arc::new(Spending { attempts, left: AtomicU64::new(attempts) }))
    }

    /// Spends one attempt. To be called before each, retries included.
    ///
    /// # Errors
    /// [`Spent`] when none is left.
    pub fn spend(&self) -> Result<(), Spent> {
        let one_less = |left: u64| left.checked_sub(1);
        let spent = Spent { attempts: self.0.attempts };
        self.0.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_less).map(drop).map_err(|_| spent)
    }

    /// Attempts that are left.
    pub fn left(&self) -> u64 {
        self.0.left.load(Ordering::Relaxed)
    }

    /// Attempts that were spent.
    pub fn spent(&self) -> u64 {
        self.0.attempts - self.left()
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the budget of {} attempts is spent", self.attempts)
    }
}

impl std::error::Error for Spent {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_threads_spend_exactly_the_budget() {
        let budget = Budget::new(1000);
        let spent: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..4).map(|_| scope.spawn(|| (0..500).filter(|_| budget.spend().is_ok()).count())).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).sum()
        });
        assert_eq!((spent, budget.left(), budget.spent()), (1000, 0, 1000));
        assert_eq!(budget.spend(), Err(Spent { attempts: 1000 }));
    }
}
