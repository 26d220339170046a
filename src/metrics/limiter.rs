//! What there is to say of a limiter, and each of its metrics as a line of a table.

use metrics::{Unit, describe_counter, describe_gauge};

use super::sink::{Facade, Sink};
use super::{
    CLASS_BORROWED, CLASS_IN_FLIGHT, CLASS_LENT, CLASS_QUEUED, CLASS_REJECTIONS, CLASS_RESERVE, CLASS_WAITED,
    DECISIONS, DRAIN_RATE, FALLBACK, FINISHED, HOLD, IN_FLIGHT, KNEE, LATENCY, LIMIT, LIMIT_MAX, LIMIT_MIN, MODE,
    QUEUE_WAIT, QUEUED, REJECTIONS, SAMPLES_DROPPED, SHADOW_LIMIT, SHADOW_WOULD_REJECT, TYPICAL_LATENCY,
    UNFINISHED_AGE, UNLOADED_LATENCY, WAITED, WOULD_REJECT,
};
use crate::law::Reason;
use crate::limiter::{Fallback, Snapshot};
use crate::outcome::Outcome;
use crate::rejection::RejectReason;

/// What a metric of a limiter is.
pub(super) struct Metric {
    name: &'static str,
    pub(super) kind: Kind,
    unit: Option<Unit>,
    pub(super) help: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Counter,
    /// Named by its buckets.
    Histogram,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Counter => "counter",
            Kind::Histogram => "histogram",
        }
    }

    /// The name that stands in HELP and TYPE.
    pub(super) fn family(self, name: &'static str) -> &'static str {
        if self == Kind::Histogram { name.strip_suffix("_bucket").unwrap_or(name) } else { name }
    }
}

impl Metric {
    const fn new(name: &'static str, kind: Kind, unit: Option<Unit>, help: &'static str) -> Self {
        Self { name, kind, unit, help }
    }

    pub(super) fn family(&self) -> &'static str {
        self.kind.family(self.name)
    }
}

/// Every metric of a limiter.
pub(super) const LIMITER: &[Metric] = {
    use Kind::{Counter, Gauge, Histogram};
    const S: Option<Unit> = Some(Unit::Seconds);
    &[
        Metric::new(IN_FLIGHT, Gauge, None, "Units in flight"),
        Metric::new(LIMIT, Gauge, None, "The limit in force"),
        Metric::new(LIMIT_MIN, Gauge, None, "The smallest limit allowed"),
        Metric::new(LIMIT_MAX, Gauge, None, "The largest limit allowed"),
        Metric::new(QUEUED, Gauge, None, "Requests that wait for a place"),
        Metric::new(REJECTIONS, Counter, None, "Requests refused, by reason"),
        Metric::new(FALLBACK, Gauge, None, "1 while a safe substitute is in use, by kind"),
        Metric::new(FINISHED, Counter, None, "Requests that finished, by outcome"),
        Metric::new(WAITED, Counter, None, "Requests that were admitted after a wait"),
        Metric::new(WOULD_REJECT, Counter, None, "Requests that shadow mode admitted past the limit"),
        Metric::new(DECISIONS, Counter, None, "Decisions of the law, by reason"),
        Metric::new(MODE, Gauge, None, "1 for the mode in force"),
        Metric::new(TYPICAL_LATENCY, Gauge, S, "Latency as the law sees it"),
        Metric::new(DRAIN_RATE, Gauge, None, "Requests finished a second, as the law sees it"),
        Metric::new(UNFINISHED_AGE, Gauge, S, "Mean age of the timed requests that have not finished"),
        Metric::new(UNLOADED_LATENCY, Gauge, S, "Latency without queueing, as far as learned"),
        Metric::new(KNEE, Gauge, None, "In-flight level from which latency rises, as far as learned"),
        Metric::new(SHADOW_LIMIT, Gauge, None, "The limit that the shadow law would put in force"),
        Metric::new(
            SHADOW_WOULD_REJECT,
            Counter,
            None,
            "Requests that the shadow law would have turned away, an estimate",
        ),
        Metric::new(SAMPLES_DROPPED, Counter, None, "Samples that were dropped because they came too fast"),
        Metric::new(CLASS_IN_FLIGHT, Gauge, None, "Units in flight, by class"),
        Metric::new(CLASS_RESERVE, Gauge, None, "Units that a class always gets, under the limit in force"),
        Metric::new(CLASS_LENT, Gauge, None, "Units of a class's reserve that others use"),
        Metric::new(CLASS_BORROWED, Gauge, None, "Units that a class uses of others' reserves"),
        Metric::new(CLASS_QUEUED, Gauge, None, "Requests that wait for a place, by class"),
        Metric::new(CLASS_WAITED, Counter, None, "Requests that were admitted after a wait, by class"),
        Metric::new(CLASS_REJECTIONS, Counter, None, "Requests refused, by class and reason"),
        Metric::new(LATENCY[0], Histogram, S, "Latency to the response head"),
        Metric::new(HOLD[0], Histogram, S, "Time that places are held"),
        Metric::new(QUEUE_WAIT[0], Histogram, S, "Wait of those who were admitted after one"),
    ]
};

pub(super) fn describe() {
    for Metric { name, kind, unit, help } in LIMITER {
        match (kind, unit) {
            (Kind::Gauge, None) => describe_gauge!(*name, *help),
            (Kind::Gauge, Some(unit)) => describe_gauge!(*name, *unit, *help),
            (Kind::Counter | Kind::Histogram, _) => describe_counter!(*name, *help),
        }
    }
}

/// Writes a limiter's numbers through the facade. To be called at a scrape.
pub fn record(now: &Snapshot) {
    write(now, &mut Facade);
}

pub(super) fn write(now: &Snapshot, to: &mut impl Sink) {
    super::classes::write(now, to);
    let limiter = ("limiter", &*now.name);
    to.gauge(IN_FLIGHT, &[limiter], f64::from(now.in_flight));
    to.gauge(LIMIT, &[limiter], f64::from(now.limit));
    to.gauge(LIMIT_MIN, &[limiter], f64::from(now.bounds.min()));
    to.gauge(LIMIT_MAX, &[limiter], f64::from(now.bounds.max()));
    to.gauge(QUEUED, &[limiter], f64::from(now.queued));
    to.gauge(TYPICAL_LATENCY, &[limiter], now.typical_latency.as_secs_f64());
    to.gauge(DRAIN_RATE, &[limiter], now.drain_rate);
    to.gauge(UNFINISHED_AGE, &[limiter], now.unfinished.1.as_secs_f64());
    to.counter(WAITED, &[limiter], now.waited);
    to.counter(WOULD_REJECT, &[limiter], now.would_reject);
    to.counter(SAMPLES_DROPPED, &[limiter], now.samples_dropped);
    to.gauge(MODE, &[limiter, ("mode", now.mode.as_str())], 1.0);
    for reason in RejectReason::ALL {
        to.counter(REJECTIONS, &[limiter, ("reason", reason.as_str())], now.rejected(reason));
    }
    for outcome in Outcome::ALL {
        to.counter(FINISHED, &[limiter, ("outcome", outcome.as_str())], now.finished.of(outcome));
    }
    for reason in Reason::ALL {
        to.counter(DECISIONS, &[limiter, ("reason", reason.as_str())], now.decisions(reason));
    }
    for kind in Fallback::ALL {
        let active = f64::from(u8::from(now.fallback == Some(kind)));
        to.gauge(FALLBACK, &[limiter, ("kind", kind.as_str())], active);
    }
    if let Some(latency) = now.learned.unloaded_latency_s {
        to.gauge(UNLOADED_LATENCY, &[limiter], latency);
    }
    if let Some(knee) = now.learned.knee {
        to.gauge(KNEE, &[limiter], knee);
    }
    if let Some(shadow) = &now.shadow {
        to.gauge(SHADOW_LIMIT, &[limiter], f64::from(shadow.limit));
        to.counter(SHADOW_WOULD_REJECT, &[limiter], shadow.would_reject);
    }
    for (names, durations) in [(LATENCY, &now.latency), (HOLD, &now.hold), (QUEUE_WAIT, &now.queue_wait)] {
        to.durations(names, &[limiter], durations);
    }
}
