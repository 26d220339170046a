//! How many requests may be sent again: a share of those that succeed, and a few to begin with.
//!
//! Without it, retries at each layer multiply the load of a downstream that fails. With it, attempts
//! stay below `calls * (1 + share) + reserve`, however long the downstream fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// In thousandths of a retry.
const ONE: u64 = 1000;

/// A bucket of retries, shared by all who send to a destination. Clones are the same.
#[derive(Clone, Debug)]
pub struct RetryBudget {
    bucket: Arc<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    thousandths: AtomicU64,
    most: u64,
    earned: u64,
}

impl Default for RetryBudget {
    /// A retry for every five successes, and ten to begin with.
    fn default() -> Self {
        Self::new(0.2, 10)
    }
}

impl RetryBudget {
    /// Each success earns `share` of a retry (0 to 1, else the nearer end); `reserve` are there to
    /// begin with and are the most that is kept, at least 1.
    pub fn new(share: f64, reserve: u32) -> Self {
        let most = u64::from(reserve.max(1)) * ONE;
        let earned = (share.clamp(0.0, 1.0) * ONE as f64) as u64;
        Self { bucket: Arc::new(Bucket { thousandths: AtomicU64::new(most), most, earned }) }
    }

    /// A request succeeded.
    pub fn succeeded(&self) {
        let Bucket { thousandths, most, earned } = &*self.bucket;
        // A full bucket is the usual one: nothing is written then.
        if thousandths.load(Ordering::Relaxed) < *most {
            let more = |there: u64| Some((there + earned).min(*most));
            let _ = thousandths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        }
    }

    /// Takes one retry; false when none is left.
    pub fn take(&self) -> bool {
        let less = |there: u64| there.checked_sub(ONE);
        self.bucket.thousandths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Whole retries that are left.
    pub fn left(&self) -> u64 {
        self.bucket.thousandths.load(Ordering::Relaxed) / ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_downstream_that_fails_for_long_gets_the_reserve_and_no_more() {
        let budget = RetryBudget::new(0.2, 10);
        let sent_again = (0..6000).filter(|_| budget.take()).count();
        assert_eq!((sent_again, budget.left()), (10, 0));
    }

    #[test]
    fn successes_earn_retries_up_to_the_reserve() {
        let budget = RetryBudget::new(0.2, 2);
        assert!(budget.take() && budget.take() && !budget.take());
        (0..5).for_each(|_| budget.succeeded());
        assert_eq!(budget.left(), 1);
        (0..500).for_each(|_| budget.succeeded());
        assert_eq!(budget.left(), 2);
        assert_eq!(RetryBudget::new(f64::NAN, 0).left(), 1);
    }
}
