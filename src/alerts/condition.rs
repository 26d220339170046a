//! States of a limiter that an operator should hear of, though no request is refused for them. Pure.
//!
//! A limit at a bound is no alert by itself: it counts when it has stood there for a while and
//! the bound is what keeps requests out. Which states there are follows from two looks in a row.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::notice::{Kind, Seen, Subject};
use crate::admission::Mode;
use crate::limiter::Snapshot;
use crate::outcome::Outcome;
use crate::rejection::RejectReason;
use crate::time::Nanos;

/// What of a limiter's numbers matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vitals {
    /// The limit in force.
    pub limit: u32,
    /// The smallest limit allowed.
    pub min: u32,
    /// The largest limit allowed.
    pub max: u32,
    /// Units in flight.
    pub in_flight: u32,
    /// Requests that wait.
    pub queued: u32,
    /// Refusals for the limit so far, those of shadow mode included.
    pub rejected: u64,
    /// Answers so far that said "too fast" or "too many".
    pub pressed: u64,
    /// The substitute in use.
    pub fallback: Option<&'static str>,
    /// Whether cuts have changed nothing.
    pub futile: bool,
    /// Answers so far that said an account is used up.
    pub exhausted: u64,
}

impl Vitals {
    /// Picked from a snapshot; `None` for a limiter that is switched off.
    pub fn of(now: &Snapshot) -> Option<Self> {
        let for_the_limit = RejectReason::ALL.into_iter().filter(|reason| reason.is_for_the_limit());
        (now.mode != Mode::Off).then(|| Self {
            limit: now.limit,
            min: now.bounds.min(),
            max: now.bounds.max(),
            in_flight: now.in_flight,
            queued: now.queued,
            rejected: for_the_limit.map(|reason| now.rejected(reason)).sum::<u64>() + now.would_reject,
            pressed: now.finished.of(Outcome::Throttled) + now.finished.of(Outcome::Overloaded),
            fallback: now.fallback.map(|fallback| fallback.as_str()),
            futile: now.learned.shedding_is_futile,
            exhausted: now.finished.of(Outcome::Exhausted),
        })
    }
}

/// Looks at limiters and says what is the matter with them.
#[derive(Debug)]
pub struct Conditions {
    pinned_for: Duration,
    limiters: BTreeMap<Arc<str>, Watched>,
}

#[derive(Debug)]
struct Watched {
    before: Vitals,
    at_min_since: Option<Nanos>,
    at_max_since: Option<Nanos>,
    active: [bool; Kind::ALL.len()],
}

impl Conditions {
    /// A limit counts as pinned when it has stood at a bound for `pinned_for`.
    pub fn new(pinned_for: Duration) -> Self {
        Self { pinned_for, limiters: BTreeMap::new() }
    }

    /// Only these limiters are left.
    pub fn keep(&mut self, is_left: impl Fn(&str) -> bool) {
        self.limiters.retain(|name, _| is_left(name));
    }

    /// What is the matter with a limiter now. Counters that stood higher before count as begun anew.
    pub fn look(&mut self, limiter: &Arc<str>, vitals: Vitals, now: Nanos) -> Vec<(Subject, Seen)> {
        let watched = self.limiters.entry(limiter.clone()).or_insert_with(|| Watched::new(vitals));
        watched.look(limiter, vitals, now, self.pinned_for)
    }
}

impl Watched {
    fn new(vitals: Vitals) -> Self {
        Self { before: vitals, at_min_since: None, at_max_since: None, active: [false; Kind::ALL.len()] }
    }

    fn look(&mut self, limiter: &Arc<str>, now: Vitals, at: Nanos, pinned_for: Duration) -> Vec<(Subject, Seen)> {
        let refuses = now.rejected > self.before.rejected;
        let pressed = now.pressed > self.before.pressed;
        let exhausted = now.exhausted.saturating_sub(self.before.exhausted);
        let movable = now.min < now.max;
        let since = |was: Option<Nanos>, pinned: bool| pinned.then(|| was.unwrap_or(at));
        self.at_min_since = since(self.at_min_since, movable && now.limit <= now.min);
        self.at_max_since = since(self.at_max_since, movable && now.limit >= now.max);
        let pinned = |since: Option<Nanos>| since.is_some_and(|since| at.since(since) >= pinned_for);
        let used_up = now.in_flight >= now.limit && (refuses || now.queued > 0);
        let states = [
            (Kind::LimitAtMin, pinned(self.at_min_since) && (refuses || pressed)),
            (Kind::LimitAtMax, pinned(self.at_max_since) && used_up),
            (Kind::Fallback, now.fallback.is_some()),
            (Kind::SheddingFutile, now.futile),
        ];
        self.before = now;
        let seen = |count| Seen {
            count,
            peak_in_flight: now.in_flight,
            limit: Some((now.limit, now.limit)),
            ..Seen::default()
        };
        let mut found = Vec::new();
        for (kind, is_so) in states {
            let was_so = std::mem::replace(&mut self.active[kind.index()], is_so);
            if is_so {
                let mut subject = Subject::limiter(kind, limiter);
                if kind == Kind::Fallback {
                    subject.reason = now.fallback.unwrap_or_default();
                }
                found.push((subject, seen(u64::from(!was_so))));
            }
        }
        if exhausted > 0 {
            found.push((Subject::limiter(Kind::AccountExhausted, limiter), seen(exhausted)));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vitals(limit: u32) -> Vitals {
        Vitals { limit, min: 4, max: 100, in_flight: limit, ..Vitals::default() }
    }

    fn kinds(found: &[(Subject, Seen)]) -> Vec<Kind> {
        found.iter().map(|(subject, _)| subject.kind).collect()
    }

    fn conditions() -> (Conditions, Arc<str>) {
        (Conditions::new(Duration::from_secs(60)), "payments".into())
    }

    fn at(secs: u64) -> Nanos {
        Nanos(secs * 1_000_000_000)
    }

    #[test]
    fn a_limit_at_its_minimum_counts_after_a_while_and_only_with_refusals() {
        let (mut conditions, name) = conditions();
        for second in 0..120 {
            let refusing = Vitals { rejected: second, ..vitals(4) };
            let found = conditions.look(&name, refusing, at(second));
            assert_eq!(kinds(&found), if second >= 60 { vec![Kind::LimitAtMin] } else { vec![] }, "at {second}");
        }
        let pressed = Vitals { rejected: 119, pressed: 1, ..vitals(4) };
        let found = conditions.look(&name, pressed, at(119));
        assert_eq!(found[0].0.kind, Kind::LimitAtMin, "a minimum above what the downstream carries");
        let refuses_nothing = pressed;
        assert!(conditions.look(&name, refuses_nothing, at(120)).is_empty());
    }

    #[test]
    fn a_limit_at_its_maximum_counts_when_it_is_used_up() {
        let (mut conditions, name) = conditions();
        for second in 0..=60 {
            conditions.look(&name, Vitals { queued: 3, ..vitals(100) }, at(second));
        }
        let found = conditions.look(&name, Vitals { queued: 3, ..vitals(100) }, at(61));
        assert_eq!(kinds(&found), [Kind::LimitAtMax]);
        assert_eq!(found[0].1.limit, Some((100, 100)));
        assert!(conditions.look(&name, Vitals { in_flight: 50, ..vitals(100) }, at(62)).is_empty());
    }

    #[test]
    fn a_limit_that_cannot_move_is_never_pinned() {
        let (mut conditions, name) = conditions();
        for second in 0..200 {
            let fixed = Vitals { limit: 7, min: 7, max: 7, in_flight: 7, rejected: second, ..Vitals::default() };
            assert!(conditions.look(&name, fixed, at(second)).is_empty());
        }
    }

    #[test]
    fn a_state_is_counted_when_it_begins_and_seen_while_it_lasts() {
        let (mut conditions, name) = conditions();
        let states = [false, true, true, false, true];
        let mut counts = Vec::new();
        for (second, stalled) in states.into_iter().enumerate() {
            let now = Vitals { fallback: stalled.then_some("signal"), futile: stalled, ..vitals(50) };
            let found = conditions.look(&name, now, at(second as u64));
            assert_eq!(found.len(), if stalled { 2 } else { 0 });
            counts.extend(found.iter().filter(|(s, _)| s.reason == "signal").map(|(_, seen)| seen.count));
        }
        assert_eq!(counts, [1, 0, 1]);
    }

    #[test]
    fn answers_that_say_used_up_are_counted_and_what_was_before_is_not() {
        let (mut conditions, name) = conditions();
        assert!(conditions.look(&name, Vitals { exhausted: 7, ..vitals(50) }, at(0)).is_empty());
        let found = conditions.look(&name, Vitals { exhausted: 9, ..vitals(50) }, at(1));
        assert_eq!((kinds(&found), found[0].1.count), (vec![Kind::AccountExhausted], 2));
    }
}
