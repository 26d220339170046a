//! From an operator's numbers to a limiter; wrong ones are refused with what is allowed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Limiter;
use super::classes::InvalidClasses;
use super::core::Core;
use super::lane::Lanes;
use super::tenants::Tenants;
use crate::admission::{Class, Mode};
use crate::bounds::{Bounds, InvalidBounds};
use crate::canary::Canary;
use crate::clock::Clock;
use crate::control::Control;
use crate::law::{self, Law};

/// The most that a waiting room may hold.
pub const MOST_WAITING: u32 = 1 << 20;

/// Settings of a limiter to be. Each setter says its default.
#[derive(Debug)]
#[must_use = "call build()"]
pub struct LimiterBuilder {
    name: Arc<str>,
    min: u32,
    max: u32,
    initial: Option<u32>,
    law: Box<dyn Law>,
    shadow: Option<Box<dyn Law>>,
    mode: Mode,
    room: u32,
    longest: Duration,
    canary: Option<Canary>,
    classes: Vec<Class>,
    tenants: Option<Tenants>,
}

impl LimiterBuilder {
    pub(super) fn new(name: Arc<str>) -> Self {
        Self {
            name,
            min: 1,
            max: 1000,
            initial: None,
            law: law::default_law(),
            shadow: None,
            mode: Mode::Enforce,
            room: 100,
            longest: Duration::from_millis(100),
            canary: None,
            classes: Vec::new(),
            tenants: None,
        }
    }

    /// The smallest and the largest limit, in units in flight. Default 1 and 1000.
    pub fn bounds(mut self, min: u32, max: u32) -> Self {
        (self.min, self.max) = (min, max);
        self
    }

    /// The limit to start from, within the bounds. Default 20, held within the bounds.
    pub fn initial(mut self, initial: u32) -> Self {
        self.initial = Some(initial);
        self
    }

    /// The law that moves the limit. Default: [`law::default_law`].
    pub fn law(mut self, law: Box<dyn Law>) -> Self {
        self.law = law;
        self
    }

    /// A second law that runs beside it and moves nothing. Default: none.
    pub fn shadow_law(mut self, law: Box<dyn Law>) -> Self {
        self.shadow = Some(law);
        self
    }

    /// Enforce, shadow or off. Default: enforce.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// How many requests may wait, and how long. Default 100 and 100 ms. A length of 0 lets nobody
    /// wait; at most [`MOST_WAITING`].
    pub fn waiting_room(mut self, len: u32, longest: Duration) -> Self {
        (self.room, self.longest) = (len, longest);
        self
    }

    /// A class: a named share of the limit. Default: none, and requests are not counted by class. Up to
    /// 31, beside the one called `default`, to which requests belong that name no other; it may be given
    /// here too.
    pub fn class(mut self, class: Class) -> Self {
        self.classes.push(class);
        self
    }

    /// How those who wait take turns by tenant. Default: [`Tenants::new`].
    pub fn tenants(mut self, tenants: Tenants) -> Self {
        self.tenants = Some(tenants);
        self
    }

    /// Counts a late runtime as overload, whatever the downstream says. Default: none.
    pub fn canary(mut self, canary: &Canary) -> Self {
        self.canary = Some(canary.clone());
        self
    }

    /// Checks the settings and builds the limiter.
    ///
    /// # Errors
    /// [`InvalidLimiter`] names what is wrong and what is allowed.
    pub fn build(self) -> Result<Limiter, InvalidLimiter> {
        if self.name.is_empty() {
            return Err(InvalidLimiter::NoName);
        }
        let bounds = Bounds::new(self.min, self.max).map_err(InvalidLimiter::Bounds)?;
        let initial = self.initial.unwrap_or(20.clamp(bounds.min(), bounds.max()));
        if !bounds.contains(initial) {
            return Err(InvalidLimiter::Initial { initial, bounds });
        }
        if self.room > MOST_WAITING {
            return Err(InvalidLimiter::WaitingRoom { len: self.room });
        }
        let clock = Clock::new();
        let mut control = Control::new(clock.now(), bounds, f64::from(initial), self.law);
        control.set_shadow(self.shadow);
        let core = Core::new(self.name, clock, control, self.mode, self.room, self.longest, self.canary);
        if !self.classes.is_empty() {
            core.set_classes(&self.classes).map_err(InvalidLimiter::Classes)?;
        }
        if let Some(tenants) = &self.tenants {
            core.set_tenants(tenants);
        }
        let core = Arc::new(core);
        Ok(Limiter { lanes: Lanes::new(&core), core })
    }
}

/// Why a limiter cannot be built.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidLimiter {
    /// The name is empty.
    NoName,
    /// The bounds are wrong.
    Bounds(InvalidBounds),
    /// The initial limit lies outside of the bounds.
    Initial {
        /// The limit asked for.
        initial: u32,
        /// What is allowed.
        bounds: Bounds,
    },
    /// The classes are wrong.
    Classes(InvalidClasses),
    /// The waiting room is too large.
    WaitingRoom {
        /// The length asked for.
        len: u32,
    },
}

impl fmt::Display for InvalidLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoName => f.write_str("a limiter needs a name: it was empty"),
            Self::Bounds(bounds) => bounds.fmt(f),
            Self::Classes(classes) => classes.fmt(f),
            Self::Initial { initial, bounds } => write!(f, "initial = {initial} is not allowed: need {bounds}"),
            Self::WaitingRoom { len } => {
                write!(f, "a waiting room of {len} is not allowed: need at most {MOST_WAITING}")
            }
        }
    }
}

impl std::error::Error for InvalidLimiter {}
