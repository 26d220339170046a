//! How late the runtime has been all along: one late beat is a hiccup, a row of them is overload.

use std::time::Duration;

/// The smallest of the last few delays, as in controlled delay (Nichols and Jacobson, 2012): a burst
/// that drains in between leaves it small.
#[derive(Debug, Default)]
pub(super) struct Standing {
    last: [Duration; Self::BEATS],
    beats: u64,
}

impl Standing {
    /// How many beats it takes to be believed.
    pub(super) const BEATS: usize = 5;

    /// Takes in the delay of one beat and returns what has been standing.
    pub(super) fn push(&mut self, delay: Duration) -> Duration {
        self.last[(self.beats % Self::BEATS as u64) as usize] = delay;
        self.beats += 1;
        self.last.iter().copied().min().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hiccup_does_not_stand_and_a_row_of_late_beats_does() {
        let mut standing = Standing::default();
        let ms = Duration::from_millis;
        for delay in [ms(90), ms(80), ms(1), ms(90), ms(70), ms(60)] {
            assert!(standing.push(delay) <= ms(1), "one good beat among the last five");
        }
        assert_eq!(standing.push(ms(75)), ms(1));
        assert_eq!(standing.push(ms(75)), ms(60), "five late beats in a row: the least of them");
    }
}
