//! Has the downstream changed? Two cumulative sums over the residuals of all samples.
//!
//! A residual is how far a sample lies from its own level's mean, in standard deviations. Sums of
//! what exceeds a slack, one for each direction, stay near zero while nothing changes; a sum past
//! the threshold is an alarm (Page, "Continuous Inspection Schemes", 1954).

/// Drift that is tolerated, in standard deviations a sample.
const SLACK: f64 = 0.2;
/// An alarm.
const THRESHOLD: f64 = 16.0;
/// One sample counts at most so much: no alarm from a single outlier.
const MOST: f64 = 3.0;

/// Which way the downstream changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shift {
    Slower,
    Faster,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Change {
    slower: f64,
    faster: f64,
}

impl Change {
    /// Adds a residual; says when the downstream changed, and starts again.
    pub(super) fn push(&mut self, residual: f64, weight: f64) -> Option<Shift> {
        let z = residual.clamp(-MOST, MOST);
        self.slower = (self.slower + weight * (z - SLACK)).max(0.0);
        self.faster = (self.faster - weight * (z + SLACK)).max(0.0);
        let shift = if self.slower > THRESHOLD {
            Shift::Slower
        } else if self.faster > THRESHOLD {
            Shift::Faster
        } else {
            return None;
        };
        self.reset();
        Some(shift)
    }

    /// Whether a change is likely enough that noise should not be learned now.
    pub(super) fn is_suspected(&self) -> bool {
        self.slower.max(self.faster) > 0.5 * THRESHOLD
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_residuals_raise_no_alarm_and_a_shift_does() {
        let mut change = Change::default();
        assert!((0..10_000).all(|i| change.push(if i % 2 == 0 { 1.0 } else { -1.0 }, 1.0).is_none()));
        let first = (0..100).position(|_| change.push(1.0, 1.0) == Some(Shift::Slower)).expect("alarm");
        assert!((10..20).contains(&first), "{first}");
    }

    #[test]
    fn one_outlier_is_no_change() {
        assert_eq!(Change::default().push(1e9, 1.0), None);
    }
}
