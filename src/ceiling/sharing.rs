//! How a ceiling is shared, and what stands in when the store is lost.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::standing::Turn;
use super::store::Terms;

/// What a process does by itself while the store is lost.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum OnLoss {
    /// It takes its share: the rate divided by the processes that the store had counted last.
    Share,
    /// It takes this rate, in units a second.
    Rate(f64),
    /// It refuses everything: fail closed.
    Refuse,
}

/// Told of each change of standing: the ceiling's name, and what changed. Must not block.
pub type Observer = Arc<dyn Fn(&Arc<str>, Turn) + Send + Sync>;

/// How a ceiling is shared.
#[derive(Clone)]
pub struct Sharing {
    pub(super) budget: Duration,
    pub(super) members: u32,
    pub(super) on_loss: OnLoss,
    pub(super) observer: Option<Observer>,
    pub(super) last_terms: Terms,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            budget: Duration::from_millis(20),
            members: 10,
            on_loss: OnLoss::Share,
            observer: None,
            last_terms: Terms { rate: 1.0, burst: 1.0, bounds: (1.0, 1.0) },
        }
    }
}

impl Sharing {
    /// The usual: 20 ms for a call, a share of a tenth until the store has counted.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long a call to the store may take; then the store counts as lost. No request waits longer for
    /// the store's sake. Default 20 ms; held within 1 ms and 1 s.
    pub fn budget(mut self, budget: Duration) -> Self {
        self.budget = budget.clamp(Duration::from_millis(1), Duration::from_secs(1));
        self
    }

    /// How many processes share the ceiling, as far as is known before the store has counted them.
    /// Default 10. Too small a number lets a store that is away from the start multiply the rate.
    pub fn members(mut self, members: u32) -> Self {
        self.members = members.max(1);
        self
    }

    /// What stands in while the store is lost. Default [`OnLoss::Share`].
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.on_loss = on_loss;
        self
    }

    /// Who is told of each change of standing.
    pub fn observer(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }
}

impl OnLoss {
    /// The share of the rate that one process takes by itself.
    pub(super) fn share(self, members: u32, rate: f64) -> f64 {
        match self {
            Self::Share | Self::Refuse => 1.0 / f64::from(members.max(1)),
            Self::Rate(own) => (own / rate).min(1.0),
        }
    }
}

impl fmt::Debug for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharing")
            .field("budget", &self.budget)
            .field("members", &self.members)
            .field("on_loss", &self.on_loss)
            .finish_non_exhaustive()
    }
}
