//! What turns counts into messages: a task that drains, looks and tells, a few times a second.
//!
//! Nothing here is on the path of a request. Everything that waits is bounded, and when the
//! gateway ends, what waits gets one last chance.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

use super::aggregate::{Aggregator, Settings};
use super::condition::{Conditions, Vitals};
use super::line::{Line, Post};
use super::message;
use super::notice::{Kind, Notice, Seen, State, Subject};
use super::receiver::Receiver;
use super::tally::{Tallies, Tally};
use crate::limiter::Limiter;
use crate::rejection::RejectReason;

/// How often counts are drained when nobody wakes the pump.
const DRAIN: Duration = Duration::from_millis(250);
/// Limiters are looked at in every so many drains.
const LOOK: u32 = 4;
/// A limit counts as pinned when it has stood at a bound for so long.
const PINNED: Duration = Duration::from_secs(60);

/// Alerts of one process. Cloned, it is the same.
#[derive(Clone, Debug)]
pub struct Alerts {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    tallies: Tallies,
    inner: Mutex<Inner>,
    post: Arc<Post>,
}

#[derive(Debug)]
struct Inner {
    settings: Settings,
    log: bool,
    aggregator: Aggregator,
    conditions: Conditions,
    held: BTreeMap<Subject, Arc<str>>,
    lines: Vec<(Arc<Line>, JoinHandle<()>)>,
    looks: u32,
}

/// How one receiver is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineStatus {
    /// Its name in the config.
    pub receiver: String,
    /// Messages that arrived.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Notices that were dropped.
    pub dropped: u64,
    /// Notices that wait.
    pub waiting: usize,
}

/// How alerts are doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Groups that fire, in the order of [`Kind::ALL`].
    pub firing: [usize; Kind::ALL.len()],
    /// Each receiver.
    pub receivers: Vec<LineStatus>,
}

impl Alerts {
    /// Nothing is told before [`Alerts::run`] runs. `client` posts, and without one
    /// nothing is delivered; `instance` names this process in messages.
    pub fn new(client: Option<reqwest::Client>, instance: impl Into<String>) -> Self {
        let (post, settings) = (Post::new(client, instance.into()), Settings::default());
        let inner = Inner {
            settings,
            log: true,
            aggregator: Aggregator::new(settings),
            conditions: Conditions::new(PINNED),
            held: BTreeMap::new(),
            lines: Vec::new(),
            looks: 0,
        };
        let (tallies, post) = (Tallies::default(), Arc::new(post));
        Self { shared: Arc::new(Shared { tallies, inner: Mutex::new(inner), post }) }
    }

    /// How to group, whether to log, and whom to tell, by name. Receivers that stay as they were
    /// keep what waits for them. To be called within a tokio runtime.
    pub fn set(&self, settings: Settings, log: bool, receivers: Vec<(String, Receiver)>) {
        let mut inner = self.inner();
        (inner.settings, inner.log) = (settings, log);
        inner.aggregator.set(settings);
        let mut old = std::mem::take(&mut inner.lines);
        for (name, receiver) in receivers {
            let kept = old.iter().position(|(line, _)| line.name == name && line.receiver == receiver);
            let line = match kept {
                Some(at) => old.swap_remove(at),
                None => self.open_line(&inner.aggregator, name, receiver, settings),
            };
            inner.lines.push(line);
        }
        for (line, task) in old {
            task.abort();
            let (waiting, _) = line.waiting_and_dropped();
            tracing::info!(receiver = line.name, waiting, "no longer told; what waited for it is dropped");
        }
    }

    /// A new receiver is told what goes on already.
    fn open_line(
        &self,
        aggregator: &Aggregator,
        name: String,
        receiver: Receiver,
        settings: Settings,
    ) -> (Arc<Line>, JoinHandle<()>) {
        // A group more for what has none of its own; resolved ones wait beside those that took their place.
        let most = 2 * (settings.most_groups + 1);
        let line = Arc::new(Line::new(name, receiver, most, self.shared.post.clone()));
        aggregator.open().into_iter().filter(|notice| notice.sequence > 0).for_each(|notice| line.put(notice));
        (line.clone(), tokio::spawn(line.run()))
    }

    /// Where refusals of a limiter on a route are counted.
    pub fn tally(&self, limiter: &Arc<str>, route: &Arc<str>) -> Arc<Tally> {
        self.shared.tallies.of(limiter, route)
    }

    /// Something happened, once.
    pub fn raise(&self, subject: &Subject, detail: &str) {
        let seen = Seen { count: 1, detail: Some(detail.into()), ..Seen::default() };
        self.inner().aggregator.observe(subject, &seen, self.shared.post.clock.now());
    }

    /// Something is so until it is cleared.
    pub fn hold(&self, subject: &Subject, detail: &str) {
        let mut inner = self.inner();
        let begins = inner.held.insert(subject.clone(), detail.into()).is_none();
        let seen = Seen { count: u64::from(begins), detail: Some(detail.into()), ..Seen::default() };
        inner.aggregator.observe(subject, &seen, self.shared.post.clock.now());
    }

    /// It is no longer so.
    pub fn clear(&self, subject: &Subject) {
        self.inner().held.remove(subject);
    }

    /// What goes on now.
    pub fn open(&self) -> Vec<Notice> {
        self.inner().aggregator.open()
    }

    /// What goes on now, each as the webhook's JSON has it.
    pub fn shown(&self) -> Vec<serde_json::Value> {
        let stamp = self.shared.post.stamp();
        self.open().iter().map(|notice| message::alert(notice, stamp)).collect()
    }

    /// Refusals so far, as (limiter, route, reason, count): see [`Tallies::counted`].
    pub fn rejections(&self, each: impl FnMut(&str, &str, RejectReason, u64)) {
        self.shared.tallies.counted(each);
    }

    /// How alerts are doing.
    pub fn status(&self) -> Status {
        let inner = self.inner();
        let mut firing = [0; Kind::ALL.len()];
        inner.aggregator.open().iter().for_each(|notice| firing[notice.subject.kind.index()] += 1);
        let receivers = inner.lines.iter().map(|(line, _)| {
            let (waiting, dropped) = line.waiting_and_dropped();
            LineStatus {
                receiver: line.name.clone(),
                delivered: line.delivered.load(Ordering::Relaxed),
                failed: line.failed.load(Ordering::Relaxed),
                dropped,
                waiting,
            }
        });
        Status { firing, receivers: receivers.collect() }
    }

    /// Drains, looks at `limiters` and tells, until it is dropped.
    pub async fn run(self, limiters: impl Fn() -> Vec<Limiter>) {
        loop {
            // Either way it is time to drain.
            let _ = tokio::time::timeout(DRAIN, self.shared.tallies.woken()).await;
            self.once(&limiters);
        }
    }

    /// Tells what was not told, and gives every receiver one more chance, within `within`.
    pub async fn flush(&self, limiters: impl Fn() -> Vec<Limiter>, within: Duration) {
        self.once(&limiters);
        let lines: Vec<_> = self.inner().lines.iter().map(|(line, _)| line.clone()).collect();
        let mut deliveries = JoinSet::new();
        for line in lines.into_iter().filter(|line| line.waiting_and_dropped().0 > 0) {
            deliveries.spawn(async move {
                // What is gathered goes in a moment.
                tokio::time::sleep(DRAIN).await;
                line.deliver_due().await;
            });
        }
        // Whoever is late is dropped with the set.
        let _ = tokio::time::timeout(within, async { while deliveries.join_next().await.is_some() {} }).await;
    }

    fn once(&self, limiters: &impl Fn() -> Vec<Limiter>) {
        let now = self.shared.post.clock.now();
        let mut guard = self.inner();
        let inner = &mut *guard;
        self.shared.tallies.drain(|subject, seen| inner.aggregator.observe(subject, &seen, now));
        for (subject, detail) in &inner.held {
            let seen = Seen { detail: Some(detail.clone()), ..Seen::default() };
            inner.aggregator.observe(subject, &seen, now);
        }
        if inner.looks.is_multiple_of(LOOK) {
            inner.look(&limiters(), now);
        }
        inner.looks = inner.looks.wrapping_add(1);
        let notices = inner.aggregator.tick(now);
        self.shared.post.set_stamp(inner.aggregator.now());
        self.shared.tallies.arm(|subject| inner.aggregator.is_quiet(subject));
        for notice in notices {
            if inner.log {
                log(&notice);
            }
            inner.lines.iter().for_each(|(line, _)| line.put(notice.clone()));
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Every critical section leaves a whole value behind.
        self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn look(&mut self, limiters: &[Limiter], now: crate::time::Nanos) {
        for limiter in limiters {
            let snapshot = limiter.snapshot();
            if let Some(vitals) = Vitals::of(&snapshot) {
                for (subject, seen) in self.conditions.look(&snapshot.name, vitals, now) {
                    self.aggregator.observe(&subject, &seen, now);
                }
            }
        }
        self.conditions.keep(|name| limiters.iter().any(|limiter| &**limiter.name() == name));
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.lines.iter().for_each(|(_, task)| task.abort());
    }
}

/// The log is a receiver too: one line for each notice, never one for each event.
fn log(notice: &Notice) {
    let (key, count, total) = (notice.subject.key(), notice.count, notice.total);
    let state = notice.state.as_str();
    match notice.state {
        State::Resolved => tracing::info!(alert = key, state, count, total, "{notice}"),
        State::Began | State::Continues => tracing::warn!(alert = key, state, count, total, "{notice}"),
    }
}
