//! A limiter's classes as metrics: at most 32 names in a limiter's life, so the label is bounded.

use super::sink::Sink;
use super::{CLASS_BORROWED, CLASS_IN_FLIGHT, CLASS_LENT, CLASS_QUEUED, CLASS_REJECTIONS, CLASS_RESERVE, CLASS_WAITED};
use crate::limiter::Snapshot;
use crate::rejection::RejectReason;

pub(super) fn write(now: &Snapshot, to: &mut impl Sink) {
    for class in &now.classes {
        let [limiter, name] = [("limiter", &*now.name), ("class", &*class.name)];
        to.gauge(CLASS_IN_FLIGHT, &[limiter, name], f64::from(class.in_flight));
        to.gauge(CLASS_RESERVE, &[limiter, name], f64::from(class.reserve));
        to.gauge(CLASS_LENT, &[limiter, name], f64::from(class.lent));
        to.gauge(CLASS_BORROWED, &[limiter, name], f64::from(class.borrowed));
        to.gauge(CLASS_QUEUED, &[limiter, name], f64::from(class.queued));
        to.counter(CLASS_WAITED, &[limiter, name], class.waited);
        for reason in RejectReason::ALL {
            to.counter(CLASS_REJECTIONS, &[limiter, name, ("reason", reason.as_str())], class.rejected(reason));
        }
    }
}
