//! How often which rule said what an upstream's answer means. Good answers are not counted here: they
//! are in the limiters' own counters, and most answers are good.
//!
//! Rules of one name are counted together, but never what they say: a reload may change that.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tidegate::Outcome;
use tidegate::classify::Verdict;

/// More rules than this are counted together: reloads may bring ever new names.
const MOST_RULES: usize = 512;

const OTHERS: &str = "others";

/// Counts of one upstream.
#[derive(Default)]
pub(crate) struct Answers(Mutex<BTreeMap<String, Vec<(Outcome, u64)>>>);

impl Answers {
    pub(super) fn note(&self, verdict: &Verdict<'_>) {
        if verdict.outcome == Outcome::Success {
            return;
        }
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = if counts.contains_key(verdict.rule) || counts.len() < MOST_RULES { verdict.rule } else { OTHERS };
        if !counts.contains_key(name) {
            counts.insert(name.to_owned(), Vec::new());
        }
        let said = counts.get_mut(name).expect("it was put there if it was not there");
        match said.iter_mut().find(|(outcome, _)| *outcome == verdict.outcome) {
            Some((_, count)) => *count += 1,
            None => said.push((verdict.outcome, 1)),
        }
    }

    /// Rule, what it said, and how often.
    pub(crate) fn counts(&self) -> Vec<(String, Outcome, u64)> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each =
            counts.iter().flat_map(|(rule, said)| said.iter().map(move |(outcome, count)| (rule, outcome, count)));
        each.map(|(rule, outcome, count)| (rule.clone(), *outcome, *count)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::classify::{Classifier, Seen};

    #[test]
    fn what_a_rule_said_before_a_reload_stays_counted_as_that() {
        let answers = Answers::default();
        let as_429 = Classifier::default();
        let said = |outcome| {
            let mut verdict = as_429.judge(Seen::Http(429), &(), "", std::time::SystemTime::UNIX_EPOCH);
            verdict.outcome = outcome;
            answers.note(&verdict);
        };
        [Outcome::Throttled, Outcome::Fault, Outcome::Throttled, Outcome::Success].into_iter().for_each(said);
        let rule = "http-429".to_owned();
        assert_eq!(answers.counts(), [(rule.clone(), Outcome::Throttled, 2), (rule, Outcome::Fault, 1)]);
    }
}
