//! Records changes before they take effect, and keeps the versions that they make.
//!
//! The log may be lost (full disk, a directory that is gone, another process that still has it): it
//! is opened anew at the next record. Whether an unrecorded change is applied is for the config.

use std::io;

use tidegate::audit::{AuditLog, Entry, LogLimits, Versions};
use tidegate::config::{AuditConfig, OnFailure};

/// The audit log and the versions beside it, if there are any.
pub(crate) struct Trail {
    config: AuditConfig,
    log: Option<AuditLog>,
    versions: Option<Versions>,
    shown: Shown,
}

/// What is told of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Hash of the last line; who notes it can tell later whether the log was cut off.
    pub(crate) head: Option<String>,
    /// Why the last record was not written.
    pub(crate) error: Option<String>,
    /// Records that could not be written.
    pub(crate) failures: u64,
}

impl Trail {
    /// Opens the log. When that fails it is tried again at each record.
    pub(crate) fn open(config: AuditConfig) -> Self {
        let versions = config.dir().map(|dir| Versions::beside(dir, config.keep_versions()));
        let mut trail = Self { config, log: None, versions, shown: Shown::default() };
        if let Err(err) = trail.log() {
            trail.failed(&err);
        }
        trail
    }

    /// Records `entry`, and keeps `text` when there is one; both are on disk when this returns.
    ///
    /// Without a directory there is nothing to do. Fails only when the config says that what cannot
    /// be recorded is not applied.
    pub(crate) fn record(&mut self, entry: Entry, text: Option<&[u8]>) -> io::Result<()> {
        let written = self.write(entry.clone(), text).or_else(|_| {
            // Whatever the disk made of it, and whoever moved the file: looked at anew, once.
            self.log = None;
            self.write(entry, text)
        });
        let Err(err) = written else {
            self.shown.error = None;
            return Ok(());
        };
        self.log = None;
        self.failed(&err);
        match self.config.on_failure() {
            OnFailure::Apply => Ok(()),
            _ => Err(io::Error::new(err.kind(), format!("the change cannot be recorded: {err}"))),
        }
    }

    /// The text of an earlier version.
    pub(crate) fn version(&self, hash: &str) -> io::Result<Vec<u8>> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no versions are kept: audit.dir is not configured");
        self.versions.as_ref().ok_or_else(none)?.get(hash)
    }

    /// Whether there is a log.
    pub(crate) fn is_on(&self) -> bool {
        self.config.dir().is_some()
    }

    /// What is told of it.
    pub(crate) fn shown(&self) -> Shown {
        self.shown.clone()
    }

    fn write(&mut self, entry: Entry, text: Option<&[u8]>) -> io::Result<()> {
        if let (Some(versions), Some(text)) = (&self.versions, text) {
            versions.keep(text, &[&entry.in_force])?;
        }
        let Some(log) = self.log()? else { return Ok(()) };
        let record = log.append(entry)?;
        let (result, seq) = (record.entry.result, record.seq);
        let head = log.end().head().to_owned();
        tracing::info!(seq, result = result.as_str(), head, "recorded in the audit log");
        self.shown.head = Some(head);
        Ok(())
    }

    fn log(&mut self) -> io::Result<Option<&mut AuditLog>> {
        let Some(dir) = self.config.dir() else { return Ok(None) };
        if self.log.is_none() {
            let limits = LogLimits { max_size: self.config.max_size(), keep_files: self.config.keep_files() };
            let log = AuditLog::open(dir, limits)?;
            self.shown.head = Some(log.end().head().to_owned());
            self.log = Some(log);
        }
        Ok(self.log.as_mut())
    }

    fn failed(&mut self, err: &io::Error) {
        self.shown.failures += 1;
        let why = err.to_string();
        if self.shown.error.as_ref() != Some(&why) {
            tracing::error!(why, "the audit log cannot be written");
            self.shown.error = Some(why);
        }
    }
}
