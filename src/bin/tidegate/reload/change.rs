//! One text put through: checked, recorded, applied, watched, kept or taken back.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use tidegate::audit::{ChangeResult, Entry, Source};
use tidegate::config::{Changed, Config, content_hash, difference};
use tidegate::{Bounds, Limiter};

use super::state::Pending;
use super::{Baking, Before, Reloader, Turn};
use crate::bake::{Bake, Look};
use crate::cli::{self, Unusable};

/// Who changes something, and why.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    /// As it stands in the audit log.
    pub(crate) actor: String,
    /// Given with the request; what the file says counts otherwise.
    pub(crate) reason: Option<String>,
}

/// What became of a text that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It was in force already.
    Same,
    /// It is in force now.
    Applied,
    /// This instance is not in its share.
    NotInShare,
    /// It waits for the change that bakes.
    Waits,
}

/// Why a text was not put in force.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// There is something wrong with it.
    Wrong(Unusable),
    /// Something it needs is not there, or it was taken back before.
    Refused(String),
    /// It cannot be recorded.
    NotRecorded(std::io::Error),
    /// The file is not what the change was made from.
    Conflict(String),
}

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(wrong) => wrong.fmt(f),
            Self::Refused(why) | Self::Conflict(why) => f.write_str(why),
            Self::NotRecorded(err) => err.fmt(f),
        }
    }
}

impl Reloader {
    /// Puts `text` in force if all is well; says in state, metrics, log and audit log what became of it.
    pub(super) fn put_through(&self, text: &[u8], who: &Who) -> Result<Done, NotDone> {
        self.put(&mut self.turn(), text, who, false)
    }

    pub(super) fn put(&self, turn: &mut Turn, text: &[u8], who: &Who, wrote_file: bool) -> Result<Done, NotDone> {
        let hash = content_hash(text);
        turn.unrecorded = None;
        if hash == content_hash(&turn.text) {
            self.holds_again(turn, &hash);
            return Ok(Done::Same);
        }
        let done = self.try_put(turn, text, &hash, who, wrote_file);
        if let Err(why) = &done {
            self.refuse(turn, Some(&hash), &why.to_string(), who);
            if matches!(why, NotDone::NotRecorded(_)) && !wrote_file {
                turn.unrecorded = Some((text.to_owned(), who.clone()));
            }
        }
        done
    }

    fn try_put(&self, turn: &mut Turn, text: &[u8], hash: &str, who: &Who, wrote_file: bool) -> Result<Done, NotDone> {
        let config = self.parse(text).map_err(NotDone::Wrong)?;
        let running = self.live.config();
        let changes = difference(&running, &config);
        if turn.taken_back.as_deref() == Some(hash) {
            let why = "this change was taken back while it baked; change the file for another try";
            return Err(NotDone::Refused(why.to_owned()));
        }
        let mut entry = self.entry(ChangeResult::Applied, hash, who, changes);
        if entry.reason.is_none() && config.change() != running.change() {
            entry.reason = config.change().reason().map(str::to_owned);
        }
        if !config.change().takes(&self.instance) {
            return Ok(self.sits_out(turn, text, entry));
        }
        let takes_back = turn.baking.as_ref().is_some_and(|baking| baking.before.text == text);
        if turn.baking.is_some() && !takes_back {
            return Ok(self.waits(turn, text, who, entry));
        }
        let prepared = self.live.prepare(config.clone()).map_err(|err| NotDone::Refused(format!("{err:#}")))?;
        if turn.trail.version(hash).is_ok() {
            // Its own reason told of another change.
            (entry.result, entry.reason) = (ChangeResult::Restored, who.reason.clone());
        }
        if takes_back {
            entry.note = Some("the change before was still baking".to_owned());
        }
        entry.in_force = hash.to_owned();
        let changes = entry.changes.clone();
        let recorded = turn.trail.record(entry, text);
        self.state().audit = turn.trail.shown();
        recorded.map_err(NotDone::NotRecorded)?;
        let limits = self.live.limiters().iter().map(|l| (l.name().to_string(), l.snapshot().limit)).collect();
        self.live.commit(prepared);
        let before = std::mem::replace(&mut turn.text, text.to_owned());
        let before = Before { text: before, limits, wrote_file: wrote_file && !takes_back };
        self.applied(turn, hash, &config, &changes, before);
        Ok(Done::Applied)
    }

    fn applied(&self, turn: &mut Turn, hash: &str, config: &Config, changes: &[Changed], before: Before) {
        let now = Instant::now();
        let limiters = self.live.limiters();
        let bake = Bake::begin(config.change(), changes, &limiters, &turn.history, now);
        let until = bake.as_ref().map(|bake| now + bake.left(now));
        turn.baking = bake.filter(|_| !changes.is_empty()).map(|bake| Baking { bake, before });
        turn.waiting = None;
        turn.taken_back = None;
        let mut state = self.state();
        state.applied(hash.to_owned());
        state.baking_until = until.filter(|_| turn.baking.is_some());
    }

    /// The file holds what is in force, perhaps again.
    fn holds_again(&self, turn: &mut Turn, hash: &str) {
        turn.waiting = None;
        let mut state = self.state();
        state.pending = None;
        if state.error.take().is_some() {
            tracing::info!(hash, "the config file holds what is in force again");
        }
    }

    fn sits_out(&self, turn: &mut Turn, text: &[u8], entry: Entry) -> Done {
        let pending = Pending::NotInShare(content_hash(text));
        self.set_aside(turn, pending, Entry { result: ChangeResult::NotInShare, ..entry });
        Done::NotInShare
    }

    fn waits(&self, turn: &mut Turn, text: &[u8], who: &Who, entry: Entry) -> Done {
        let pending = Pending::Waiting(content_hash(text));
        turn.waiting = Some((text.to_owned(), who.clone()));
        self.set_aside(turn, pending, Entry { result: ChangeResult::Waiting, ..entry });
        Done::Waits
    }

    fn set_aside(&self, turn: &mut Turn, pending: Pending, entry: Entry) {
        {
            let mut state = self.state();
            state.error = None;
            if state.pending.as_ref() == Some(&pending) {
                return;
            }
            let (why, hash) = pending.parts();
            tracing::info!(why, hash, "the config file is not put in force");
            state.pending = Some(pending);
        }
        self.note(turn, entry);
    }

    /// Notes a refusal, once for each reason.
    pub(super) fn refuse(&self, turn: &mut Turn, hash: Option<&str>, why: &str, who: &Who) {
        {
            let mut state = self.state();
            if state.error.as_deref() == Some(why) {
                return;
            }
            state.refused += 1;
            state.pending = None;
            state.error = Some(why.to_owned());
            tracing::error!(why, "config not applied; the one before stays in force");
        }
        self.record_refusal(turn, hash, why, who);
    }

    /// Records a refusal of something that never was in the file, too.
    pub(super) fn record_refusal(&self, turn: &mut Turn, hash: Option<&str>, why: &str, who: &Who) {
        let mut entry = self.entry(ChangeResult::Refused, hash.unwrap_or_default(), who, Vec::new());
        if hash.is_none() {
            entry.source.hash = None;
        }
        entry.note = Some(why.to_owned());
        self.note(turn, entry);
    }

    /// Looks at a change that bakes, when it is time to.
    pub(super) fn look_at_baking(&self, turn: &mut Turn, now: Instant, limiters: &[Limiter]) {
        let Some(baking) = &mut turn.baking else { return };
        match baking.bake.look(now, limiters) {
            Look::GoesOn => return,
            Look::Good(figures) => {
                turn.baking = None;
                self.state().baking_until = None;
                tracing::info!(figures, "the change is through its bake time");
                let hash = content_hash(&turn.text);
                let mut entry = self.entry(ChangeResult::Kept, &hash, &Who::tidegate(), Vec::new());
                entry.note = Some(figures);
                self.note(turn, entry);
            }
            Look::Worse(what) => self.take_back(turn, &what),
        }
        if let Some((text, who)) = turn.waiting.take() {
            // What became of it is in the state and in the log.
            drop(self.put(turn, &text, &who, false));
        }
    }

    /// Puts back what a change replaced. Safety before bookkeeping: this is done recorded or not.
    fn take_back(&self, turn: &mut Turn, what: &str) {
        let Some(baking) = turn.baking.take() else { return };
        let (bad, bad_text) = (content_hash(&turn.text), turn.text.clone());
        let put_back = self.parse(&baking.before.text).map_err(|err| err.to_string()).and_then(|config| {
            let changes = difference(&self.live.config(), &config);
            let prepared = self.live.prepare(config).map_err(|err| format!("{err:#}"))?;
            Ok((changes, prepared))
        });
        self.state().baking_until = None;
        let (changes, prepared) = match put_back {
            Ok(ready) => ready,
            Err(why) => {
                let why = format!("the change made things worse and cannot be taken back: {why}; {what}");
                return self.refuse(turn, Some(&bad), &why, &Who::tidegate());
            }
        };
        let hash = content_hash(&baking.before.text);
        let mut entry = self.entry(ChangeResult::Reverted, &bad, &Who::tidegate(), changes);
        entry.in_force.clone_from(&hash);
        entry.note = Some(what.to_owned());
        self.note(turn, entry);
        self.live.commit(prepared);
        self.lift(&baking.before.limits);
        turn.text = baking.before.text;
        turn.taken_back = Some(bad.clone());
        {
            let mut state = self.state();
            state.applied(hash);
            state.reverted += 1;
            state.error = Some(format!("the change {bad} was taken back: {what}"));
            tracing::error!(what, change = bad, "the change made things worse and was taken back");
        }
        if baking.before.wrote_file {
            self.put_file_back(turn, &bad_text);
        }
    }

    /// Puts limits back that the change cut, as far as the bounds in force allow: finding them again
    /// would take a while, and a law that holds still never would.
    fn lift(&self, limits: &BTreeMap<String, u32>) {
        for limiter in self.live.limiters() {
            let now = limiter.snapshot();
            let Some(limit) = limits.get(&*now.name).map(|was| (*was).clamp(now.bounds.min(), now.bounds.max())) else {
                continue;
            };
            if let (true, Ok(at_least)) = (now.limit < limit, Bounds::new(limit, now.bounds.max())) {
                limiter.set_bounds(at_least);
                limiter.set_bounds(now.bounds);
            }
        }
    }

    /// What this gateway wrote itself it also takes out of the file again.
    pub(super) fn put_file_back(&self, turn: &Turn, written: &[u8]) {
        let Some(path) = &self.path else { return };
        match tidegate::config::replace::replace(path, &content_hash(written), &turn.text) {
            Ok(()) => tracing::info!("the config file is as it was before the change"),
            Err(err) => tracing::warn!(%err, "the config file still holds the change"),
        }
    }

    /// Records what happened to this gateway and is no change of its config.
    pub(crate) fn happened(&self, result: ChangeResult, what: String) {
        let mut turn = self.turn();
        let hash = self.state().hash.clone();
        let mut entry = self.entry(result, &hash, &Who::tidegate(), Vec::new());
        entry.note = Some(what);
        self.note(&mut turn, entry);
    }

    /// Records what changes nothing, or has happened already.
    fn note(&self, turn: &mut Turn, entry: Entry) {
        turn.trail.note(entry);
        self.state().audit = turn.trail.shown();
    }

    pub(super) fn parse(&self, text: &[u8]) -> Result<Config, Unusable> {
        cli::parse(self.path.as_deref().unwrap_or(std::path::Path::new("config")), text, &self.overrides)
    }

    fn entry(&self, result: ChangeResult, hash: &str, who: &Who, changes: Vec<Changed>) -> Entry {
        let path = self.path.as_ref().map(|path| path.display().to_string());
        Entry {
            result,
            actor: who.actor.clone(),
            source: Source { path, hash: Some(hash.to_owned()) },
            in_force: self.state().hash.clone(),
            reason: who.reason.clone(),
            changes,
            note: None,
        }
    }
}

impl Who {
    /// The gateway itself.
    pub(super) fn tidegate() -> Self {
        Self { actor: "tidegate".to_owned(), reason: None }
    }
}
