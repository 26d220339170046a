//! A changed config file, put in force: on events, by looking, on SIGHUP and on request.
//!
//! All or nothing: with one error anywhere, the config that runs stays, and the state says why. Each
//! change of that state is logged once, not each look at it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime};

use anyhow::Context;
use tidegate::config::watch::{Change, Watch};
use tidegate::config::{Overrides, content_hash};
use tidegate::metrics::ConfigState;
use tokio::signal::unix::{SignalKind, signal};

use crate::cli;
use crate::live::Live;

/// Reads, checks and applies one config file.
pub(crate) struct Reloader {
    path: Option<PathBuf>,
    overrides: Overrides,
    live: Arc<Live>,
    state: Mutex<State>,
    first: Vec<u8>,
}

/// The config in force, and what is wrong with the file if it is another one.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) hash: String,
    pub(crate) version: u64,
    pub(crate) since: Instant,
    pub(crate) applied_at: SystemTime,
    pub(crate) refused: u64,
    pub(crate) error: Option<String>,
    pub(crate) blind: Option<String>,
}

impl Reloader {
    /// For a gateway that already runs with `text`.
    pub(crate) fn new(path: Option<PathBuf>, overrides: Overrides, live: Arc<Live>, text: &[u8]) -> Self {
        let state = State {
            hash: content_hash(text),
            version: 1,
            since: Instant::now(),
            applied_at: SystemTime::now(),
            refused: 0,
            error: None,
            blind: None,
        };
        Self { path, overrides, live, state: Mutex::new(state), first: text.to_owned() }
    }

    /// Watches and applies until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(path) = &self.path else { return std::future::pending().await };
        let mut watch = Watch::new(path, &self.first);
        if let Some(why) = watch.blind() {
            tracing::warn!(why, "the config file cannot be watched; it is looked at every 2 s");
            self.state().blind = Some(why.to_owned());
        }
        let looker = watch.looker();
        let hangups = async {
            let Ok(mut hangup) = signal(SignalKind::hangup()) else { return std::future::pending().await };
            while hangup.recv().await.is_some() {
                looker.look();
            }
        };
        let changes = async {
            loop {
                match watch.changed().await {
                    Change::Content(text) => drop(self.take(&text)),
                    Change::Trouble(why) => self.refuse(&why),
                }
            }
        };
        tokio::join!(hangups, changes);
    }

    /// Reads the file now and applies it. Says what became of it.
    pub(crate) fn now(&self) -> anyhow::Result<State> {
        let path = self.path.as_ref().context("there is no config file: the gateway was started without --config")?;
        let text = std::fs::read(path).with_context(|| format!("{}", path.display()))?;
        anyhow::ensure!(!text.trim_ascii().is_empty(), "{}: the file is empty", path.display());
        self.take(&text)
    }

    fn take(&self, text: &[u8]) -> anyhow::Result<State> {
        let hash = content_hash(text);
        // Held throughout: changes are applied one after the other, in the order they are seen.
        let mut state = self.state();
        if hash == state.hash {
            if state.error.take().is_some() {
                tracing::info!(hash, "the config file holds what is in force again");
            }
            return Ok(state.clone());
        }
        let path = self.path.as_deref().unwrap_or(std::path::Path::new(""));
        let applied = cli::parse(path, text, &self.overrides)
            .map_err(|err| anyhow::anyhow!("{err}"))
            .and_then(|config| self.live.apply(config));
        if let Err(err) = applied {
            note_refusal(&mut state, &format!("{err:#}"));
            return Err(err);
        }
        state.version += 1;
        (state.hash, state.error) = (hash, None);
        (state.since, state.applied_at) = (Instant::now(), SystemTime::now());
        tracing::info!(hash = state.hash, version = state.version, "config applied");
        Ok(state.clone())
    }

    fn refuse(&self, why: &str) {
        note_refusal(&mut self.state(), why);
    }

    /// The state, to be shown.
    pub(crate) fn shown(&self) -> State {
        self.state().clone()
    }

    /// The file, if there is one.
    pub(crate) fn path(&self) -> Option<&std::path::Path> {
        self.path.as_deref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// As the metrics want it.
    pub(crate) fn measured(&self) -> ConfigState {
        ConfigState {
            ok: self.error.is_none(),
            version: self.version,
            age: self.since.elapsed(),
            refused: self.refused,
            blind: self.blind.is_some(),
        }
    }
}

fn note_refusal(state: &mut State, why: &str) {
    if state.error.as_deref() != Some(why) {
        state.refused += 1;
        state.error = Some(why.to_owned());
        tracing::error!(why, "config not applied; the one before stays in force");
    }
}
