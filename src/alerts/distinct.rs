//! About how many different things were seen, in 128 bytes: linear counting (Whang and others, 1990).

use std::hash::{DefaultHasher, Hash, Hasher};

const BITS: usize = 1024;

/// Counts different things, without keeping them. Within a tenth up to some 2,000; above about
/// 7,000 it can only say "at least that many".
#[derive(Clone, Debug)]
pub(super) struct Distinct {
    bits: [u64; BITS / 64],
}

impl Distinct {
    pub(super) fn new() -> Self {
        Self { bits: [0; BITS / 64] }
    }

    pub(super) fn add(&mut self, thing: &impl Hash) {
        let mut hasher = DefaultHasher::new();
        thing.hash(&mut hasher);
        let bit = hasher.finish() as usize % BITS;
        self.bits[bit / 64] |= 1 << (bit % 64);
    }

    pub(super) fn estimate(&self) -> u64 {
        let set: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        let all = BITS as f64;
        let clear = (all - f64::from(set)).max(1.0);
        (all * (all / clear).ln()).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_is_near_and_repeats_do_not_count() {
        for (things, error) in [(0_u64, 0), (1, 0), (10, 1), (300, 30), (2000, 200)] {
            let mut distinct = Distinct::new();
            for _ in 0..3 {
                (0..things).for_each(|thing| distinct.add(&thing));
            }
            assert!(distinct.estimate().abs_diff(things) <= error, "{things}: {}", distinct.estimate());
        }
    }
}
