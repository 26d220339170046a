//! Every metric's name, unit and help, and how a limiter's numbers become metrics.
//!
//! Nothing here runs per request. A limiter counts for itself; at a scrape its [`Snapshot`](crate::Snapshot) is
//! written through the `metrics` facade ([`record`]), or as Prometheus text at once ([`Text`]), which
//! is many times faster with many limiters. Both write the same numbers, counters as absolute values.

mod ceiling;
mod classes;
mod limiter;
mod sink;
mod text;

pub use ceiling::record_ceiling;
pub use limiter::record;
pub use text::Text;

use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::breaker::{Breaker, BreakerState};
use crate::classify::WaitSource;
use crate::hold_off::HoldOffSnapshot;
use crate::outcome::Outcome;
use crate::rejection::RejectReason;

/// Units in flight.
pub const IN_FLIGHT: &str = "tidegate_inflight";
/// The limit in force.
pub const LIMIT: &str = "tidegate_limit";
/// The smallest limit allowed.
pub const LIMIT_MIN: &str = "tidegate_limit_min";
/// The largest limit allowed.
pub const LIMIT_MAX: &str = "tidegate_limit_max";
/// Requests that wait.
pub const QUEUED: &str = "tidegate_queued";
/// Requests refused, by `reason`.
pub const REJECTIONS: &str = "tidegate_rejections_total";
/// 1 while a safe substitute is in use, by `kind`.
pub const FALLBACK: &str = "tidegate_fallback_active";
/// Requests that finished, by `outcome`.
pub const FINISHED: &str = "tidegate_finished_total";
/// Requests that were admitted after a wait.
pub const WAITED: &str = "tidegate_waited_total";
/// Requests that shadow mode admitted past the limit.
pub const WOULD_REJECT: &str = "tidegate_would_reject_total";
/// Decisions of the law, by `reason`.
pub const DECISIONS: &str = "tidegate_decisions_total";
/// 1 for the mode in force, by `mode`.
pub const MODE: &str = "tidegate_mode";
/// Units in flight, by `class`.
pub const CLASS_IN_FLIGHT: &str = "tidegate_class_inflight";
/// Units that a class always gets, under the limit in force, by `class`.
pub const CLASS_RESERVE: &str = "tidegate_class_reserve";
/// Units of a class's reserve that others use, by `class`.
pub const CLASS_LENT: &str = "tidegate_class_lent";
/// Units that a class uses of others' reserves, by `class`.
pub const CLASS_BORROWED: &str = "tidegate_class_borrowed";
/// Requests that wait, by `class`.
pub const CLASS_QUEUED: &str = "tidegate_class_queued";
/// Requests that were admitted after a wait, by `class`.
pub const CLASS_WAITED: &str = "tidegate_class_waited_total";
/// Requests refused, by `class` and `reason`.
pub const CLASS_REJECTIONS: &str = "tidegate_class_rejections_total";
/// Latency as the law sees it.
pub const TYPICAL_LATENCY: &str = "tidegate_typical_latency_seconds";
/// Requests finished a second, as the law sees it.
pub const DRAIN_RATE: &str = "tidegate_drain_rate";
/// Mean age of the timed requests that have not finished.
pub const UNFINISHED_AGE: &str = "tidegate_unfinished_age_seconds";
/// Latency without queueing, as far as the law has learned it.
pub const UNLOADED_LATENCY: &str = "tidegate_unloaded_latency_seconds";
/// In-flight level from which latency rises, as far as the law has learned it.
pub const KNEE: &str = "tidegate_knee";
/// The limit that the shadow law would put in force.
pub const SHADOW_LIMIT: &str = "tidegate_shadow_limit";
/// Requests that the shadow law would have turned away.
pub const SHADOW_WOULD_REJECT: &str = "tidegate_shadow_would_reject_total";
/// Samples that were dropped because they came too fast.
pub const SAMPLES_DROPPED: &str = "tidegate_samples_dropped_total";
/// Latency; as `_bucket`, `_sum` and `_count`.
pub const LATENCY: [&str; 3] =
    ["tidegate_latency_seconds_bucket", "tidegate_latency_seconds_sum", "tidegate_latency_seconds_count"];
/// Times that permits were held; as `_bucket`, `_sum` and `_count`.
pub const HOLD: [&str; 3] =
    ["tidegate_hold_seconds_bucket", "tidegate_hold_seconds_sum", "tidegate_hold_seconds_count"];
/// Waits of those who were admitted after one; as `_bucket`, `_sum` and `_count`.
pub const QUEUE_WAIT: [&str; 3] =
    ["tidegate_queue_wait_seconds_bucket", "tidegate_queue_wait_seconds_sum", "tidegate_queue_wait_seconds_count"];
/// Requests refused, by `route` and `reason`; limiter and route are `other` past the first few thousand.
pub const ROUTE_REJECTIONS: &str = "tidegate_route_rejections_total";
/// 1 when the config file is the config in force, 0 when it could not be applied.
pub const CONFIG_OK: &str = "tidegate_config_ok";
/// How often a config was applied, the first included.
pub const CONFIG_VERSION: &str = "tidegate_config_version";
/// How long the config has been in force.
pub const CONFIG_AGE: &str = "tidegate_config_age_seconds";
/// Configs that were refused.
pub const CONFIG_REFUSED: &str = "tidegate_config_refused_total";
/// Changes that were taken back because things got worse.
pub const CONFIG_REVERTED: &str = "tidegate_config_reverted_total";
/// 1 while a change is watched.
pub const CONFIG_BAKING: &str = "tidegate_config_baking";
/// 1 while the config file is not in force and need not be: not in the share, or it waits.
pub const CONFIG_PENDING: &str = "tidegate_config_pending";
/// 1 when the last record could be written to the audit log.
pub const AUDIT_OK: &str = "tidegate_audit_ok";
/// Records that could not be written to the audit log.
pub const AUDIT_FAILURES: &str = "tidegate_audit_failures_total";
/// 1 when the config file can only be looked at, because watching it does not work.
pub const CONFIG_BLIND: &str = "tidegate_config_polling";
/// How late the process's own runtime is.
pub const RUNTIME_DELAY: &str = "tidegate_runtime_delay_seconds";
/// Client connections that are open.
pub const CONNECTIONS: &str = "tidegate_connections";

/// How long the longest hold-off of a destination still is, by `destination`; 0 when none is open.
pub const HOLD_OFF: &str = "tidegate_hold_off_seconds";
/// Keys of a destination that are held off.
pub const HOLD_OFF_OPEN: &str = "tidegate_hold_off_open";
/// Hold-offs that were opened, by `source`: who said how long.
pub const HOLD_OFF_OPENED: &str = "tidegate_hold_off_opened_total";
/// Hold-offs that were cut to the cap.
pub const HOLD_OFF_CAPPED: &str = "tidegate_hold_off_capped_total";
/// Requests that were refused because of a hold-off.
pub const HOLD_OFF_REFUSED: &str = "tidegate_hold_off_refused_total";

/// Answers of an upstream that were not good, by the `rule` that said so and its `outcome`.
pub const ANSWERS: &str = "tidegate_answers_total";
/// 1 for the state that a breaker is in, by `breaker` and `state`.
pub const BREAKER_STATE: &str = "tidegate_breaker_state";
/// How often a breaker opened.
pub const BREAKER_OPENED: &str = "tidegate_breaker_opened_total";
/// Calls that a breaker refused.
pub const BREAKER_REFUSED: &str = "tidegate_breaker_refused_total";

/// Groups of alerts that fire, by `kind`.
pub const ALERTS_FIRING: &str = "tidegate_alerts_firing";
/// Messages that arrived, by `receiver`.
pub const ALERTS_DELIVERED: &str = "tidegate_alerts_delivered_total";
/// Attempts at a message that failed, by `receiver`.
pub const ALERTS_FAILED: &str = "tidegate_alerts_failed_total";
/// Notices that were dropped, by `receiver`.
pub const ALERTS_DROPPED: &str = "tidegate_alerts_dropped_total";
/// Notices that wait, by `receiver`.
pub const ALERTS_WAITING: &str = "tidegate_alerts_waiting";

/// A ceiling's rate in force here, in units a second, by `ceiling`.
pub const CEILING_RATE: &str = "tidegate_ceiling_rate";
/// The smallest rate allowed.
pub const CEILING_RATE_MIN: &str = "tidegate_ceiling_rate_min";
/// The largest rate allowed.
pub const CEILING_RATE_MAX: &str = "tidegate_ceiling_rate_max";
/// Units taken from a ceiling.
pub const CEILING_CONSUMED: &str = "tidegate_ceiling_consumed_total";
/// Units given back to a ceiling.
pub const CEILING_REFUNDED: &str = "tidegate_ceiling_refunded_total";
/// Requests that a ceiling refused.
pub const CEILING_REFUSED: &str = "tidegate_ceiling_refused_total";
/// Requests that wait for a ceiling.
pub const CEILING_WAITING: &str = "tidegate_ceiling_waiting";
/// Attempts that the other side throttled.
pub const CEILING_THROTTLED: &str = "tidegate_ceiling_throttled_total";
/// 1 for where a ceiling's units come from, by `source`.
pub const CEILING_SOURCE: &str = "tidegate_ceiling_source";
/// Processes that share a ceiling, as far as the store has counted.
pub const CEILING_MEMBERS: &str = "tidegate_ceiling_members";
/// Calls to the store of a shared ceiling.
pub const CEILING_ROUND_TRIPS: &str = "tidegate_ceiling_round_trips_total";

/// Tells the recorder what each metric means.
pub fn describe() {
    limiter::describe();
    ceiling::describe();
    describe_gauge!(HOLD_OFF, Unit::Seconds, "How long the longest hold-off of a destination still is");
    describe_gauge!(HOLD_OFF_OPEN, "Keys of a destination that are held off");
    describe_counter!(HOLD_OFF_OPENED, "Hold-offs that were opened, by who said how long");
    describe_counter!(HOLD_OFF_CAPPED, "Hold-offs that were cut to the cap");
    describe_counter!(HOLD_OFF_REFUSED, "Requests that were refused because of a hold-off");
    describe_counter!(ANSWERS, "Answers of an upstream that were not good, by the rule that said so");
    describe_gauge!(BREAKER_STATE, "1 for the state that a breaker is in");
    describe_counter!(BREAKER_OPENED, "How often a breaker opened");
    describe_counter!(BREAKER_REFUSED, "Calls that a breaker refused");
    describe_gauge!(CONFIG_OK, "1 when the config file is in force, 0 when it could not be applied");
    describe_gauge!(CONFIG_VERSION, "How often a config was applied, the first included");
    describe_gauge!(CONFIG_AGE, Unit::Seconds, "How long the config has been in force");
    describe_counter!(CONFIG_REFUSED, "Configs that were refused");
    describe_counter!(CONFIG_REVERTED, "Changes that were taken back because things got worse");
    describe_gauge!(CONFIG_BAKING, "1 while a change is watched");
    describe_gauge!(CONFIG_PENDING, "1 while the config file is not in force and need not be");
    describe_gauge!(AUDIT_OK, "1 when the last record could be written to the audit log");
    describe_counter!(AUDIT_FAILURES, "Records that could not be written to the audit log");
    describe_gauge!(CONFIG_BLIND, "1 when the config file is only polled, because watching it does not work");
    describe_gauge!(RUNTIME_DELAY, Unit::Seconds, "How late this process's own runtime runs what is ready");
    describe_gauge!(CONNECTIONS, "Client connections that are open");
    describe_gauge!(ALERTS_FIRING, "Groups of alerts that fire, by kind");
    describe_counter!(ROUTE_REJECTIONS, "Requests refused, by limiter, route and reason");
    describe_counter!(ALERTS_DELIVERED, "Messages that arrived at a receiver of alerts");
    describe_counter!(ALERTS_FAILED, "Attempts at a message to a receiver of alerts that failed");
    describe_counter!(ALERTS_DROPPED, "Notices for a receiver of alerts that were dropped");
    describe_gauge!(ALERTS_WAITING, "Notices that wait for a receiver of alerts");
}

/// Writes a hold-off's numbers. To be called at a scrape.
pub fn record_hold_off(now: &HoldOffSnapshot) {
    let destination = now.name.to_string();
    gauge!(HOLD_OFF, "destination" => destination.clone()).set(now.longest.as_secs_f64());
    gauge!(HOLD_OFF_OPEN, "destination" => destination.clone()).set(now.open as f64);
    counter!(HOLD_OFF_CAPPED, "destination" => destination.clone()).absolute(now.capped);
    counter!(HOLD_OFF_REFUSED, "destination" => destination.clone()).absolute(now.refused);
    for source in WaitSource::ALL {
        let labels = [("destination", destination.clone()), ("source", source.as_str().to_owned())];
        counter!(HOLD_OFF_OPENED, &labels).absolute(now.opened(source));
    }
}

/// Writes how often a rule said that an upstream's answer was not good. To be called at a scrape.
pub fn record_answers(upstream: &str, rule: &str, outcome: Outcome, count: u64) {
    let labels =
        [("upstream", upstream.to_owned()), ("rule", rule.to_owned()), ("outcome", outcome.as_str().to_owned())];
    counter!(ANSWERS, &labels).absolute(count);
}

/// Writes a breaker's numbers. To be called at a scrape.
pub fn record_breaker(breaker: &Breaker) {
    let (name, now) = (breaker.name().to_string(), breaker.state());
    for state in BreakerState::ALL {
        let is_so = f64::from(u8::from(state == now));
        gauge!(BREAKER_STATE, "breaker" => name.clone(), "state" => state.as_str()).set(is_so);
    }
    counter!(BREAKER_OPENED, "breaker" => name.clone()).absolute(breaker.opened());
    counter!(BREAKER_REFUSED, "breaker" => name).absolute(breaker.refused());
}

/// What is known of the config in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigState {
    /// Whether the file is what is in force.
    pub ok: bool,
    /// How often a config was applied, the first included.
    pub version: u64,
    /// How long it has been in force.
    pub age: Duration,
    /// How many were refused.
    pub refused: u64,
    /// How many were taken back.
    pub reverted: u64,
    /// Whether the one in force is watched.
    pub baking: bool,
    /// Whether the file holds another one, which need not be in force here or now.
    pub pending: bool,
    /// Whether the file is only polled.
    pub blind: bool,
    /// Whether the last record could be written to the audit log; `None` without a log.
    pub audit_ok: Option<bool>,
    /// Records that could not be written.
    pub audit_failures: u64,
}

/// Writes the state of the config. To be called at a scrape.
pub fn record_config(state: &ConfigState) {
    let flag = |on: bool| f64::from(u8::from(on));
    gauge!(CONFIG_OK).set(flag(state.ok));
    gauge!(FALLBACK, "kind" => "config").set(flag(!state.ok));
    gauge!(CONFIG_VERSION).set(state.version as f64);
    gauge!(CONFIG_AGE).set(state.age.as_secs_f64());
    counter!(CONFIG_REFUSED).absolute(state.refused);
    counter!(CONFIG_REVERTED).absolute(state.reverted);
    gauge!(CONFIG_BAKING).set(flag(state.baking));
    gauge!(CONFIG_PENDING).set(flag(state.pending));
    gauge!(CONFIG_BLIND).set(flag(state.blind));
    if let Some(ok) = state.audit_ok {
        gauge!(AUDIT_OK).set(flag(ok));
        counter!(AUDIT_FAILURES).absolute(state.audit_failures);
    }
}

/// Writes how many client connections are open. To be called at a scrape.
pub fn record_connections(open: usize) {
    gauge!(CONNECTIONS).set(open as f64);
}

/// Writes how late the process's own runtime is, as [`Canary::delay`](crate::Canary::delay) says. To be called
/// at a scrape.
pub fn record_runtime_delay(delay: Duration) {
    gauge!(RUNTIME_DELAY).set(delay.as_secs_f64());
}

/// Writes how many requests of a route a limiter has refused for a reason. To be called at a scrape.
pub fn record_route_rejections(limiter: &str, route: &str, reason: RejectReason, count: u64) {
    let labels = [("limiter", limiter.to_owned()), ("route", route.to_owned()), ("reason", reason.as_str().to_owned())];
    counter!(ROUTE_REJECTIONS, &labels).absolute(count);
}

/// Writes how many groups of alerts of one kind fire. To be called at a scrape.
pub fn record_firing(kind: &'static str, groups: usize) {
    gauge!(ALERTS_FIRING, "kind" => kind).set(groups as f64);
}

/// Writes how a receiver of alerts is doing. To be called at a scrape.
pub fn record_receiver(receiver: &str, [delivered, failed, dropped]: [u64; 3], waiting: usize) {
    let receiver = receiver.to_owned();
    counter!(ALERTS_DELIVERED, "receiver" => receiver.clone()).absolute(delivered);
    counter!(ALERTS_FAILED, "receiver" => receiver.clone()).absolute(failed);
    counter!(ALERTS_DROPPED, "receiver" => receiver.clone()).absolute(dropped);
    gauge!(ALERTS_WAITING, "receiver" => receiver).set(waiting as f64);
}
