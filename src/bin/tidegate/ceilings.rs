//! The ceilings of this gateway: made from the config, kept through reloads, and what becomes of them on
//! record.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tidegate::Ceiling;
use tidegate::audit::ChangeResult;
use tidegate::ceiling::{Observer, OnLoss, RedisStore, Sharing, Turn};
use tidegate::config::{CeilingConfig, Config, SharedConfig};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::live::Live;
use crate::reload::Reloader;

/// Changes of standing that wait to be recorded; more than these are told in the log only.
const MOST_TURNS: usize = 100;

/// A ceiling, and where it stands now.
type Told = (Arc<str>, Turn);

/// Tells what happens to shared ceilings.
pub(crate) struct Turns {
    sender: mpsc::Sender<Told>,
    receiver: Mutex<Option<mpsc::Receiver<Told>>>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(MOST_TURNS);
        Self { sender, receiver: Mutex::new(Some(receiver)) }
    }

    fn observer(&self) -> Observer {
        let sender = self.sender.clone();
        Arc::new(move |name, turn| {
            // A full channel loses a record and holds nobody up.
            let _ = sender.try_send((Arc::clone(name), turn));
        })
    }
}

/// The ceilings for `config`: those of `old` where they can stay, new ones else.
pub(crate) fn grown_from(
    old: Option<&BTreeMap<String, Ceiling>>,
    config: &Config,
    turns: &Turns,
) -> anyhow::Result<BTreeMap<String, Ceiling>> {
    let mut ceilings = BTreeMap::new();
    for (name, settings) in config.ceilings() {
        let ceiling = match old.and_then(|old| old.get(name)) {
            Some(kept) => kept.clone(),
            None => build(name, settings, turns).with_context(|| format!("ceiling \"{name}\""))?,
        };
        ceilings.insert(name.clone(), ceiling);
    }
    Ok(ceilings)
}

/// Tells the ceilings that stayed what is new for them. Cannot fail: the values are checked.
pub(crate) fn settle(ceilings: &BTreeMap<String, Ceiling>, old: &Config, new: &Config) {
    let pace = |ceiling: &CeilingConfig| (ceiling.rate(), ceiling.burst(), ceiling.bounds());
    for (name, now) in new.ceilings() {
        let Some(was) = old.ceilings().get(name) else { continue };
        if pace(was) != pace(now)
            && let Err(err) = ceilings[name].set(now.rate(), f64::from(now.burst()), now.bounds())
        {
            tracing::error!(%err, ceiling = name, "a checked value was refused");
        }
        if was.shared() != now.shared() || was.waiting() != now.waiting() {
            tracing::warn!(ceiling = name, "how a ceiling is shared and how many wait: changed at the next start");
        }
    }
}

fn build(name: &str, settings: &CeilingConfig, turns: &Turns) -> anyhow::Result<Ceiling> {
    let (min, max) = settings.bounds();
    let builder = Ceiling::builder(name)
        .rate(settings.rate())
        .burst(settings.burst())
        .bounds(min, max)
        .waiting(settings.waiting(), settings.wait().max(Duration::from_secs(1)));
    let Some(shared) = settings.shared() else { return Ok(builder.build()?) };
    let sharing = sharing(shared).observer(turns.observer());
    let (ceiling, driver) = builder.build_shared(store(name, shared)?, sharing)?;
    // The driver ends by itself when the last clone of the ceiling is gone.
    Handle::try_current().context("no runtime for its driver")?.spawn(driver.run());
    Ok(ceiling)
}

fn sharing(shared: &SharedConfig) -> Sharing {
    let on_loss = match shared.fallback_rate() {
        _ if shared.refuse() => OnLoss::Refuse,
        Some(rate) => OnLoss::Rate(rate),
        None => OnLoss::Share,
    };
    Sharing::new().budget(shared.timeout()).members(shared.members()).on_loss(on_loss)
}

fn store(name: &str, shared: &SharedConfig) -> anyhow::Result<RedisStore> {
    let mut store = RedisStore::builder(shared.url()).prefix(shared.prefix());
    if let Some(user) = shared.user() {
        store = store.user(user);
    }
    if let Some(path) = shared.password_file() {
        store = store.password_file(path);
    }
    if let Some(path) = shared.ca_file() {
        store = store.ca_file(path);
    }
    Ok(store.build(name)?)
}

/// Puts each loss of a store, and its end, on record, until it is dropped.
pub(crate) async fn follow(live: Arc<Live>, reloader: Arc<Reloader>) {
    let taken = live.turns().receiver.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut turns) = taken else { return };
    while let Some((name, turn)) = turns.recv().await {
        let (result, what) = match turn {
            Turn::Joined => continue,
            Turn::Lost(loss) => (ChangeResult::FellBack, format!("ceiling \"{name}\": {loss}")),
            Turn::Back(after) => {
                let after = after.as_secs_f64();
                (ChangeResult::CameBack, format!("ceiling \"{name}\": the store answers again after {after:.1} s"))
            }
        };
        let reloader = reloader.clone();
        // A disk may be slow.
        drop(tokio::task::spawn_blocking(move || reloader.happened(result, what)).await);
    }
}
