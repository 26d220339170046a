//! Keeps the texts of configs by their hash, so that any of them can be put back. Bounded in number.

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::clock;
use crate::config::content_hash;

use super::log::{read_bounded, sync_dir};

/// A longer config is not kept.
const MOST_TEXT: u64 = 16 << 20;

/// The texts of earlier configs.
#[derive(Clone, Debug)]
pub struct Versions {
    dir: PathBuf,
    keep: usize,
}

impl Versions {
    /// Those beside the log in `log_dir`; the newest `keep` are kept.
    pub fn beside(log_dir: &Path, keep: usize) -> Self {
        Self { dir: log_dir.join("versions"), keep: keep.max(2) }
    }

    /// Keeps `text`; it is on disk when this returns. Removes the oldest when there are too many,
    /// never those whose hashes are `needed`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, text: &[u8], needed: &[&str]) -> io::Result<String> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let hash = content_hash(text);
        let path = self.path(&hash);
        if self.get(&hash).is_ok() {
            File::options().write(true).open(&path)?.set_modified(clock::wall())?;
            return Ok(hash);
        }
        let unfinished = self.dir.join(format!("{hash}.tmp"));
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&unfinished)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, &path)?;
        sync_dir(&self.dir)?;
        self.remove_old(&hash, needed)?;
        Ok(hash)
    }

    /// The text with this hash, or with the only hash that begins so (8 digits at least).
    ///
    /// # Errors
    /// When there is none, more than one, or when what is there has another hash.
    pub fn get(&self, hash: &str) -> io::Result<Vec<u8>> {
        let whole = self.find(hash)?;
        let text = read_bounded(&self.path(&whole), MOST_TEXT)?;
        if content_hash(&text) != whole {
            let why = format!("the version kept as {whole} was altered: its content has another hash");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(text)
    }

    /// The hashes that are kept, newest first.
    ///
    /// # Errors
    /// When the directory cannot be read; that it does not exist is no error.
    pub fn list(&self) -> io::Result<Vec<(String, SystemTime)>> {
        let entries = match std::fs::read_dir(&self.dir) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(hash) = name.to_str().and_then(|name| name.strip_suffix(".toml")) {
                all.push((hash.to_owned(), entry.metadata()?.modified()?));
            }
        }
        all.sort_by_key(|(_, written)| std::cmp::Reverse(*written));
        Ok(all)
    }

    fn find(&self, hash: &str) -> io::Result<String> {
        let is_hash = hash.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if !is_hash || !(8..=64).contains(&hash.len()) {
            let why = format!("\"{hash}\" is no hash: needed are 8 to 64 of the digits 0-9 and a-f");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        if hash.len() == 64 {
            return Ok(hash.to_owned());
        }
        let mut all = self.list()?.into_iter().map(|(whole, _)| whole).filter(|whole| whole.starts_with(hash));
        match (all.next(), all.next()) {
            (Some(whole), None) => Ok(whole),
            (None, _) => Err(io::Error::new(io::ErrorKind::NotFound, format!("no version {hash} is kept"))),
            (Some(_), Some(_)) => Err(io::Error::other(format!("more than one version begins with {hash}"))),
        }
    }

    fn remove_old(&self, just_kept: &str, needed: &[&str]) -> io::Result<()> {
        for (hash, _) in self.list()?.into_iter().skip(self.keep) {
            if hash != just_kept && !needed.contains(&hash.as_str()) {
                std::fs::remove_file(self.path(&hash))?;
            }
        }
        Ok(())
    }

    fn path(&self, hash: &str) -> PathBuf {
        self.dir.join(format!("{hash}.toml"))
    }
}
