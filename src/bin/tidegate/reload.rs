//! A changed config file, put in force: on events, by looking, on SIGHUP and on request.
//!
//! All or nothing: with one error anywhere, the config that runs stays, and the state says why. A
//! change is recorded before it takes effect. One change after the other: `turn` is held while one is
//! put through, disks included; `state` is what others look at and is held for moments only.
//!
//! Reading order: this file watches, `change` puts one text through, `state` is what is told of it.

mod change;
mod request;
mod start;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use tidegate::audit::owner_of;
use tidegate::config::Overrides;
use tidegate::config::watch::{Change, Watch};
use tokio::signal::unix::Signal;

use crate::bake::{Bake, History};
use crate::live::Live;
use crate::trail::Trail;

pub(crate) use change::{Done, NotDone, Who};
pub(crate) use request::Bounds;
pub(crate) use start::Start;
pub(crate) use state::State;

/// Reads, checks and applies one config file.
pub(crate) struct Reloader {
    path: Option<PathBuf>,
    overrides: Overrides,
    instance: String,
    live: Arc<Live>,
    state: Mutex<State>,
    turn: Mutex<Turn>,
    /// What the file held when the gateway started, in force or not.
    first: Vec<u8>,
}

/// What only one change at a time may touch.
struct Turn {
    trail: Trail,
    history: History,
    /// The text in force.
    text: Vec<u8>,
    baking: Option<Baking>,
    /// The newest change that waits for the one that bakes.
    waiting: Option<(Vec<u8>, Who)>,
    /// A change of the file that could not be recorded: tried again.
    unrecorded: Option<(Vec<u8>, Who)>,
    /// The change that was taken back last: not applied again until the file holds something else.
    taken_back: Option<String>,
}

/// A change that is watched, and what it replaced.
struct Baking {
    bake: Bake,
    before: Before,
}

/// What was in force before a change.
struct Before {
    text: Vec<u8>,
    /// The limits, by limiter: a change of bounds may have cut them.
    limits: BTreeMap<String, u32>,
    /// Whether this gateway wrote the file, so that it may put it back.
    wrote_file: bool,
}

/// How often limiters are read for comparisons.
const TICK: Duration = Duration::from_secs(1);
/// How often and how far apart somebody who is asked for an answer tries to get a turn: 5 s.
const TRIES: u32 = 250;
const TRY_EVERY: Duration = Duration::from_millis(20);

impl Reloader {
    /// For a gateway that runs already, with what `start` says.
    pub(crate) fn new(start: Start, overrides: Overrides, live: Arc<Live>) -> Self {
        let state = State::at_start(&start);
        let turn = Turn {
            trail: start.trail,
            history: History::default(),
            text: start.text,
            baking: None,
            waiting: None,
            unrecorded: None,
            taken_back: start.taken_back,
        };
        Self {
            path: start.path,
            overrides,
            instance: start.instance,
            live,
            state: Mutex::new(state),
            turn: Mutex::new(turn),
            first: start.file_text,
        }
    }

    /// Watches and applies until it is dropped; looks at once at each hangup.
    pub(crate) async fn run(self: Arc<Self>, mut hangup: Signal) {
        let Some(path) = &self.path else { return std::future::pending().await };
        let mut watch = Watch::new(path, &self.first);
        if let Some(why) = watch.blind() {
            tracing::warn!(why, "the config file cannot be watched; it is looked at every 2 s");
            self.state().blind = Some(why.to_owned());
        }
        if is_mounted(path) {
            let path = path.display();
            tracing::warn!(%path, "the config file is mounted on its own: a file put in its place outside is not seen; mount its directory");
        }
        let looker = watch.looker();
        let hangups = async {
            while hangup.recv().await.is_some() {
                looker.look();
            }
        };
        let changes = async {
            loop {
                let change = watch.changed().await;
                let reloader = self.clone();
                // Disks are waited for where nobody else waits.
                let done = tokio::task::spawn_blocking(move || reloader.noticed(change)).await;
                if let Err(err) = done {
                    tracing::error!(%err, "a change of the config file was not put through");
                }
            }
        };
        let ticks = async {
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let reloader = self.clone();
                // A panic is told by the panic hook; the next tick tries again.
                drop(tokio::task::spawn_blocking(move || reloader.tick()).await);
            }
        };
        tokio::join!(hangups, changes, ticks);
    }

    fn noticed(&self, change: Change) {
        match change {
            // What became of it is in the state and in the log.
            Change::Content(text) => drop(self.put_through(&text, &self.owner())),
            Change::Trouble(why) => self.refuse(&mut self.turn(), None, &why, &self.owner()),
        }
    }

    /// Whoever the file belongs to.
    fn owner(&self) -> Who {
        let owner = self.path.as_deref().map(owner_of).and_then(Result::ok);
        Who { actor: format!("file:{}", owner.unwrap_or_else(|| "unknown".to_owned())), reason: None }
    }

    fn tick(&self) {
        let now = Instant::now();
        let limiters = self.live.limiters();
        let mut turn = self.turn();
        turn.history.note(now, &limiters);
        // Why not, if not, is in the state of the log.
        drop(turn.trail.pay());
        self.state().audit = turn.trail.shown();
        self.look_at_baking(&mut turn, now, &limiters);
        if let Some((text, who)) = turn.unrecorded.take() {
            // What became of it is in the state and in the log.
            drop(self.put(&mut turn, &text, &who, false));
        }
    }

    /// The state, to be shown.
    pub(crate) fn shown(&self) -> State {
        self.state().clone()
    }

    /// The file, if there is one.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn, for somebody who is asked for an answer: not for longer than a disk usually takes.
    fn turn_soon(&self) -> Result<MutexGuard<'_, Turn>, NotDone> {
        for _ in 0..TRIES {
            match self.turn.try_lock() {
                Ok(turn) => return Ok(turn),
                Err(TryLockError::Poisoned(turn)) => return Ok(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(TRY_EVERY),
            }
        }
        Err(NotDone::Conflict("another change is being put through just now".to_owned()))
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the file is itself a mount point, as `docker -v FILE:FILE` makes it.
fn is_mounted(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|at| Path::new(at) == path))
}
