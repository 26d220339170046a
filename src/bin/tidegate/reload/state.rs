//! What is told of the config in force, and of what is wrong with the file if it is another one.

use std::time::{Duration, Instant, SystemTime};

use tidegate::metrics::ConfigState;

use super::Start;
use crate::trail;

/// The config in force, and the file's standing.
#[derive(Clone)]
pub(crate) struct State {
    /// Content hash of what is in force.
    pub(crate) hash: String,
    /// How often a config was put in force, the first included.
    pub(crate) version: u64,
    pub(crate) since: Instant,
    pub(crate) applied_at: SystemTime,
    /// Files that were refused.
    pub(crate) refused: u64,
    /// Changes that were taken back.
    pub(crate) reverted: u64,
    /// Why the file is not what is in force.
    pub(crate) error: Option<String>,
    /// A file that is not in force, and rightly so.
    pub(crate) pending: Option<Pending>,
    /// When the change in force is through its bake time.
    pub(crate) baking_until: Option<Instant>,
    /// Why there are no events, so that the file is only looked at.
    pub(crate) blind: Option<String>,
    pub(crate) audit: Option<trail::Shown>,
    pub(crate) instance: String,
}

/// A change that is not in force, and rightly so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pending {
    /// This instance is not in its share. Its hash.
    NotInShare(String),
    /// It waits for the one that bakes. Its hash.
    Waiting(String),
}

impl Pending {
    /// What it is, and the hash of the file.
    pub(crate) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::NotInShare(hash) => ("not_in_share", hash),
            Self::Waiting(hash) => ("waiting", hash),
        }
    }
}

impl State {
    pub(super) fn at_start(start: &Start) -> Self {
        Self {
            hash: start.hash.clone(),
            version: 1,
            since: Instant::now(),
            applied_at: SystemTime::now(),
            refused: 0,
            reverted: 0,
            error: start.error.clone(),
            pending: start.pending.clone(),
            baking_until: None,
            blind: None,
            audit: start.trail.shown(),
            instance: start.instance.clone(),
        }
    }

    /// Another config is in force now.
    pub(super) fn applied(&mut self, hash: String) {
        self.version += 1;
        (self.hash, self.error, self.pending) = (hash, None, None);
        (self.since, self.applied_at) = (Instant::now(), SystemTime::now());
        tracing::info!(hash = self.hash, version = self.version, "config applied");
    }

    /// How long the change in force still bakes.
    pub(crate) fn bakes_for(&self) -> Option<Duration> {
        self.baking_until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    /// As the metrics want it.
    pub(crate) fn measured(&self) -> ConfigState {
        ConfigState {
            ok: self.error.is_none(),
            version: self.version,
            age: self.since.elapsed(),
            refused: self.refused,
            reverted: self.reverted,
            baking: self.baking_until.is_some(),
            pending: self.pending.is_some(),
            blind: self.blind.is_some(),
            audit_ok: self.audit.as_ref().map(|audit| audit.error.is_none()),
            audit_failures: self.audit.as_ref().map_or(0, |audit| audit.failures),
        }
    }
}
