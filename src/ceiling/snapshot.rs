//! What is in force at a ceiling right now: reported, not assumed.

use std::fmt;
use std::sync::Arc;

use super::store::Loss;

/// Where the units come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// This process alone: the ceiling is not shared.
    Local,
    /// The shared store, through leases.
    Shared,
    /// The last lease, while the store does not answer.
    Lease,
    /// A safe share of the rate, because the store does not answer; nothing when the ceiling is told to
    /// fail closed.
    Fallback,
}

impl Source {
    /// Every source.
    pub const ALL: [Source; 4] = [Source::Local, Source::Shared, Source::Lease, Source::Fallback];

    /// The label used in metrics, JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Local => "local",
            Source::Shared => "shared",
            Source::Lease => "lease",
            Source::Fallback => "fallback",
        }
    }

    /// Whether something is lost: a safe substitute is in use.
    pub const fn is_fallback(self) -> bool {
        matches!(self, Source::Lease | Source::Fallback)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A ceiling's numbers at one moment.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CeilingSnapshot {
    /// Its name.
    pub name: Arc<str>,
    /// Where the units come from.
    pub source: Source,
    /// The rate in force here, in units a second: of all processes together while it is shared, of this
    /// one in fallback.
    pub rate: f64,
    /// The smallest and the largest rate.
    pub bounds: (f64, f64),
    /// Units that may come at once at the rate in force.
    pub burst: f64,
    /// Units taken since it was built, refunds included.
    pub consumed: u64,
    /// Units given back.
    pub refunded: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that were served after a wait.
    pub waited: u64,
    /// Requests that wait.
    pub waiting: u32,
    /// Attempts that the other side throttled.
    pub throttled: u64,
    /// How often the rate was cut here.
    pub cuts: u64,
    /// Processes that share it, as far as the store has counted; 1 when it is not shared.
    pub members: u32,
    /// Why the store is of no use, while it is not.
    pub loss: Option<Loss>,
    /// Calls to the store.
    pub round_trips: u64,
}
