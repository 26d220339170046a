//! How turns are shared between tenants, as an operator describes it: by name.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::admission::TurnPolicy;

/// How those who wait take turns by tenant. A limiter has one; it holds within each class.
///
/// Tenants that come again and again have turns of their own, up to a bound; all others together have
/// the turns of one, so that nobody wins by inventing names. A tenant that waits alone gets everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenants {
    tracked: u32,
    weights: Vec<(String, f64)>,
    burst: f64,
    refill: Duration,
}

impl Default for Tenants {
    fn default() -> Self {
        let TurnPolicy { tracked, burst, refill, .. } = TurnPolicy::default();
        Self { tracked, weights: Vec::new(), burst, refill }
    }
}

impl Tenants {
    /// The most tenants that can have turns of their own.
    pub const MOST_TRACKED: u32 = 1024;

    /// Equal turns, no burst, 64 tenants with turns of their own.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tenants have turns of their own, at most [`Tenants::MOST_TRACKED`]. Default 64. More
    /// cost time whenever somebody is served.
    #[must_use]
    pub fn tracked(mut self, tenants: u32) -> Self {
        self.tracked = tenants.min(Self::MOST_TRACKED);
        self
    }

    /// A tenant's weight, held within 0.01 and 100: one of weight 2 has twice the turns. It has turns of
    /// its own in any case. Default 1.
    #[must_use]
    pub fn weight(mut self, tenant: impl Into<String>, weight: f64) -> Self {
        let weight = if weight.is_nan() { 1.0 } else { weight.clamp(0.01, 100.0) };
        self.weights.push((tenant.into(), weight));
        self
    }

    /// Units that a tenant which was idle may be ahead of its turn, and how long spent credit takes to
    /// refill. Default: none.
    #[must_use]
    pub fn burst(mut self, units: u32, refill: Duration) -> Self {
        (self.burst, self.refill) = (f64::from(units), refill);
        self
    }

    pub(super) fn policy(&self, names: &RandomState) -> TurnPolicy {
        let weights: HashMap<_, _> =
            self.weights.iter().map(|(name, weight)| (names.hash_one(name.as_str()), *weight)).collect();
        TurnPolicy { tracked: self.tracked, weights, burst: self.burst, refill: self.refill }
    }
}
