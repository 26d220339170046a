//! Records changes before they take effect, and keeps the versions that they make.
//!
//! The log may be lost (full disk, a directory that is gone, another process that still has it): it
//! is opened anew at the next record. Whether an unrecorded change is applied is for the config. What
//! happened all the same and could not be recorded is owed, and written first once that works again.

use std::collections::VecDeque;
use std::io;
use std::time::SystemTime;

use tidegate::audit::{AuditLog, Entry, LogLimits, Versions, rfc3339};
use tidegate::config::{AuditConfig, OnFailure};

/// The audit log and the versions beside it, if there are any.
pub(crate) struct Trail {
    config: AuditConfig,
    log: Option<AuditLog>,
    versions: Option<Versions>,
    owed: VecDeque<Entry>,
    shown: Shown,
}

/// Records that are owed at most; the oldest is given up first.
const MOST_OWED: usize = 100;

/// What is told of the log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// Hash of the last line; who notes it can tell later whether the log was cut off.
    pub(crate) head: Option<String>,
    /// Why the last record was not written.
    pub(crate) error: Option<String>,
    /// Records that could not be written when they were due.
    pub(crate) failures: u64,
}

impl Trail {
    /// Opens the log. When that fails it is tried again at each record.
    pub(crate) fn open(config: AuditConfig) -> Self {
        let versions = config.dir().map(|dir| Versions::beside(dir, config.keep_versions()));
        let mut trail = Self { config, log: None, versions, owed: VecDeque::new(), shown: Shown::default() };
        if let Err(err) = trail.log() {
            trail.failed(&err);
        }
        trail
    }

    /// Records `entry` and keeps `text`, before the change takes effect; both are on disk when this
    /// returns. Without a directory there is nothing to do.
    ///
    /// Fails only when the config says that what cannot be recorded is not applied.
    pub(crate) fn record(&mut self, entry: Entry, text: &[u8]) -> io::Result<()> {
        let written = self.pay().and_then(|()| self.write(&entry, Some(text)));
        let Err(err) = written else { return Ok(()) };
        self.shown.failures += 1;
        self.failed(&err);
        match self.config.on_failure() {
            OnFailure::Apply => {
                self.owe(entry);
                Ok(())
            }
            _ => Err(io::Error::new(err.kind(), format!("the change cannot be recorded: {err}"))),
        }
    }

    /// Records what has happened already, now or as soon as that works.
    pub(crate) fn note(&mut self, entry: Entry) {
        let written = self.pay().and_then(|()| self.write(&entry, None));
        if let Err(err) = written {
            self.shown.failures += 1;
            self.failed(&err);
            self.owe(entry);
        }
    }

    /// Keeps `text`, which is in force already.
    pub(crate) fn keep(&mut self, text: &[u8]) {
        if let Some(Err(err)) = self.versions.as_ref().map(|versions| versions.keep(text, &[])) {
            self.failed(&err);
        }
    }

    /// Writes what is owed.
    pub(crate) fn pay(&mut self) -> io::Result<()> {
        while let Some(entry) = self.owed.front().cloned() {
            self.write(&entry, None).inspect_err(|err| self.failed(err))?;
            self.owed.pop_front();
        }
        Ok(())
    }

    /// The text of an earlier version.
    pub(crate) fn version(&self, hash: &str) -> io::Result<Vec<u8>> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no versions are kept: audit.dir is not configured");
        self.versions.as_ref().ok_or_else(none)?.get(hash)
    }

    /// What is told of the log, if there is one.
    pub(crate) fn shown(&self) -> Option<Shown> {
        self.config.dir().map(|_| self.shown.clone())
    }

    fn write(&mut self, entry: &Entry, text: Option<&[u8]>) -> io::Result<()> {
        self.try_write(entry, text).or_else(|_| {
            // Whatever the disk made of it, and whoever moved the file: looked at anew, once.
            self.log = None;
            self.try_write(entry, text)
        })
    }

    fn try_write(&mut self, entry: &Entry, text: Option<&[u8]>) -> io::Result<()> {
        if let (Some(versions), Some(text)) = (&self.versions, text) {
            versions.keep(text, &[&entry.in_force])?;
        }
        let Some(log) = self.log()? else { return Ok(()) };
        let record = log.append(entry.clone())?;
        let head = log.end().head().to_owned();
        tracing::info!(seq = record.seq, result = record.entry.result.as_str(), head, "recorded in the audit log");
        (self.shown.head, self.shown.error) = (Some(head), None);
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

    fn owe(&mut self, mut entry: Entry) {
        if self.owed.len() == MOST_OWED {
            self.owed.pop_front();
        }
        let late = format!("happened at {}, recorded later", rfc3339(SystemTime::now()));
        entry.note = Some(entry.note.map_or_else(|| late.clone(), |note| format!("{note}; {late}")));
        self.owed.push_back(entry);
    }

    fn failed(&mut self, err: &io::Error) {
        self.log = None;
        let why = err.to_string();
        if self.shown.error.as_ref() != Some(&why) {
            tracing::error!(why, "the audit log cannot be written");
            self.shown.error = Some(why);
        }
    }
}
