//! The audit log: who changed the config, when, from what to what, why, and what came of it.
//!
//! A record is one line of JSON that begins with the SHA-256 of the line before it, so that anyone
//! can check the log with standard tools. A record is on disk before the change it tells of takes
//! effect. The log proves that nothing in it was altered, left out or put in between; that nothing
//! was cut off at its end shows only against a hash noted elsewhere.
//!
//! Reading order: this file is the vocabulary, `chain` links and checks lines (both pure), `time`
//! writes times, `reader` and `log` are the files, `versions` keeps the texts, `actor` finds names.

mod chain;
mod time;

mod actor;
mod log;
mod reader;
mod versions;

pub use actor::owner_of;
pub use chain::{Broken, Chain, Checker};
pub use log::{AuditLog, LogLimits};
pub use reader::{Line, Lines, Verified, files, verify};
pub use time::{rfc3339, since};
pub use versions::Versions;

use serde::{Deserialize, Serialize};

use crate::config::Changed;

/// One line of the log. Its fields stand in the line in this order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// SHA-256 of the line before, its newline included, in hex; 64 zeros in the very first line.
    pub prev: String,
    /// Counts from 1, also across rotated files.
    pub seq: u64,
    /// Wall time in UTC, as in `2026-12-01T10:20:30.123Z`.
    pub time: String,
    /// What is told.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What a record tells, before it has its place in the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What came of it.
    pub result: ChangeResult,
    /// Who: `file:NAME` is the owner of the config file, `token:NAME` the holder of an admin token,
    /// `tidegate` the gateway itself.
    pub actor: String,
    /// The config that the record is about.
    pub source: Source,
    /// Content hash of the config in force once this record stands.
    pub in_force: String,
    /// The reason that was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// What differs, key by key, between the config in force before and `source`.
    pub changes: Vec<Changed>,
    /// What else there is to say: the error, the figures of a comparison.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub note: Option<String>,
}

/// Where a config came from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The file's path.
    pub path: Option<String>,
    /// SHA-256 of its content, in hex.
    pub hash: Option<String>,
}

/// What came of a change, or what else happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeResult {
    /// The gateway started with this config.
    Started,
    /// In force from now on.
    Applied,
    /// Not put in force; what was in force stays.
    Refused,
    /// Its bake time is over and nothing got worse.
    Kept,
    /// Taken back: something got worse, or it could not be finished.
    Reverted,
    /// An earlier version, in force again.
    Restored,
    /// This instance is not in the share that takes it.
    NotInShare,
    /// Waits until the change before it has baked.
    Waiting,
    /// The end of the log was unfinished or damaged, and the log goes on behind it.
    Repaired,
    /// A safe substitute is in use, because something was lost.
    FellBack,
    /// What was lost is there again.
    CameBack,
}

impl ChangeResult {
    /// As it stands in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Applied => "applied",
            Self::Refused => "refused",
            Self::Kept => "kept",
            Self::Reverted => "reverted",
            Self::Restored => "restored",
            Self::NotInShare => "not_in_share",
            Self::Waiting => "waiting",
            Self::Repaired => "repaired",
            Self::FellBack => "fell_back",
            Self::CameBack => "came_back",
        }
    }
}

impl Entry {
    /// Keeps the line within bounds: long texts are cut, and so are long lists of changes, which the
    /// note says.
    fn bounded(mut self) -> Self {
        const MOST_CHANGES: usize = 500;
        const MOST_TEXT: usize = 1000;
        if self.changes.len() > MOST_CHANGES {
            let more = self.changes.len() - MOST_CHANGES;
            self.changes.truncate(MOST_CHANGES);
            let note = self.note.take().unwrap_or_default();
            self.note = Some(format!("{more} more changes; {note}"));
        }
        let texts = [&mut self.reason, &mut self.note, &mut self.source.path];
        for text in texts.into_iter().flatten().chain([&mut self.actor]) {
            cut(text, MOST_TEXT);
        }
        for change in &mut self.changes {
            cut(&mut change.key, MOST_TEXT);
            for text in [&mut change.old, &mut change.new].into_iter().flatten() {
                cut(text, MOST_TEXT);
            }
        }
        self
    }
}

fn cut(text: &mut String, most: usize) {
    if text.len() > most {
        let mut at = most;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
        text.push_str("...");
    }
}
