//! Notices that a config file has changed, and waits until it is whole.
//!
//! The directory is watched, never the file: editors, deploy tools and Kubernetes replace files
//! rather than write them. An event is only a hint to look, whatever file it names; and because
//! events can be missing (network file systems, exhausted inotify limits, a swapped symlink), the
//! watch looks by itself every [`POLL`] as well. What counts is the content. It is handed out once
//! it has been the same in two looks [`SETTLE`] apart, and later when it looks unfinished: a writer
//! still has the file open, it is empty, or it is the beginning of what was there before.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::time::Nanos;

/// How often the file is looked at when no event comes.
pub const POLL: Duration = Duration::from_secs(2);
/// How long content must stay the same before it counts.
pub const SETTLE: Duration = Duration::from_millis(200);
/// How long content must stay the same that looks unfinished.
pub const SETTLE_UNFINISHED: Duration = Duration::from_secs(2);
/// A writer that keeps the file open for longer than this is not waited for.
const MOST_WRITING: Duration = Duration::from_secs(10);

/// What became of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It holds something else now, and that is whole.
    Content(Vec<u8>),
    /// It holds nothing usable: missing, unreadable, empty. Says what.
    Trouble(String),
}

/// Watches one config file.
#[derive(Debug)]
pub struct Watch {
    path: PathBuf,
    hints: mpsc::Receiver<Hint>,
    looker: Looker,
    blind: Option<String>,
    _watcher: Option<RecommendedWatcher>,
    /// What was handed out last.
    last: Change,
    /// The last content that was handed out.
    content: Vec<u8>,
    clock: Clock,
    written: Option<Nanos>,
}

/// Makes a [`Watch`] look now. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Looker(mpsc::Sender<Hint>);

impl Looker {
    /// Looks soon. Never waits: when the watch has been told already, once is enough.
    pub fn look(&self) {
        let _ = self.0.try_send(Hint::Look);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hint {
    Look,
    Written,
    Closed,
}

impl Watch {
    /// Watches `path`, which held `content` when it was read. Never fails: without events it polls,
    /// and [`Watch::blind`] says why.
    pub fn new(path: &Path, content: &[u8]) -> Self {
        let (sender, hints) = mpsc::channel(256);
        let looker = Looker(sender);
        let (watcher, blind) = match watch_directories(path, &looker) {
            Ok(watcher) => (Some(watcher), None),
            Err(err) => (None, Some(err.to_string())),
        };
        Self {
            path: path.to_owned(),
            hints,
            looker,
            blind,
            _watcher: watcher,
            last: Change::Content(content.to_owned()),
            content: content.to_owned(),
            clock: Clock::new(),
            written: None,
        }
    }

    /// Why there are no events, so that changes are only seen by looking; `None` when there are.
    pub fn blind(&self) -> Option<&str> {
        self.blind.as_deref()
    }

    /// A handle that makes this watch look now.
    pub fn looker(&self) -> Looker {
        self.looker.clone()
    }

    /// Waits for the next change. Identical content is none.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped: the next call looks again.
    pub async fn changed(&mut self) -> Change {
        loop {
            if let Some(change) = self.settled().await {
                if let Change::Content(content) = &change {
                    self.content.clone_from(content);
                }
                self.last = change.clone();
                return change;
            }
            if let Ok(Some(hint)) = tokio::time::timeout(POLL, self.hints.recv()).await {
                self.note(hint);
            }
        }
    }

    /// Looks; when there is something new, looks until it stays as it is.
    async fn settled(&mut self) -> Option<Change> {
        let mut seen = self.look().await;
        let mut since = self.clock.now();
        while seen != self.last {
            tokio::time::sleep(SETTLE).await;
            while let Ok(hint) = self.hints.try_recv() {
                self.note(hint);
            }
            let now = self.look().await;
            if now != seen {
                (seen, since) = (now, self.clock.now());
            } else if self.clock.now().since(since) >= self.patience(&seen) {
                return Some(seen);
            }
        }
        None
    }

    fn patience(&self, seen: &Change) -> Duration {
        if self.written.is_some_and(|at| self.clock.now().since(at) < MOST_WRITING) {
            return MOST_WRITING;
        }
        match seen {
            Change::Content(content) if !self.content.starts_with(content) => Duration::ZERO,
            _ => SETTLE_UNFINISHED,
        }
    }

    fn note(&mut self, hint: Hint) {
        match hint {
            Hint::Written => self.written = Some(self.clock.now()),
            Hint::Closed => self.written = None,
            Hint::Look => {}
        }
    }

    async fn look(&self) -> Change {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        match read.unwrap_or_else(|err| Err(io::Error::other(err))) {
            Ok(content) if content.trim_ascii().is_empty() => Change::Trouble("the file is empty".to_owned()),
            Ok(content) => Change::Content(content),
            Err(err) => Change::Trouble(format!("the file cannot be read: {err}")),
        }
    }
}

/// Watches the directory of the path, and that of the file behind it when it is a symlink.
fn watch_directories(path: &Path, looker: &Looker) -> notify::Result<RecommendedWatcher> {
    let behind = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let names = [path.file_name().map(ToOwned::to_owned), behind.file_name().map(ToOwned::to_owned)];
    let sender = looker.0.clone();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let ours = |event: &Event| event.paths.iter().any(|p| names.iter().any(|n| n.as_deref() == p.file_name()));
        let hint = match event {
            Ok(event) => match event.kind {
                EventKind::Access(AccessKind::Close(AccessMode::Write)) if ours(&event) => Hint::Closed,
                // Our own looking, or somebody else's.
                EventKind::Access(_) => return,
                EventKind::Modify(notify::event::ModifyKind::Data(_)) if ours(&event) => Hint::Written,
                _ => Hint::Look,
            },
            Err(_) => Hint::Look,
        };
        // A full channel already means "look".
        let _ = sender.try_send(hint);
    })?;
    watcher.watch(directory(path), RecursiveMode::NonRecursive)?;
    if directory(&behind) != directory(path) {
        watcher.watch(directory(&behind), RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
