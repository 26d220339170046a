//! `fixed`: the limit stays where it is. Right only where the number happens to fit.

use super::{Decision, Inputs, Law, Reason};
use crate::window::{Pace, Window};

/// Never moves the limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed;

impl Law for Fixed {
    fn name(&self) -> &'static str {
        "fixed"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        let reason = if window.stalled { Reason::HoldStalled } else { Reason::Fixed };
        Decision { limit, reason, inputs: Inputs::default(), pace: Pace::default() }
    }
}
