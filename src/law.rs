//! Laws: the pure rule that turns a window into a decision.
//!
//! A law is told a closed [`Window`] and the limit in force, and answers with the limit it wants,
//! a [`Reason`] and the [`Inputs`] it compared. It reads no clock, takes no lock, logs nothing,
//! and allocates nothing while it decides. What it wants is clamped to the bounds in one place
//! after it, and rounded there: a law keeps its fraction.
//!
//! Common to all: at most one decrease a window; growth only when the limit was what bound;
//! throttles and quick errors never enter a latency estimate; a stall is not health.

mod aimd;
mod fixed;
mod gradient;
mod knee;
mod loss;
mod vegas;

pub use aimd::Aimd;
pub use fixed::Fixed;
pub use gradient::Gradient;
pub use knee::Knee;
pub use vegas::Vegas;

use std::fmt;

use crate::window::{Pace, Window};

/// A rule that finds the limit. See the [module](self) for what all laws keep.
pub trait Law: fmt::Debug + Send {
    /// Its name in config, metrics and reports.
    fn name(&self) -> &'static str;

    /// Decides after a window. `limit` is the limit in force: the law's last answer within the
    /// bounds, or what an operator's change of bounds made of it.
    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision;

    /// What the law has learned, to be shown to an operator. Empty for laws that learn nothing.
    fn learned(&self) -> Learned {
        Learned::default()
    }
}

/// The names that [`by_name`] knows; the default law first.
pub const NAMES: &[&str] = &["knee", "aimd", "gradient", "vegas", "fixed"];

/// A law with its defaults, by its name; `None` when [`NAMES`] does not have it.
pub fn by_name(name: &str) -> Option<Box<dyn Law>> {
    Some(match name {
        "knee" => Box::new(Knee::default()),
        "aimd" => Box::new(Aimd::default()),
        "gradient" => Box::new(Gradient::default()),
        "vegas" => Box::new(Vegas::default()),
        "fixed" => Box::new(Fixed),
        _ => return None,
    })
}

/// The law that a limiter runs when none is named.
pub fn default_law() -> Box<dyn Law> {
    Box::new(Knee::default())
}

/// What a law wants, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
#[must_use]
pub struct Decision {
    /// The limit it wants; fractional, not yet clamped.
    pub limit: f64,
    /// Why.
    pub reason: Reason,
    /// What it compared.
    pub inputs: Inputs,
    /// When the next window closes.
    pub pace: Pace,
}

/// Why a limit is what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing to change.
    Hold,
    /// The limit was not what bound: no growth.
    HoldAppLimited,
    /// Nothing finishes: neither health nor a reason to cut.
    HoldStalled,
    /// Too little is known.
    HoldUncertain,
    /// The law does not move the limit.
    Fixed,
    /// The limit bound and the downstream answers well.
    Grow,
    /// The downstream says "too fast".
    ShrinkThrottle,
    /// The downstream refuses or times out.
    ShrinkOverload,
    /// Latency says that a queue stands.
    ShrinkLatency,
    /// A short look at the unloaded latency begins or ends.
    Probe,
    /// Cuts change nothing: the law holds at a share of the limit.
    HoldFutile,
    /// This process's own runtime is late: less in flight, whatever the downstream says.
    ShrinkLocal,
    /// This process's own runtime is late; the last cut has not been judged yet.
    HoldLocal,
    /// An operator changed the bounds.
    Bounds,
}

impl Reason {
    /// Every reason, in the order of [`Reason::index`].
    pub const ALL: [Reason; 14] = [
        Reason::Hold,
        Reason::HoldAppLimited,
        Reason::HoldStalled,
        Reason::HoldUncertain,
        Reason::Fixed,
        Reason::Grow,
        Reason::ShrinkThrottle,
        Reason::ShrinkOverload,
        Reason::ShrinkLatency,
        Reason::Probe,
        Reason::HoldFutile,
        Reason::ShrinkLocal,
        Reason::HoldLocal,
        Reason::Bounds,
    ];

    /// The label used in metrics and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Hold => "hold",
            Reason::HoldAppLimited => "hold_app_limited",
            Reason::HoldStalled => "hold_stalled",
            Reason::HoldUncertain => "hold_uncertain",
            Reason::Fixed => "fixed",
            Reason::Grow => "grow",
            Reason::ShrinkThrottle => "shrink_throttle",
            Reason::ShrinkOverload => "shrink_overload",
            Reason::ShrinkLatency => "shrink_latency",
            Reason::Probe => "probe",
            Reason::HoldFutile => "hold_futile",
            Reason::ShrinkLocal => "shrink_local",
            Reason::HoldLocal => "hold_local",
            Reason::Bounds => "bounds",
        }
    }

    /// Position in [`Reason::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The numbers a decision compared, by name. Holds at most [`Inputs::MOST`]; no allocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Inputs {
    named: [(&'static str, f64); Inputs::MOST],
    len: usize,
}

impl Inputs {
    /// The most numbers that fit; further ones are left out.
    pub const MOST: usize = 8;

    /// Adds a number. The name ends in its unit, as in `latency_s`.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: f64) -> Self {
        if let Some(place) = self.named.get_mut(self.len) {
            *place = (name, value);
            self.len += 1;
        }
        self
    }

    /// The numbers in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> + '_ {
        self.named[..self.len].iter().copied()
    }
}

/// What a law has learned of the downstream; each part only when the law knows it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Learned {
    /// Latency without queueing, in seconds.
    pub unloaded_latency_s: Option<f64>,
    /// In-flight level from which latency rises.
    pub knee: Option<f64>,
    /// Uncertainty of the knee: its standard deviation in octaves-free natural log.
    pub knee_spread: Option<f64>,
    /// Latency by in-flight level: (units in flight, seconds).
    pub profile: Vec<(f64, f64)>,
    /// Several cuts in a row have changed nothing: shedding does not help.
    pub shedding_is_futile: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_stand_at_their_index() {
        for (i, reason) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason.index(), i);
        }
    }

    #[test]
    fn every_name_is_the_name_of_its_law() {
        for &name in NAMES {
            assert_eq!(by_name(name).expect("a law").name(), name);
        }
        assert!(by_name("magic").is_none());
    }

    #[test]
    fn inputs_keep_order_and_bound() {
        let inputs = (0..20).fold(Inputs::default(), |inputs, i| inputs.with("x", f64::from(i)));
        assert_eq!(inputs.iter().map(|(_, x)| x).collect::<Vec<_>>(), (0..8).map(f64::from).collect::<Vec<_>>());
    }
}
