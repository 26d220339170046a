//! What receivers are sent: texts, made of notices. Pure.
//!
//! The webhook's JSON carries `version` 1. Within a version fields are added, never changed:
//!
//! ```json
//! {
//!   "version": 1, "source": "tidegate", "instance": "gw-1", "started": "2026-11-30T08:00:00.000Z", "message": 7,
//!   "sent_at": "2026-12-01T10:00:00.000Z", "status": "firing", "catch_up": false,
//!   "text": "payments: requests refused (queue_full on /pay), 1234 times in 60 s, ...",
//!   "alerts": [{
//!     "key": "rejections|payments|/pay|queue_full", "episode": 1, "sequence": 12,
//!     "state": "continues", "kind": "rejections", "limiter": "payments", "route": "/pay",
//!     "reason": "queue_full", "count": 1200, "total": 1234,
//!     "first": "2026-12-01T09:59:00.000Z", "last": "2026-12-01T10:00:00.000Z",
//!     "peak_in_flight": 20, "limit": {"low": 18, "high": 20},
//!     "tenants": [{"tenant": "acme", "count": 900, "over": 0}],
//!     "text": "payments: requests refused ..."
//!   }],
//!   "more": {"alerts": 0, "count": 0}, "dropped": 0
//! }
//! ```
//!
//! `key` is the same on every instance, and `instance`, `episode` and `sequence` tell one notice
//! from another: a receiver merges by `key` and keeps the highest `sequence` of each instance. They begin
//! anew with the process: of two messages of an instance, one with a later `started` is the newer one.
//! `count` is since the notice before, `total` since the episode began. `status` is `resolved`
//! when every alert in it is. A body never grows past what the receiver takes: the alerts with the
//! fewest events are left out then, and `more` says how many and with how many events.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use super::notice::{Kind, Notice, State};
use super::outbox::Batch;
use crate::time::Nanos;
use crate::wall::rfc3339;

/// Ties the aggregator's clock to wall time, for texts.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    /// Wall time at `now`.
    pub wall: SystemTime,
    /// The aggregator's time.
    pub now: Nanos,
}

impl Stamp {
    fn wall_of(&self, at: Nanos) -> SystemTime {
        self.wall.checked_sub(self.now.since(at)).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    fn text(&self, at: Nanos) -> String {
        rfc3339(self.wall_of(at))
    }
}

/// What stands around the alerts of a message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// Which process speaks.
    pub instance: &'a str,
    /// When it began to speak, the same in all its messages.
    pub started: SystemTime,
    /// Counts the messages to this receiver.
    pub message: u64,
    /// The time.
    pub stamp: Stamp,
}

/// Room for all of a message but its alerts.
const FRAME: usize = 1024;

/// The webhook's JSON, in at most about `most_bytes`.
pub fn webhook(batch: &Batch, envelope: Envelope<'_>, most_bytes: usize) -> String {
    let mut room = most_bytes.saturating_sub(FRAME);
    let (mut alerts, mut left_out) = (Vec::new(), Vec::new());
    for notice in by_weight(batch) {
        let alert = alert(notice, envelope.stamp);
        let size = alert.to_string().len() + 1;
        if size <= room && left_out.is_empty() {
            room -= size;
            alerts.push(alert);
        } else {
            left_out.push(notice);
        }
    }
    let resolved = batch.notices.iter().all(|notice| notice.state == State::Resolved);
    let message = json!({
        "version": 1,
        "source": "tidegate",
        "instance": envelope.instance,
        "started": rfc3339(envelope.started),
        "message": envelope.message,
        "sent_at": rfc3339(envelope.stamp.wall),
        "status": if resolved { "resolved" } else { "firing" },
        "catch_up": batch.catch_up,
        "text": headline(batch),
        "alerts": alerts,
        "more": { "alerts": left_out.len(), "count": left_out.iter().map(|notice| notice.count).sum::<u64>() },
        "dropped": batch.dropped,
    });
    message.to_string()
}

/// The chat form: an object with one `text`, in at most about `most_bytes`.
pub fn chat(batch: &Batch, envelope: Envelope<'_>, most_bytes: usize) -> String {
    let mut text = format!("tidegate on {}", envelope.instance);
    if batch.catch_up {
        text.push_str(" (late: this could not be delivered before)");
    }
    let (mut left_out, mut events) = (0_u64, 0_u64);
    for notice in by_weight(batch) {
        let line = chat_line(notice, envelope.stamp);
        if left_out == 0 && text.len() + line.len() + FRAME / 4 <= most_bytes {
            text.push_str(&line);
        } else {
            left_out += 1;
            events = events.saturating_add(notice.count);
        }
    }
    if left_out > 0 {
        text.push_str(&format!("\n... and {left_out} more with {events} events"));
    }
    if batch.dropped > 0 {
        text.push_str(&format!("\n{} notices before this one were dropped", batch.dropped));
    }
    json!({ "text": text }).to_string()
}

fn chat_line(notice: &Notice, stamp: Stamp) -> String {
    let mark = match notice.state {
        State::Began => "began",
        State::Continues => "goes on",
        State::Resolved => "over",
    };
    let mut line = format!("\n[{mark}] {notice} (since {}", stamp.text(notice.first));
    if !notice.tenants.is_empty() {
        let names: Vec<String> = notice.tenants.iter().map(|t| format!("{} ~{}", t.name, t.count)).collect();
        line.push_str(&format!(", most from {}", names.join(", ")));
    }
    line.push(')');
    line
}

/// Alertmanager's v2 form. `lasts` is how long an alert stands without being sent again.
pub fn alertmanager(
    notices: &[Notice],
    envelope: Envelope<'_>,
    more: &BTreeMap<String, String>,
    lasts: Duration,
) -> String {
    let alerts = notices.iter().map(|notice| {
        let ends = match notice.state {
            State::Resolved => envelope.stamp.wall_of(notice.at),
            _ => envelope.stamp.wall + lasts,
        };
        json!({
            "labels": labels(notice, envelope.instance, more),
            "annotations": annotations(notice),
            "startsAt": envelope.stamp.text(notice.first),
            "endsAt": rfc3339(ends),
        })
    });
    Value::from_iter(alerts).to_string()
}

/// Two instances differ in `instance` alone: grouping by the others puts them together, and the
/// end on one does not end it on the other.
fn labels(notice: &Notice, instance: &str, more: &BTreeMap<String, String>) -> Map<String, Value> {
    let mut labels: Map<String, Value> = more.iter().map(|(k, v)| (k.clone(), v.clone().into())).collect();
    let subject = &notice.subject;
    let own = [
        ("alertname", subject.kind.alert_name()),
        ("severity", severity(subject.kind)),
        ("limiter", &subject.limiter),
        ("route", &subject.route),
        ("reason", subject.reason),
        ("instance", instance),
    ];
    labels.extend(own.into_iter().filter(|(_, v)| !v.is_empty()).map(|(k, v)| (k.to_owned(), v.into())));
    labels
}

fn annotations(notice: &Notice) -> Map<String, Value> {
    let mut annotations = Map::new();
    annotations.insert("summary".into(), notice.to_string().into());
    annotations.insert("total".into(), notice.total.to_string().into());
    if !notice.tenants.is_empty() {
        let names: Vec<&str> = notice.tenants.iter().map(|tenant| &*tenant.name).collect();
        annotations.insert("tenants".into(), names.join(", ").into());
    }
    annotations
}

const fn severity(kind: Kind) -> &'static str {
    match kind {
        Kind::AccountExhausted => "critical",
        Kind::LimitAtMax | Kind::GuardReverted => "info",
        _ => "warning",
    }
}

pub(super) fn alert(notice: &Notice, stamp: Stamp) -> Value {
    let tenants: Vec<Value> = notice
        .tenants
        .iter()
        .map(|tenant| json!({ "tenant": &*tenant.name, "count": tenant.count, "over": tenant.over }))
        .collect();
    json!({
        "key": notice.subject.key(),
        "episode": notice.episode,
        "sequence": notice.sequence,
        "state": notice.state.as_str(),
        "kind": notice.subject.kind.as_str(),
        "limiter": &*notice.subject.limiter,
        "route": &*notice.subject.route,
        "reason": notice.subject.reason,
        "count": notice.count,
        "total": notice.total,
        "first": stamp.text(notice.first),
        "last": stamp.text(notice.last),
        "peak_in_flight": notice.peak_in_flight,
        "limit": notice.limit.map(|(low, high)| json!({ "low": low, "high": high })),
        "tenants": tenants,
        "merged": notice.merged,
        "text": notice.to_string(),
    })
}

fn headline(batch: &Batch) -> String {
    let mut text = by_weight(batch).first().map(ToString::to_string).unwrap_or_default();
    if batch.notices.len() > 1 {
        text.push_str(&format!(" ... and {} more", batch.notices.len() - 1));
    }
    text
}

/// Most events first.
fn by_weight(batch: &Batch) -> Vec<&Notice> {
    let mut notices: Vec<&Notice> = batch.notices.iter().collect();
    notices.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.subject.cmp(&b.subject)));
    notices
}
