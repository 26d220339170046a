//! Where changes are recorded, and how much of it is kept.

use std::path::{Path, PathBuf};

use super::check::Check;
use super::file::AuditSection;

/// The audit log's settings. A change takes effect at the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    dir: Option<PathBuf>,
    on_failure: OnFailure,
    max_size: u64,
    keep_files: usize,
    keep_versions: usize,
}

/// What becomes of a change that cannot be recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnFailure {
    /// It is refused.
    #[default]
    Refuse,
    /// It is applied, with a warning.
    Apply,
}

impl AuditConfig {
    pub(super) fn check(raw: &AuditSection, check: &mut Check) -> Self {
        let max_size = check.size("audit.max_size", &raw.max_size, 64 << 10..=1 << 30);
        Self {
            dir: raw.dir.as_ref().map(|dir| dir.get_ref().into()),
            on_failure: check.word(
                "audit.on_failure",
                &raw.on_failure,
                &[("refuse", OnFailure::Refuse), ("apply", OnFailure::Apply)],
            ),
            max_size: max_size.unwrap_or(10 << 20),
            keep_files: check.whole("audit.keep_files", &raw.keep_files, 20, 1..=10_000) as usize,
            keep_versions: check.whole("audit.keep_versions", &raw.keep_versions, 100, 2..=10_000) as usize,
        }
    }

    /// The directory; without one nothing is recorded.
    pub fn dir(&self) -> Option<&Path> {
        self.dir.as_deref()
    }

    /// What becomes of a change that cannot be recorded.
    pub fn on_failure(&self) -> OnFailure {
        self.on_failure
    }

    /// A longer file, in bytes, is followed by a new one. Default 10 MiB.
    pub fn max_size(&self) -> u64 {
        self.max_size
    }

    /// Full files that are kept. Default 20.
    pub fn keep_files(&self) -> usize {
        self.keep_files
    }

    /// Earlier versions of the config that are kept. Default 100.
    pub fn keep_versions(&self) -> usize {
        self.keep_versions
    }
}
