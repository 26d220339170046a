//! Numbers as JSON.

use std::time::SystemTime;

use serde_json::{Map, Value, json};
use tidegate::alerts::Status;
use tidegate::ceiling::CeilingSnapshot;
use tidegate::control::Record;
use tidegate::law::Reason;
use tidegate::limiter::ClassSnapshot;
use tidegate::{Limiter, Outcome, RejectReason, words};

use crate::reload::Reloader;

pub(super) fn limiter(limiter: &Limiter) -> Value {
    let now = limiter.snapshot();
    let counts = |all: &[(&'static str, u64)]| -> Map<String, Value> {
        all.iter().map(|(name, n)| ((*name).to_owned(), json!(n))).collect()
    };
    let latency = |q| now.latency.quantile(q).map(|s| s * 1e3);
    let shadow = now
        .shadow
        .as_ref()
        .map(|shadow| json!({ "law": shadow.law, "limit": shadow.limit, "would_reject": shadow.would_reject }));
    json!({
        "name": &*now.name,
        "mode": now.mode.as_str(),
        "law": now.law,
        "limit": now.limit,
        "min": now.bounds.min(),
        "max": now.bounds.max(),
        "in_flight": now.in_flight,
        "queued": now.queued,
        "classes": now.classes.iter().map(class).collect::<Vec<_>>(),
        "queue": { "length": now.waiting_room.0, "wait_ms": millis(now.waiting_room.1) },
        "fallback": now.fallback.map(|kind| kind.as_str()),
        "finished": counts(&Outcome::ALL.map(|o| (o.as_str(), now.finished.of(o)))),
        "rejected": counts(&RejectReason::ALL.map(|r| (r.as_str(), now.rejected(r)))),
        "decisions": counts(&Reason::ALL.map(|r| (r.as_str(), now.decisions(r)))),
        "waited": now.waited,
        "would_reject": now.would_reject,
        "typical_latency_ms": millis(now.typical_latency),
        "latency_ms": { "p50": latency(0.5), "p99": latency(0.99) },
        "drain_rate": now.drain_rate,
        "unfinished": { "timed": now.unfinished.0, "mean_age_ms": millis(now.unfinished.1) },
        "learned": {
            "unloaded_latency_ms": now.learned.unloaded_latency_s.map(|s| s * 1e3),
            "knee": now.learned.knee,
            "knee_spread": now.learned.knee_spread,
            "profile": now.learned.profile.iter().map(|(n, s)| json!([n, s * 1e3])).collect::<Vec<_>>(),
        },
        "shadow": shadow,
        "last_decision": now.last_decision.as_ref().map(|record| decision(limiter, record)),
    })
}

pub(super) fn ceiling(now: &CeilingSnapshot) -> Value {
    json!({
        "name": &*now.name,
        "source": now.source.as_str(),
        "rate": now.rate,
        "min": now.bounds.0,
        "max": now.bounds.1,
        "burst": now.burst,
        "consumed": now.consumed,
        "refunded": now.refunded,
        "refused": now.refused,
        "waiting": now.waiting,
        "throttled": now.throttled,
        "cuts": now.cuts,
        "members": now.members,
        "loss": now.loss.map(|loss| loss.to_string()),
    })
}

fn class(class: &ClassSnapshot) -> Value {
    let rejected: Map<String, Value> =
        RejectReason::ALL.iter().map(|r| (r.as_str().to_owned(), json!(class.rejected(*r)))).collect();
    json!({
        "name": &*class.name,
        "priority": class.priority,
        "reserve": class.reserve,
        "held": class.held,
        "cap": class.cap,
        "in_flight": class.in_flight,
        "lent": class.lent,
        "borrowed": class.borrowed,
        "queued": class.queued,
        "waited": class.waited,
        "rejected": rejected,
    })
}

pub(super) fn decisions(limiter: &Limiter) -> Value {
    let all: Vec<_> = limiter.decisions().iter().map(|record| decision(limiter, record)).collect();
    json!({ "limiter": &**limiter.name(), "decisions": all })
}

fn decision(limiter: &Limiter, record: &Record) -> Value {
    let inputs: Map<String, Value> =
        record.inputs.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    json!({
        "age_ms": millis(limiter.age_of(record)),
        "reason": record.reason.as_str(),
        "words": record.reason.in_words(),
        "helps": record.reason.what_helps(),
        "compared": words::compared(&record.inputs),
        "old": record.old,
        "new": record.new,
        "wanted": record.wanted,
        "inputs": inputs,
        "window_ms": millis(record.window),
        "finished": record.finished.total(),
        "turned_away": record.turned_away,
        "waited": record.waited,
        "samples": record.samples,
        "in_flight": record.in_flight,
        "stalled": record.stalled,
    })
}

pub(super) fn config(reloader: &Reloader) -> Value {
    let state = reloader.shown();
    let applied = state.applied_at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    json!({
        "path": reloader.path(),
        "hash": state.hash,
        "version": state.version,
        "applied_at_unix": applied.as_secs(),
        "age_s": state.since.elapsed().as_secs_f64(),
        "ok": state.error.is_none(),
        "error": state.error,
        "refused": state.refused,
        "reverted": state.reverted,
        "instance": state.instance,
        "pending": state.pending.as_ref().map(|pending| {
            let (why, hash) = pending.parts();
            json!({ "why": why, "hash": hash })
        }),
        "baking_for_s": state.bakes_for().map(|left| left.as_secs_f64()),
        "audit": state.audit.as_ref().map(|audit| {
            json!({ "head": audit.head, "error": audit.error, "failures": audit.failures })
        }),
        "polling": state.blind,
    })
}

fn millis(duration: std::time::Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// How each receiver of alerts is doing.
pub(super) fn receivers(status: &Status) -> Vec<Value> {
    let shown = status.receivers.iter().map(|line| {
        json!({
            "receiver": line.receiver,
            "delivered": line.delivered,
            "failed": line.failed,
            "dropped": line.dropped,
            "waiting": line.waiting,
        })
    });
    shown.collect()
}
