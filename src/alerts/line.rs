//! The line to one receiver: what waits for it, and the task that delivers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

use super::message::{self, Envelope, Stamp};
use super::notice::Notice;
use super::outbox::{Batch, Outbox};
use super::receiver::{Alertmanager, Answer, Form, Receiver, Webhook};
use super::standing::Standing;
use crate::clock::{self, Clock};
use crate::time::Nanos;

/// A refused message is tried once more with nothing but its sums.
const SUMMARY_BYTES: usize = 0;

/// What all lines share.
#[derive(Debug)]
pub(super) struct Post {
    pub(super) client: Option<reqwest::Client>,
    pub(super) instance: String,
    pub(super) clock: Clock,
    started: SystemTime,
    /// The aggregator's time and wall time at one moment, taken together so that texts do not wander.
    stamp: Mutex<Stamp>,
}

impl Post {
    pub(super) fn new(client: Option<reqwest::Client>, instance: String) -> Self {
        let started = clock::wall();
        let stamp = Mutex::new(Stamp { wall: started, now: Nanos(0) });
        Self { client, instance, clock: Clock::new(), started, stamp }
    }

    pub(super) fn stamp(&self) -> Stamp {
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It is now `now` by the aggregator's time.
    pub(super) fn set_stamp(&self, now: Nanos) {
        *self.stamp.lock().unwrap_or_else(PoisonError::into_inner) = Stamp { wall: clock::wall(), now };
    }
}

/// The way to one receiver.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) receiver: Receiver,
    post: Arc<Post>,
    mailbox: Mutex<Mailbox>,
    wake: Notify,
    messages: AtomicU64,
    pub(super) delivered: AtomicU64,
    pub(super) failed: AtomicU64,
}

#[derive(Debug)]
enum Mailbox {
    Outbox(Outbox),
    Standing(Standing),
}

enum Load {
    Batch(Batch),
    State(Vec<Notice>),
}

impl Line {
    pub(super) fn new(name: String, receiver: Receiver, most: usize, post: Arc<Post>) -> Self {
        let mailbox = match &receiver {
            Receiver::Webhook(_) => Mailbox::Outbox(Outbox::new(most)),
            Receiver::Alertmanager(to) => Mailbox::Standing(Standing::new(most, to.resend)),
        };
        Self {
            name,
            receiver,
            post,
            mailbox: Mutex::new(mailbox),
            wake: Notify::new(),
            messages: AtomicU64::new(0),
            delivered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Takes a notice to deliver. Never waits.
    pub(super) fn put(&self, notice: Notice) {
        let now = self.post.clock.now();
        match &mut *self.mailbox() {
            Mailbox::Outbox(outbox) => outbox.put(notice, now),
            Mailbox::Standing(standing) => standing.put(notice, now),
        }
        self.wake.notify_one();
    }

    /// How many notices wait, and how many were dropped ever.
    pub(super) fn waiting_and_dropped(&self) -> (usize, u64) {
        match &*self.mailbox() {
            Mailbox::Outbox(outbox) => (outbox.waiting(), outbox.dropped()),
            Mailbox::Standing(standing) => (standing.waiting(), standing.dropped()),
        }
    }

    /// Delivers until it is dropped.
    pub(super) async fn run(self: Arc<Self>) {
        loop {
            let due = self.due_at().unwrap_or(Nanos::NEVER);
            let due = self.post.clock.instant_of(due);
            if tokio::time::timeout_at(due, self.wake.notified()).await.is_err() {
                self.deliver_due().await;
            }
        }
    }

    /// One attempt, when it is time for one.
    pub(super) async fn deliver_due(&self) {
        let Some(load) = self.take() else { return };
        let answer = match (&self.receiver, &load) {
            (Receiver::Webhook(to), Load::Batch(batch)) => self.to_webhook(to, batch).await,
            (Receiver::Alertmanager(to), Load::State(state)) => self.to_alertmanager(to, state).await,
            // A line's mailbox is made for its receiver.
            _ => return,
        };
        self.settle(load, &answer);
    }

    async fn to_webhook(&self, to: &Webhook, batch: &Batch) -> Answer {
        let envelope = self.envelope();
        let write = match to.form {
            Form::Json => message::webhook,
            Form::Chat => message::chat,
        };
        match to.post(self.post.client.as_ref(), write(batch, envelope, to.most_bytes)).await {
            Answer::Refused(_) => to.post(self.post.client.as_ref(), write(batch, envelope, SUMMARY_BYTES)).await,
            answer => answer,
        }
    }

    async fn to_alertmanager(&self, to: &Alertmanager, state: &[Notice]) -> Answer {
        to.post(self.post.client.as_ref(), message::alertmanager(state, self.envelope(), &to.labels, to.lasts())).await
    }

    fn envelope(&self) -> Envelope<'_> {
        let message = self.messages.fetch_add(1, Ordering::Relaxed) + 1;
        Envelope { instance: &self.post.instance, started: self.post.started, message, stamp: self.post.stamp() }
    }

    fn take(&self) -> Option<Load> {
        let now = self.post.clock.now();
        match &mut *self.mailbox() {
            Mailbox::Outbox(outbox) => outbox.take(now).map(Load::Batch),
            Mailbox::Standing(standing) => standing.take(now).map(Load::State),
        }
    }

    fn settle(&self, load: Load, answer: &Answer) {
        let (now, jitter) = (self.post.clock.now(), jitter());
        self.say(answer);
        let mut mailbox = self.mailbox();
        match (&mut *mailbox, load, answer) {
            (Mailbox::Outbox(outbox), Load::Batch(_), Answer::Taken) => outbox.delivered(),
            (Mailbox::Outbox(outbox), Load::Batch(batch), Answer::Later(_, asked)) => {
                outbox.failed(batch, now, *asked, jitter);
            }
            (Mailbox::Outbox(outbox), Load::Batch(batch), Answer::Refused(_)) => outbox.refused(&batch, now, jitter),
            (Mailbox::Standing(standing), Load::State(sent), Answer::Taken) => standing.delivered(&sent, now),
            (Mailbox::Standing(standing), _, Answer::Later(_, asked)) => standing.failed(now, *asked, jitter),
            (Mailbox::Standing(standing), Load::State(sent), Answer::Refused(_)) => {
                standing.refused(&sent, now, jitter);
            }
            _ => {}
        }
    }

    fn say(&self, answer: &Answer) {
        match answer {
            Answer::Taken => {
                self.delivered.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(receiver = self.name, "alerts delivered");
            }
            Answer::Later(why, _) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(receiver = self.name, why, "alerts not delivered, to be tried again");
            }
            Answer::Refused(why) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(receiver = self.name, why, "alerts refused in every form, dropped");
            }
        }
    }

    fn due_at(&self) -> Option<Nanos> {
        match &*self.mailbox() {
            Mailbox::Outbox(outbox) => outbox.due_at(),
            Mailbox::Standing(standing) => standing.due_at(),
        }
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        // Every critical section leaves a whole value behind.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In `0.0..1.0`, so that instances that failed together come back apart.
fn jitter() -> f64 {
    let roll = crate::limiter::thread::roll()
        ^ clock::wall().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO).subsec_nanos();
    f64::from(roll % 1024) / 1024.0
}
