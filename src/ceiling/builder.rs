//! Settings of a ceiling, checked once.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::bucket::{MAX_RATE, MAX_UNITS, MIN_RATE};
use super::core::{Core, Settings};
use super::driver::Driver;
use super::sharing::{OnLoss, Sharing};
use super::store::Store;
use super::supply::Supply;
use super::{Ceiling, MOST_WAITING};
use crate::clock::Clock;

/// Builds a [`Ceiling`].
#[derive(Clone, Debug)]
pub struct CeilingBuilder {
    name: Arc<str>,
    rate: f64,
    burst: Option<f64>,
    bounds: Option<(f64, f64)>,
    most_waiting: u32,
    longest_wait: Duration,
}

impl CeilingBuilder {
    pub(super) fn new(name: Arc<str>) -> Self {
        let longest_wait = Duration::from_secs(60);
        Self { name, rate: 0.0, burst: None, bounds: None, most_waiting: 1000, longest_wait }
    }

    /// Units a second. Needed; from [`MIN_RATE`] to [`MAX_RATE`].
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    /// Units that may come at once when nothing came before. Default: a tenth of a second's worth, at
    /// least 1. While the rate is below the one it was built with, the burst shrinks with it.
    ///
    /// A small burst spaces attempts evenly; callers that wait lose throughput when it is worth less
    /// than two milliseconds of the rate, since timers are no finer.
    pub fn burst(mut self, burst: u32) -> Self {
        self.burst = Some(f64::from(burst));
        self
    }

    /// The smallest and the largest rate that throttles and recovery may lead to. Default: the rate
    /// stays where it is.
    pub fn bounds(mut self, min: f64, max: f64) -> Self {
        self.bounds = Some((min, max));
        self
    }

    /// How many requests may wait, and how long one without a deadline does. Default 1000 and 60 s.
    pub fn waiting(mut self, most: u32, longest: Duration) -> Self {
        (self.most_waiting, self.longest_wait) = (most, longest);
        self
    }

    /// Checks the settings and builds the ceiling.
    ///
    /// # Errors
    /// [`InvalidCeiling`] names what is wrong and what is allowed.
    pub fn build(self) -> Result<Ceiling, InvalidCeiling> {
        let settings = self.settings()?;
        Ok(Ceiling { core: Arc::new(Core::new(settings, Clock::new(), None)) })
    }

    /// Checks the settings and builds a ceiling that is shared through `store`, and the task that it
    /// needs: spawn [`Driver::run`]. Until the store has answered, the ceiling is in fallback.
    ///
    /// Give it a burst of at least 50 ms of its rate: a lease may be worth half of that time, and has to
    /// outlive a round trip.
    ///
    /// # Errors
    /// [`InvalidCeiling`] names what is wrong and what is allowed.
    pub fn build_shared(self, store: impl Store, sharing: Sharing) -> Result<(Ceiling, Driver), InvalidCeiling> {
        let settings = self.settings()?;
        if let OnLoss::Rate(rate) = sharing.on_loss {
            check_rate("fallback rate", rate)?;
        }
        let supply = Arc::new(Supply::new(sharing.members, matches!(sharing.on_loss, OnLoss::Refuse)));
        let share = sharing.on_loss.share(sharing.members, settings.rate);
        let core = Arc::new(Core::new(settings, Clock::new(), Some((Arc::clone(&supply), share))));
        let driver = Driver::new(&core, supply, Box::new(store), sharing);
        Ok((Ceiling { core }, driver))
    }

    fn settings(self) -> Result<Settings, InvalidCeiling> {
        if self.name.is_empty() {
            return Err(InvalidCeiling::NoName);
        }
        check_rate("rate", self.rate)?;
        let bounds = self.bounds.unwrap_or((self.rate, self.rate));
        check_bounds(bounds, self.rate)?;
        let burst = self.burst.unwrap_or((self.rate / 10.0).clamp(1.0, f64::from(MAX_UNITS)));
        check_burst(burst)?;
        if self.most_waiting > MOST_WAITING {
            return Err(InvalidCeiling::Waiting(self.most_waiting));
        }
        let (most_waiting, longest_wait) = (self.most_waiting, self.longest_wait);
        Ok(Settings { name: self.name, rate: self.rate, burst, bounds, most_waiting, longest_wait })
    }
}

pub(super) fn check_rate(which: &'static str, rate: f64) -> Result<(), InvalidCeiling> {
    if (MIN_RATE..=MAX_RATE).contains(&rate) { Ok(()) } else { Err(InvalidCeiling::Rate(which, rate)) }
}

pub(super) fn check_burst(burst: f64) -> Result<(), InvalidCeiling> {
    if (1.0..=f64::from(MAX_UNITS)).contains(&burst) { Ok(()) } else { Err(InvalidCeiling::Burst(burst)) }
}

pub(super) fn check_bounds((min, max): (f64, f64), rate: f64) -> Result<(), InvalidCeiling> {
    check_rate("min", min)?;
    check_rate("max", max)?;
    if min <= rate && rate <= max { Ok(()) } else { Err(InvalidCeiling::Bounds { min, rate, max }) }
}

/// Why a ceiling cannot be built or changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum InvalidCeiling {
    /// The name is empty.
    NoName,
    /// A rate is out of range: which, and its value.
    Rate(&'static str, f64),
    /// The burst is out of range.
    Burst(f64),
    /// The rate does not lie within its bounds.
    Bounds {
        /// The smallest rate asked for.
        min: f64,
        /// The rate asked for.
        rate: f64,
        /// The largest rate asked for.
        max: f64,
    },
    /// Too many may wait.
    Waiting(u32),
}

impl fmt::Display for InvalidCeiling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("a ceiling needs a name: it was empty"),
            Self::Rate(which, rate) => {
                write!(f, "{which} = {rate} is not allowed: need {MIN_RATE} to {MAX_RATE} units a second")
            }
            Self::Burst(burst) => write!(f, "burst = {burst} is not allowed: need 1 to {MAX_UNITS}"),
            Self::Bounds { min, rate, max } => {
                write!(f, "min = {min}, rate = {rate}, max = {max} is not allowed: need min <= rate <= max")
            }
            Self::Waiting(most) => {
                write!(f, "a line of {most} is not allowed: need at most {MOST_WAITING}")
            }
        }
    }
}

impl std::error::Error for InvalidCeiling {}
