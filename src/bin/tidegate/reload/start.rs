//! What the gateway starts with: the file, unless an earlier version is to stay in force here.
//!
//! That is so when the file's change was taken back, when this instance is not in its share, or when
//! the file is no good: what was in force before the restart then stays, if it was kept. A process
//! that dies must not come back with less than it had.

use std::path::{Path, PathBuf};

use anyhow::Context;
use tidegate::audit::{ChangeResult, Entry, Lines, Record, Source, Versions, files, owner_of};
use tidegate::config::{Config, Overrides, content_hash, difference};

use super::state::Pending;
use crate::cli::{self, ServeArgs};
use crate::trail::Trail;

/// Everything a reloader begins with.
pub(crate) struct Start {
    pub(super) path: Option<PathBuf>,
    pub(super) instance: String,
    pub(super) trail: Trail,
    /// What is in force from the start.
    pub(super) text: Vec<u8>,
    pub(super) hash: String,
    /// What the file holds.
    pub(super) file_text: Vec<u8>,
    pub(super) error: Option<String>,
    pub(super) pending: Option<Pending>,
    pub(super) taken_back: Option<String>,
}

impl Start {
    /// Reads the file, decides what to start with and records it. The config is returned beside.
    pub(crate) fn load(args: &ServeArgs) -> anyhow::Result<(Self, Config)> {
        let (config, text) = match args.load() {
            Ok(loaded) => loaded,
            Err(err) => return Self::last_good(args, &err).ok_or(err),
        };
        let hash = content_hash(&text);
        let mut start = Self::with(args, &config, text);
        let history = config.audit().dir().map(|dir| Told::read(dir, &hash)).unwrap_or_default();
        let mut running = config;
        if let Some(was) = history.in_force.clone().filter(|was| *was != hash) {
            running = start.keep_or_take(&history, was, running, &args.overrides());
        }
        start.record(&history, &running, &args.overrides());
        Ok((start, running))
    }

    fn with(args: &ServeArgs, config: &Config, text: Vec<u8>) -> Self {
        Self {
            path: args.config.clone(),
            instance: args.instance(),
            trail: Trail::open(config.audit().clone()),
            hash: content_hash(&text),
            text: text.clone(),
            file_text: text,
            error: None,
            pending: None,
            taken_back: None,
        }
    }

    /// The version that was in force last, in place of a file that is no good.
    fn last_good(args: &ServeArgs, why: &anyhow::Error) -> Option<(Self, Config)> {
        let file_text = std::fs::read(args.config.as_ref()?).unwrap_or_default();
        let dir = args.audit.clone().or_else(|| named_in(&file_text))?;
        let history = Told::read(&dir, "");
        let text = Versions::beside(&dir, usize::MAX).get(history.in_force.as_ref()?).ok()?;
        let config = cli::parse(Path::new("earlier version"), &text, &args.overrides()).ok()?;
        let mut start = Self { file_text, error: Some(format!("{why:#}")), ..Self::with(args, &config, text) };
        let (hash, why) = (&start.hash, format!("{why:#}"));
        tracing::error!(hash, why, "the config file is no good: starting with the version that was in force last");
        start.record(&history, &config, &args.overrides());
        Some((start, config))
    }

    /// Whether what was in force before stays.
    fn keep_or_take(&mut self, history: &Told, was: String, file: Config, overrides: &Overrides) -> Config {
        let taken_back = history.result == Some(ChangeResult::Reverted);
        if !taken_back && file.change().takes(&self.instance) {
            return file;
        }
        let kept = self.trail.version(&was).ok().and_then(|text| {
            let config = cli::parse(Path::new("earlier version"), &text, overrides).ok()?;
            Some((text, config))
        });
        let Some((text, config)) = kept else {
            tracing::warn!(was, "the version in force before is not kept: starting with the file as it is");
            return file;
        };
        if taken_back {
            self.error = Some(format!("the change {} was taken back before the restart", self.hash));
            self.taken_back = Some(self.hash.clone());
        } else {
            self.pending = Some(Pending::NotInShare(self.hash.clone()));
        }
        tracing::info!(hash = was, "starting with the version in force before, not with the file");
        (self.text, self.hash) = (text, was);
        config
    }

    fn record(&mut self, history: &Told, running: &Config, overrides: &Overrides) {
        let before = history.in_force.as_ref().filter(|was| **was != self.hash).and_then(|was| {
            let text = self.trail.version(was).ok()?;
            cli::parse(Path::new("earlier version"), &text, overrides).ok()
        });
        let changes = before.map(|before| difference(&before, running)).unwrap_or_default();
        let owner = self.path.as_deref().map(owner_of).and_then(Result::ok);
        let entry = Entry {
            result: ChangeResult::Started,
            actor: owner.map_or_else(|| "tidegate".to_owned(), |owner| format!("file:{owner}")),
            source: Source {
                path: self.path.as_ref().map(|path| path.display().to_string()),
                hash: Some(self.hash.clone()),
            },
            in_force: self.hash.clone(),
            reason: running.change().reason().map(str::to_owned).filter(|_| !changes.is_empty()),
            changes,
            note: self.error.clone(),
        };
        // A start cannot be refused for want of a log: that would stop traffic.
        self.trail.note(entry);
        self.trail.keep(&self.text);
    }
}

/// The directory that a file names which is no good as a config.
fn named_in(text: &[u8]) -> Option<PathBuf> {
    let table: toml::Table = std::str::from_utf8(text).ok()?.parse().ok()?;
    table.get("audit")?.get("dir")?.as_str().map(PathBuf::from)
}

/// What the log tells of the time before.
#[derive(Default)]
struct Told {
    in_force: Option<String>,
    /// What came of the config that the file holds now.
    result: Option<ChangeResult>,
}

impl Told {
    fn read(dir: &Path, hash: &str) -> Self {
        let mut told = Self::default();
        let all = files(dir).unwrap_or_default();
        let last_two = all.len().saturating_sub(2);
        for line in Lines::of(all[last_two..].to_vec()).map_while(Result::ok) {
            let Ok(record) = serde_json::from_slice::<Record>(&line.bytes) else { continue };
            if record.entry.source.hash.as_deref() == Some(hash) {
                told.result = Some(record.entry.result);
            }
            told.in_force = Some(record.entry.in_force);
        }
        told.in_force = told.in_force.filter(|hash| !hash.is_empty());
        told
    }
}

impl ServeArgs {
    /// The name of this instance, for shares: given, or the host's.
    fn instance(&self) -> String {
        let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        self.instance.clone().or_else(host).unwrap_or_default().trim().to_owned()
    }

    /// The config to start with, and the text it was read from.
    fn load(&self) -> anyhow::Result<(Config, Vec<u8>)> {
        let text = match &self.config {
            Some(path) => std::fs::read(path).with_context(|| format!("config file {}", path.display()))?,
            None => Vec::new(),
        };
        let name = self.config.as_deref().unwrap_or(Path::new("command line"));
        let config = cli::parse(name, &text, &self.overrides()).map_err(|err| match err {
            cli::Unusable::Invalid(invalid) => {
                anyhow::anyhow!("the config is not usable\n{}", invalid.drawn().trim_end())
            }
            cli::Unusable::NotText => anyhow::anyhow!("{err}"),
        })?;
        Ok((config, text))
    }
}
