//! The heaviest of many names in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi, 2005).
//!
//! Whoever has more than `total / capacity` is among those kept; a count is never too small, and too
//! large by at most its `over`. Adding looks through all that are kept: this is off the request path.

/// A name and how often it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heavy {
    /// The name.
    pub name: Box<str>,
    /// How often, at most.
    pub count: u64,
    /// By how much `count` may be too large.
    pub over: u64,
}

/// Keeps the heaviest names.
#[derive(Clone, Debug)]
pub struct Heaviest {
    capacity: usize,
    kept: Vec<Heavy>,
}

impl Heaviest {
    /// Keeps at most `capacity` names. With 0 it keeps none.
    pub fn new(capacity: usize) -> Self {
        Self { capacity, kept: Vec::new() }
    }

    /// `name` was seen `weight` times more.
    pub fn add(&mut self, name: &str, weight: u64) {
        if let Some(known) = self.kept.iter_mut().find(|heavy| &*heavy.name == name) {
            known.count = known.count.saturating_add(weight);
        } else if self.kept.len() < self.capacity {
            self.kept.push(Heavy { name: name.into(), count: weight, over: 0 });
        } else if let Some(lightest) = self.kept.iter_mut().min_by_key(|heavy| heavy.count) {
            // The newcomer may have been here before: it inherits what it may have had.
            let over = lightest.count;
            *lightest = Heavy { name: name.into(), count: over.saturating_add(weight), over };
        }
    }

    /// The `most` heaviest, heaviest first.
    pub fn top(&self, most: usize) -> Vec<Heavy> {
        let mut sorted = self.kept.clone();
        sorted.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        sorted.truncate(most);
        sorted
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn few_names_are_counted_exactly() {
        let mut heaviest = Heaviest::new(4);
        for (name, weight) in [("a", 3), ("b", 10), ("a", 4), ("c", 1)] {
            heaviest.add(name, weight);
        }
        let top = heaviest.top(2);
        assert_eq!(top[0], Heavy { name: "b".into(), count: 10, over: 0 });
        assert_eq!(top[1], Heavy { name: "a".into(), count: 7, over: 0 });
        assert_eq!(top.len(), 2);
    }

    #[test]
    fn without_capacity_nothing_is_kept() {
        let mut heaviest = Heaviest::new(0);
        heaviest.add("a", 1);
        assert!(heaviest.top(5).is_empty());
    }

    proptest! {
        #[test]
        fn the_heavy_are_kept_and_counts_are_bounded_from_both_sides(
            stream in prop::collection::vec((0_u8..40, 1_u64..50), 1..400),
        ) {
            let mut exact: HashMap<String, u64> = HashMap::new();
            let mut heaviest = Heaviest::new(8);
            for (name, weight) in stream {
                *exact.entry(name.to_string()).or_default() += weight;
                heaviest.add(&name.to_string(), weight);
            }
            let kept = heaviest.top(8);
            prop_assert!(kept.len() <= 8);
            for heavy in &kept {
                let truth = exact[&*heavy.name];
                prop_assert!(heavy.count >= truth && heavy.count - heavy.over <= truth);
            }
            let total: u64 = exact.values().sum();
            for (name, _) in exact.iter().filter(|(_, count)| **count > total / 8) {
                prop_assert!(kept.iter().any(|heavy| *heavy.name == **name), "{name} is missing");
            }
        }
    }
}
