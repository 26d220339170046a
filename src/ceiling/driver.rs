//! Fetches leases for a shared ceiling, off the request path, and says when the store is lost or back.
//!
//! One task a ceiling, and one call at a time. Every call has a time-out; after a failed one nobody waits
//! for the store, and from then on it is only looked at.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{timeout, timeout_at};

use super::core::Core;
use super::events;
use super::lease::Lease;
use super::sharing::{OnLoss, Sharing};
use super::standing::{Standing, Turn};
use super::store::{Answer, Ask, Loss, Store};
use super::supply::{News, Supply};
use crate::clock::Clock;
use crate::limiter::thread::roll;
use crate::sync::lock;
use crate::time::Nanos;

/// How long a connection may take; nobody waits for one.
const CONNECT: Duration = Duration::from_secs(1);
/// No lease lives longer; an answer that says so makes no sense.
const LONGEST_LIFE: Duration = Duration::from_secs(10);
/// So many leases in a row that came too late to be used are a store that is too slow.
const LATE: u32 = 3;

/// The task behind a shared ceiling: [`Driver::run`] it for as long as the ceiling is used.
#[must_use = "without its driver a shared ceiling stays in fallback"]
pub struct Driver {
    core: Weak<Core>,
    supply: Arc<Supply>,
    store: Box<dyn Store>,
    sharing: Sharing,
    clock: Clock,
    lease: Lease,
    standing: Standing,
    late: u32,
}

impl Driver {
    pub(super) fn new(core: &Arc<Core>, supply: Arc<Supply>, store: Box<dyn Store>, sharing: Sharing) -> Self {
        let clock = core.clock;
        let now = clock.now();
        let (lease, standing) = (Lease::new(now), Standing::new(now));
        Self { core: Arc::downgrade(core), supply, store, sharing, clock, lease, standing, late: 0 }
    }

    /// Fetches leases until the last clone of the ceiling is gone; then gives back what is left.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the ceiling then stays as it is, and what it holds of a lease is lost
    /// to all.
    pub async fn run(mut self) {
        while let Some(core) = self.core.upgrade() {
            let now = self.clock.now();
            let due = self.due(&core, now);
            if due <= now {
                self.ask(core).await;
            } else {
                drop(core);
                let until = self.clock.instant_of(due);
                let _ = timeout_at(until, self.supply.demand.notified()).await;
            }
        }
        self.supply.clear(self.clock.now());
        let news = self.supply.news();
        if news.unspent > 0 && self.standing.loss().is_none() {
            let ask = Ask { want: 0, terms: self.sharing.last_terms, ..asking(&news, self.clock.now()) };
            let _ = timeout(self.sharing.budget, self.store.lease(&ask)).await;
        }
    }

    fn due(&mut self, core: &Core, now: Nanos) -> Nanos {
        if self.standing.loss().is_some() {
            return self.standing.next_probe();
        }
        let seen = self.supply.seen(now, core.used(), core.line.units());
        if let Some(keep) = self.lease.surplus(now, &seen) {
            self.supply.trim(now, keep);
        }
        self.lease.due(now, &seen)
    }

    async fn ask(&mut self, core: Arc<Core>) {
        let lost = self.standing.loss().is_some();
        if lost && !self.connected().await {
            return;
        }
        let sent = self.clock.now();
        let seen = self.supply.seen(sent, core.used(), core.line.units());
        let want = if lost { 0 } else { self.lease.want(sent, &seen) };
        let mut news = self.supply.news();
        // What time has paid off meanwhile concerns nobody any more.
        news.used = news.used.min(core.bucket.owed(sent).ceil() as u64);
        self.sharing.last_terms = core.terms();
        let ask = Ask { want, terms: self.sharing.last_terms, ..asking(&news, sent) };
        let answer = timeout(self.sharing.budget, self.store.lease(&ask)).await.unwrap_or(Err(Loss::Slow));
        lock(&self.supply.about).round_trips += 1;
        match answer.and_then(|answer| sensible(answer, &ask)) {
            Ok(answer) => self.answered(&core, sent, want, &answer),
            Err(loss) => {
                self.supply.untold(&news);
                self.failed(loss);
            }
        }
    }

    async fn connected(&mut self) -> bool {
        let connected = timeout(CONNECT, self.store.connect()).await.unwrap_or(Err(Loss::Unreachable));
        if let Err(loss) = connected {
            self.failed(loss);
        }
        connected.is_ok()
    }

    fn answered(&mut self, core: &Core, sent: Nanos, want: u32, answer: &Answer) {
        let now = self.clock.now();
        lock(&self.supply.about).members = answer.members;
        let batch = self.lease.answered(now, sent, want, answer, jitter());
        let more_at = if answer.granted < want { now + answer.wait } else { now };
        self.supply.told(more_at, answer.life, answer.rate);
        core.follow(answer.rate, self.sharing.on_loss.share(answer.members, self.sharing.last_terms.rate));
        match batch {
            Some(batch) => {
                self.late = 0;
                core.bucket.charge(now, u64::from(batch.units));
                self.supply.add(now, batch, self.lease.low());
            }
            None => self.late += u32::from(answer.granted > 0),
        }
        if self.late >= LATE {
            self.late = 0;
            return self.failed(Loss::Slow);
        }
        let turn = self.standing.answered(now, jitter());
        self.stand(turn);
        core.wake();
    }

    fn failed(&mut self, loss: Loss) {
        let turn = self.standing.failed(self.clock.now(), loss, jitter());
        self.stand(turn);
    }

    /// Puts the standing in force, and says so when it has turned.
    fn stand(&mut self, turn: Option<Turn>) {
        lock(&self.supply.about).loss = self.standing.loss();
        match self.standing.loss() {
            None => self.supply.share(),
            Some(_) => self.supply.fall_back(matches!(self.sharing.on_loss, OnLoss::Refuse)),
        }
        let Some(core) = self.core.upgrade() else { return };
        core.wake();
        let Some(turn) = turn else { return };
        events::turned(&core.name, turn, self.sharing.on_loss);
        if let Some(observer) = &self.sharing.observer {
            observer(&core.name, turn);
        }
    }
}

fn asking(news: &News, now: Nanos) -> Ask {
    Ask {
        want: 0,
        least: news.least,
        unspent: news.unspent,
        used: u32::try_from(news.used).unwrap_or(u32::MAX),
        throttled: news.throttled.map(|charged| now.since(charged)),
        succeeded: news.succeeded,
        terms: super::store::Terms { rate: 1.0, burst: 1.0, bounds: (1.0, 1.0) },
    }
}

fn sensible(answer: Answer, ask: &Ask) -> Result<Answer, Loss> {
    let (min, max) = ask.terms.bounds;
    let rate_fits = answer.rate >= min * 0.999 && answer.rate <= max * 1.001;
    let fits = answer.granted <= ask.want && answer.life <= LONGEST_LIFE && answer.members > 0 && rate_fits;
    fits.then_some(answer).ok_or(Loss::Nonsense)
}

fn jitter() -> f64 {
    f64::from(roll()) / f64::from(u32::MAX)
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(supply) = &self.supply {
            supply.demand.notify_one();
        }
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("lease", &self.lease).field("standing", &self.standing).finish_non_exhaustive()
    }
}
