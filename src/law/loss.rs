//! Losses as the published laws count them: the share of answers that were throttled or overloaded.

use super::Reason;
use crate::outcome::Outcome;
use crate::window::Window;

/// Losses are tolerated up to this share of the answers, or up to [`TOLERATED_COUNT`] of them:
/// at a limit of 4, two throttles must not cost a whole unit.
const TOLERATED_SHARE: f64 = 0.05;
const TOLERATED_COUNT: f64 = 2.0;

/// Requests that were answered, well or with pressure.
pub(super) fn answers(window: &Window<'_>) -> f64 {
    let of = |outcome| window.finished.of(outcome) as f64;
    of(Outcome::Success) + of(Outcome::Caller) + of(Outcome::Throttled) + of(Outcome::Overloaded)
}

/// Share of the answers that were lost, 0 while that is tolerated.
pub(super) fn share(window: &Window<'_>) -> f64 {
    let lost = (window.finished.of(Outcome::Throttled) + window.finished.of(Outcome::Overloaded)) as f64;
    tolerate(lost, answers(window))
}

/// `lost / answers`, 0 while that is tolerated.
pub(super) fn tolerate(lost: f64, answers: f64) -> f64 {
    let counts = lost > 0.0 && ((lost > TOLERATED_COUNT && lost > TOLERATED_SHARE * answers) || lost >= answers);
    if counts { (lost / answers.max(lost)).min(1.0) } else { 0.0 }
}

/// Which kind of loss weighs more.
pub(super) fn reason(window: &Window<'_>) -> Reason {
    if window.finished.of(Outcome::Throttled) > window.finished.of(Outcome::Overloaded) {
        Reason::ShrinkThrottle
    } else {
        Reason::ShrinkOverload
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_losses_of_many_are_tolerated_and_all_of_few_are_not() {
        assert_eq!(
            [(2.0, 4.0), (3.0, 100.0), (6.0, 60.0), (1.0, 1.0), (0.0, 0.0)].map(|(l, a)| tolerate(l, a)),
            [0.0, 0.0, 0.1, 1.0, 0.0]
        );
    }
}
