//! Changes that are asked for: a look at the file, new bounds, an earlier version, a check.

use std::path::Path;

use serde_json::{Value, json};
use tidegate::config::edit::{NewBounds, set_bounds};
use tidegate::config::replace::{NotReplaced, replace};
use tidegate::config::{Changed, Config, content_hash, difference};

use super::{Done, NotDone, Reloader, Turn, Who};
use crate::cli::Unusable;

/// New bounds for a limiter.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bounds {
    min: Option<u32>,
    max: Option<u32>,
    reason: Option<String>,
    /// How long it is watched, as a duration.
    bake: Option<String>,
    /// Hash of the file that the change is meant for; whatever it holds otherwise.
    if_hash: Option<String>,
}

impl Reloader {
    /// Reads the file now and applies it.
    pub(crate) fn now(&self, who: &Who) -> Result<Done, NotDone> {
        let (_, text) = self.file()?;
        self.put(&mut *self.turn_soon()?, &text, who, false)
    }

    /// Writes new bounds into the file and puts it in force.
    pub(crate) fn set_bounds(&self, limiter: &str, bounds: &Bounds, actor: &str) -> Result<Done, NotDone> {
        let mut turn = self.turn_soon()?;
        let who = Who { actor: actor.to_owned(), reason: bounds.reason.clone() };
        let written = self.bounded(&turn, limiter, bounds).and_then(|(old, new)| self.write(&turn, &old, new));
        self.put_written(&mut turn, written, &who)
    }

    /// Writes an earlier version into the file and puts it in force.
    pub(crate) fn restore(&self, hash: &str, who: &Who) -> Result<Done, NotDone> {
        let mut turn = self.turn_soon()?;
        let text = turn.trail.version(hash).map_err(|err| NotDone::Refused(err.to_string()));
        let written = text.and_then(|text| self.write(&turn, &self.file()?.1, text));
        self.put_written(&mut turn, written, who)
    }

    /// What the file would change, and what that means just now.
    pub(crate) fn effect_of(&self, text: &[u8]) -> Result<Value, Unusable> {
        let config = self.parse(text)?;
        let changes = difference(&self.live.config(), &config);
        let effects: Vec<String> = changes.iter().filter_map(|change| self.effect(change, &config)).collect();
        let takes = config.change().takes(&self.instance);
        Ok(json!({
            "hash": content_hash(text),
            "in_force": self.state().hash,
            "changes": changes,
            "effects": effects,
            "in_share": takes,
            "bake_s": config.change().bake().map(|bake| bake.as_secs_f64()),
        }))
    }

    fn effect(&self, change: &Changed, config: &Config) -> Option<String> {
        if let Some(key) =
            ["server.listen", "server.threads", "server.max_connections", "server.tls", "admin.listen", "audit"]
                .iter()
                .find(|key| change.key == **key || change.key.starts_with(&format!("{key}.")))
        {
            return Some(format!("{key}: takes effect at the next start"));
        }
        let name = change.limiter()?;
        let Some(limiter) = self.live.limiter(name) else {
            return change.key.ends_with(".max").then(|| format!("limiter {name} is new"));
        };
        let now = limiter.snapshot();
        let Some(settings) = config.limiters().get(name) else {
            let what = format!(
                "limiter {name} is removed: {} in flight may finish, {} queued are refused",
                now.in_flight, now.queued
            );
            return change.key.ends_with(".max").then_some(what);
        };
        let (limit, in_flight, bounds) = (now.limit, now.in_flight, settings.bounds());
        match change.key.rsplit('.').next()? {
            "max" if in_flight > bounds.max() => Some(format!(
                "limiter {name} is at {in_flight} in flight, the new maximum is {}: newcomers are refused until it drains",
                bounds.max()
            )),
            "max" if limit > bounds.max() => {
                Some(format!("limiter {name}: its limit falls from {limit} to {} at once", bounds.max()))
            }
            "min" if limit < bounds.min() => {
                Some(format!("limiter {name}: its limit rises from {limit} to {} at once", bounds.min()))
            }
            "law" => {
                Some(format!("limiter {name}: the new law begins at the limit {limit} and has learned nothing yet"))
            }
            "initial" => Some(format!("limiter {name}: initial counts at the next start")),
            _ => None,
        }
    }

    /// The file, when it holds what is in force and what the change is meant for, and nothing bakes.
    fn agreed(&self, turn: &Turn, meant_for: Option<&str>) -> Result<Vec<u8>, NotDone> {
        let (path, text) = self.file()?;
        let hash = content_hash(&text);
        if let Some(meant_for) = meant_for.filter(|meant_for| *meant_for != hash) {
            let why = format!("the config file was changed by someone else: meant for {meant_for}, its hash is {hash}");
            return Err(NotDone::Conflict(why));
        }
        if let Some(left) = self.state().bakes_for() {
            let why =
                format!("another change bakes for {} s more; wait, or restore the version before it", left.as_secs());
            return Err(NotDone::Conflict(why));
        }
        if text != turn.text {
            let why = format!("{} is not what is in force; put it right first", path.display());
            return Err(NotDone::Conflict(why));
        }
        Ok(text)
    }

    /// The file's text, and the one with the new bounds.
    fn bounded(&self, turn: &Turn, limiter: &str, bounds: &Bounds) -> Result<(Vec<u8>, Vec<u8>), NotDone> {
        let old = self.agreed(turn, bounds.if_hash.as_deref())?;
        let new = NewBounds {
            limiter: limiter.to_owned(),
            min: bounds.min,
            max: bounds.max,
            reason: bounds.reason.clone(),
            bake: bounds.bake.clone(),
        };
        let text = std::str::from_utf8(&old).map_err(|_| NotDone::Wrong(Unusable::NotText))?;
        let new = set_bounds(text, &new).map_err(|err| NotDone::Refused(err.to_string()))?;
        Ok((old, new.into_bytes()))
    }

    /// Writes the file when the new text is one that can be put in force; hands it out again.
    fn write(&self, turn: &Turn, old: &[u8], new: Vec<u8>) -> Result<Vec<u8>, NotDone> {
        let config = self.parse(&new).map_err(NotDone::Wrong)?;
        self.live.prepare(config).map_err(|err| NotDone::Refused(format!("{err:#}")))?;
        if new == turn.text && new == old {
            return Ok(new);
        }
        let (path, _) = self.file()?;
        replace(path, &content_hash(old), &new).map_err(|err| match err {
            NotReplaced::Changed(_) => NotDone::Conflict(err.to_string()),
            _ => NotDone::Refused(err.to_string()),
        })?;
        Ok(new)
    }

    /// Puts in force what was written; when that cannot be, the file is put back.
    fn put_written(&self, turn: &mut Turn, written: Result<Vec<u8>, NotDone>, who: &Who) -> Result<Done, NotDone> {
        let new = written.inspect_err(|why| self.record_refusal(turn, None, &why.to_string(), who))?;
        let done = self.put(turn, &new, who, true);
        if done.is_err() {
            self.put_file_back(turn, &new);
        }
        done
    }

    fn file(&self) -> Result<(&Path, Vec<u8>), NotDone> {
        let none = "there is no config file: the gateway was started without --config";
        let path = self.path.as_deref().ok_or_else(|| NotDone::Refused(none.to_owned()))?;
        let text = std::fs::read(path).map_err(|err| NotDone::Refused(format!("{}: {err}", path.display())))?;
        if text.trim_ascii().is_empty() {
            return Err(NotDone::Refused(format!("{}: the file is empty", path.display())));
        }
        Ok((path, text))
    }
}
