//! What stands at one Alertmanager: it wants the whole state, again and again. Pure.
//!
//! Each message says all that is firing, and what was resolved since the last message that
//! arrived. It is sent when something begins or ends, and again well before the receiver would
//! take silence for the end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::notice::{Notice, State, Subject};
use super::retry::Retry;
use crate::time::Nanos;

const GATHER: Duration = Duration::from_millis(200);

/// What one Alertmanager is to know.
#[derive(Debug)]
pub struct Standing {
    most: usize,
    resend: Duration,
    firing: BTreeMap<Subject, Notice>,
    resolved: BTreeMap<Subject, Notice>,
    due: Option<Nanos>,
    retry: Retry,
    dropped: u64,
}

impl Standing {
    /// At most `most` alerts, sent again after `resend`.
    pub fn new(most: usize, resend: Duration) -> Self {
        Self {
            most: most.max(1),
            resend,
            firing: BTreeMap::new(),
            resolved: BTreeMap::new(),
            due: None,
            retry: Retry::default(),
            dropped: 0,
        }
    }

    /// How a subject stands now.
    pub fn put(&mut self, notice: Notice, now: Nanos) {
        let subject = notice.subject.clone();
        let ends = notice.state == State::Resolved;
        if ends {
            self.firing.remove(&subject);
            self.resolved.insert(subject, notice);
        } else {
            self.resolved.remove(&subject);
            let known = self.firing.insert(subject, notice).is_some();
            if known {
                // Its numbers are newer: they go with the next message.
                return;
            }
        }
        let soon = now + GATHER;
        self.due = Some(self.due.map_or(soon, |due| due.min(soon)));
        self.keep_bound();
    }

    /// When the next message may go out; `None` when there is nothing to say.
    pub fn due_at(&self) -> Option<Nanos> {
        self.due.map(|due| due.max(self.retry.not_before()))
    }

    /// The whole state, when it is time. Whoever takes it says what became of it.
    pub fn take(&mut self, now: Nanos) -> Option<Vec<Notice>> {
        self.due_at().filter(|due| *due <= now)?;
        self.due = None;
        Some(self.firing.values().chain(self.resolved.values()).cloned().collect())
    }

    /// `sent` arrived.
    pub fn delivered(&mut self, sent: &[Notice], now: Nanos) {
        self.retry.succeeded();
        self.forget_resolved(sent);
        self.again(now + self.resend);
    }

    /// It did not arrive, and what stands then is to be sent later. `asked` is the receiver's
    /// Retry-After; `jitter` lies in `0.0..1.0`.
    pub fn failed(&mut self, now: Nanos, asked: Option<Duration>, jitter: f64) {
        self.retry.failed(now, asked, jitter);
        self.again(now);
    }

    /// `sent` will not be taken: what was resolved is dropped, and counted; the rest is tried again.
    pub fn refused(&mut self, sent: &[Notice], now: Nanos, jitter: f64) {
        let before = self.resolved.len();
        self.forget_resolved(sent);
        self.dropped += (before - self.resolved.len()) as u64;
        self.failed(now, None, jitter);
    }

    /// Alerts that fire or wait to be resolved there.
    pub fn waiting(&self) -> usize {
        self.firing.len() + self.resolved.len()
    }

    /// Alerts that were dropped, ever.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn forget_resolved(&mut self, sent: &[Notice]) {
        self.resolved.retain(|subject, kept| {
            !sent.iter().any(|notice| notice.subject == *subject && notice.sequence == kept.sequence)
        });
    }

    fn again(&mut self, at: Nanos) {
        if self.waiting() > 0 {
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    fn keep_bound(&mut self) {
        while self.waiting() > self.most {
            let resolved = self.resolved.values().min_by_key(|notice| notice.last);
            let gone = match resolved.map(|notice| notice.subject.clone()) {
                Some(subject) => self.resolved.remove(&subject),
                None => self.firing.pop_first().map(|(_, notice)| notice),
            };
            self.dropped += u64::from(gone.is_some());
        }
    }
}
