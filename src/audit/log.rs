//! Writes the log: each record is on disk when [`AuditLog::append`] returns, and either whole or
//! not there.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::clock;

use super::chain::Chain;
use super::reader::{CURRENT, Line, Lines, files, rotated};
use super::time::rfc3339;
use super::{ChangeResult, Entry, Record, Source};

/// How much of the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLimits {
    /// A file that is longer, in bytes, is followed by a new one.
    pub max_size: u64,
    /// Full files that are kept; the oldest is removed first.
    pub keep_files: usize,
}

impl Default for LogLimits {
    /// 20 files of 10 MiB.
    fn default() -> Self {
        Self { max_size: 10 << 20, keep_files: 20 }
    }
}

/// The log, open for writing. One process at a time has it.
#[derive(Debug)]
pub struct AuditLog {
    dir: PathBuf,
    limits: LogLimits,
    file: File,
    /// Device and inode of the file.
    id: (u64, u64),
    size: u64,
    /// The number of the first record in the file.
    first: u64,
    end: Chain,
    last: Option<Record>,
    _lock: File,
}

impl AuditLog {
    /// Opens the log in `dir`, which is made when it is not there. An unfinished last line, as a
    /// crash leaves it, is cut off, and a record says so: it was never acted on.
    ///
    /// # Errors
    /// When `dir` cannot be written, or another process has the log.
    pub fn open(dir: &Path, limits: LogLimits) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        let lock = options().open(dir.join("lock"))?;
        lock.try_lock().map_err(|err| match err {
            std::fs::TryLockError::WouldBlock => {
                io::Error::other(format!("another process writes the audit log in {}", dir.display()))
            }
            std::fs::TryLockError::Error(err) => err,
        })?;
        let found = Found::look(dir)?;
        let file = options().append(true).open(dir.join(CURRENT))?;
        if found.torn > 0 {
            file.set_len(found.size)?;
            file.sync_all()?;
        }
        sync_dir(dir)?;
        let mut log = Self {
            dir: dir.to_owned(),
            limits,
            id: id_of(&file)?,
            file,
            size: found.size,
            first: found.first,
            end: found.end.clone(),
            last: found.last.clone(),
            _lock: lock,
        };
        if let Some(note) = found.note() {
            log.append(Entry { note: Some(note), ..found.repaired() })?;
        }
        Ok(log)
    }

    /// Writes a record and waits until it is on disk.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it is left, as far as the disk allows.
    pub fn append(&mut self, entry: Entry) -> io::Result<Record> {
        self.still_there()?;
        if self.size >= self.limits.max_size {
            self.rotate()?;
        }
        let (record, line) = self.end.next(rfc3339(clock::wall()), entry);
        if let Err(err) = self.file.write_all(&line).and_then(|()| self.file.sync_data()) {
            // When this fails too, the next start finds an unfinished line and removes it.
            let _ = self.file.set_len(self.size);
            return Err(err);
        }
        if self.size == 0 {
            self.first = record.seq;
        }
        self.size += line.len() as u64;
        self.end = Chain::after(&line, record.seq);
        self.last = Some(record.clone());
        Ok(record)
    }

    /// The end of the chain.
    pub fn end(&self) -> &Chain {
        &self.end
    }

    /// The last record.
    pub fn last(&self) -> Option<&Record> {
        self.last.as_ref()
    }

    /// A file that was removed or moved away still takes writes, which nobody would ever see.
    fn still_there(&self) -> io::Result<()> {
        let there = std::fs::metadata(self.dir.join(CURRENT))?;
        if (there.dev(), there.ino()) == self.id {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::NotFound, "the audit log was removed or moved away"))
        }
    }

    /// A crash between the steps leaves no current file, or one that is empty: both are found again.
    fn rotate(&mut self) -> io::Result<()> {
        let current = self.dir.join(CURRENT);
        std::fs::rename(&current, rotated(&self.dir, self.first))?;
        self.file = options().append(true).open(&current)?;
        self.id = id_of(&self.file)?;
        self.size = 0;
        sync_dir(&self.dir)?;
        let mut full = files(&self.dir)?;
        full.pop();
        let too_many = full.len().saturating_sub(self.limits.keep_files);
        full.into_iter().take(too_many).try_for_each(std::fs::remove_file)
    }
}

/// What is there already.
#[derive(Default)]
struct Found {
    end: Chain,
    last: Option<Record>,
    first: u64,
    size: u64,
    torn: usize,
    damaged: bool,
}

impl Found {
    fn look(dir: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        let all = files(dir)?;
        // The current file may be empty: then the one before it has the end of the chain.
        let last_two = all.len().saturating_sub(2);
        for line in Lines::of(all[last_two..].to_vec()) {
            found.take(&line?, dir);
        }
        Ok(found)
    }

    fn take(&mut self, line: &Line, dir: &Path) {
        if !line.is_whole() {
            self.torn = line.bytes.len();
            return;
        }
        let record: Option<Record> = serde_json::from_slice(&line.bytes).ok();
        self.damaged = record.is_none();
        let seq = record.as_ref().map_or(self.end.seq().saturating_add(1), |record| record.seq);
        if line.file == dir.join(CURRENT) {
            if self.size == 0 {
                self.first = seq;
            }
            self.size += line.bytes.len() as u64;
        }
        self.end = Chain::after(&line.bytes, seq);
        self.last = record.or(self.last.take());
    }

    fn note(&self) -> Option<String> {
        let torn = (self.torn > 0).then(|| format!("{} bytes of an unfinished line removed", self.torn));
        torn.or_else(|| self.damaged.then(|| "the line before this one is no record".to_owned()))
    }

    fn repaired(&self) -> Entry {
        Entry {
            result: ChangeResult::Repaired,
            actor: "tidegate".to_owned(),
            source: Source::default(),
            in_force: self.last.as_ref().map(|last| last.entry.in_force.clone()).unwrap_or_default(),
            reason: None,
            changes: Vec::new(),
            note: None,
        }
    }
}

/// Only the gateway's own user may read what was changed.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.create(true).write(true).mode(0o600);
    options
}

fn id_of(file: &File) -> io::Result<(u64, u64)> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// A new name is on disk when its directory is.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads at most `most` bytes of a file; a longer one is an error.
pub(super) fn read_bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("{} is too long", path.display())));
    }
    Ok(bytes)
}
