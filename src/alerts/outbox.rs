//! What waits for one receiver. Pure: it is told the time.
//!
//! At most one notice for each subject waits: a newer one takes the older one in, counts added up,
//! so that an outage of the receiver ends in one catch-up message and memory stays bounded. What
//! is there for a short while goes together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::notice::{Notice, State, Subject};
use super::retry::Retry;
use crate::time::Nanos;

/// Several subjects that begin together share a message.
const GATHER: Duration = Duration::from_millis(200);

/// Notices on their way to one receiver.
#[derive(Debug)]
pub struct Outbox {
    most: usize,
    waiting: BTreeMap<Subject, Notice>,
    oldest: Option<Nanos>,
    retry: Retry,
    dropped: u64,
    untold: u64,
}

/// What one message says.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// One for each subject, in no order that matters.
    pub notices: Vec<Notice>,
    /// Whether attempts failed before, so that some of it is old news.
    pub catch_up: bool,
    /// Notices that were dropped since the last message that arrived.
    pub dropped: u64,
    since: Nanos,
}

impl Outbox {
    /// At most `most` notices wait.
    pub fn new(most: usize) -> Self {
        Self {
            most: most.max(1),
            waiting: BTreeMap::new(),
            oldest: None,
            retry: Retry::default(),
            dropped: 0,
            untold: 0,
        }
    }

    /// A notice to deliver.
    pub fn put(&mut self, notice: Notice, now: Nanos) {
        self.oldest.get_or_insert(now);
        match self.waiting.get_mut(&notice.subject) {
            Some(older) => take_in(older, notice),
            None => {
                self.waiting.insert(notice.subject.clone(), notice);
                self.keep_bound();
            }
        }
    }

    /// When the next message may go out; `None` when nothing waits.
    pub fn due_at(&self) -> Option<Nanos> {
        self.oldest.map(|oldest| (oldest + GATHER).max(self.retry.not_before()))
    }

    /// The next message, when it is time. Whoever takes it says what became of it.
    pub fn take(&mut self, now: Nanos) -> Option<Batch> {
        self.due_at().filter(|due| *due <= now)?;
        let since = self.oldest.take()?;
        let notices = std::mem::take(&mut self.waiting).into_values().collect();
        let dropped = std::mem::take(&mut self.untold);
        Some(Batch { notices, catch_up: self.retry.failures() > 0, dropped, since })
    }

    /// It arrived.
    pub fn delivered(&mut self) {
        self.retry.succeeded();
    }

    /// It did not arrive, and is to be tried again, together with what came since. `asked` is the
    /// receiver's Retry-After; `jitter` lies in `0.0..1.0`.
    pub fn failed(&mut self, batch: Batch, now: Nanos, asked: Option<Duration>, jitter: f64) {
        self.retry.failed(now, asked, jitter);
        self.untold += batch.dropped;
        self.oldest = Some(batch.since);
        for mut older in batch.notices {
            if let Some(newer) = self.waiting.remove(&older.subject) {
                take_in(&mut older, newer);
            }
            self.waiting.insert(older.subject.clone(), older);
        }
        self.keep_bound();
    }

    /// It will not be taken in any form: dropped, and counted.
    pub fn refused(&mut self, batch: &Batch, now: Nanos, jitter: f64) {
        self.retry.failed(now, None, jitter);
        self.dropped += batch.notices.len() as u64;
        self.untold += batch.dropped + batch.notices.len() as u64;
    }

    /// Notices that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Notices that were dropped, ever.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Drops what matters least: resolved before open, few events before many.
    fn keep_bound(&mut self) {
        while self.waiting.len() > self.most {
            let least = self.waiting.values().min_by_key(|notice| (notice.state != State::Resolved, notice.count));
            let Some(subject) = least.map(|notice| notice.subject.clone()) else { return };
            self.waiting.remove(&subject);
            self.dropped += 1;
            self.untold += 1;
        }
    }
}

/// `newer` takes the place of `older`, which nobody has heard: nothing counted is lost.
fn take_in(older: &mut Notice, newer: Notice) {
    let limit = match (older.limit, newer.limit) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, other) => one.or(other),
    };
    *older = Notice {
        first: older.first.min(newer.first),
        count: older.count.saturating_add(newer.count),
        // Also right across episodes: each notice counts from the one before.
        total: older.total.saturating_add(newer.count),
        peak_in_flight: older.peak_in_flight.max(newer.peak_in_flight),
        limit,
        ..newer
    };
}

#[cfg(test)]
mod tests;
