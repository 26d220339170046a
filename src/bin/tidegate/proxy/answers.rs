//! How often which rule said what an upstream's answer means. Good answers are not counted here: they
//! are in the limiters' own counters, and most answers are good.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidegate::Outcome;
use tidegate::classify::Verdict;

/// More rules than this are counted together: reloads may bring ever new names.
const MOST_RULES: usize = 512;

/// Counts of one upstream.
#[derive(Default)]
pub(crate) struct Answers(Mutex<BTreeMap<String, (Outcome, u64)>>);

impl Answers {
    pub(super) fn note(&self, verdict: &Verdict<'_>) {
        if verdict.outcome == Outcome::Success {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((outcome, count)) = counts.get_mut(verdict.rule) {
            // A rule that was changed by a reload counts on under what it says now.
            *outcome = verdict.outcome;
            *count += 1;
            return;
        }
        let name = if counts.len() < MOST_RULES { verdict.rule } else { "others" };
        counts.entry(name.to_owned()).or_insert((verdict.outcome, 0)).1 += 1;
    }

    /// Rule, what it last said, and how often.
    pub(crate) fn counts(&self) -> Vec<(String, Outcome, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(rule, (outcome, count))| (rule.clone(), *outcome, *count)).collect()
    }
}
