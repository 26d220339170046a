//! Many events in, few notices out. Pure: it is told what was seen and what time it is.
//!
//! The first event of a quiet subject is said at the next [`Aggregator::tick`]; then one summary a
//! period while it lasts, and one notice when it has been quiet. Two notices of one episode are
//! never nearer than a period. A subject that comes back soon after it was resolved has to be
//! quiet for longer the next time, so that flapping is one episode and not many. Groups are
//! bounded in number; what finds no room is counted in one group for all of it. Counts are exact,
//! whatever the clock does.

use std::collections::BTreeMap;
use std::time::Duration;

use super::distinct::Distinct;
use super::notice::{Kind, Notice, Seen, State, Subject};
use super::sketch::Heaviest;
use crate::time::Nanos;

/// How alerts are grouped in time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// One summary for each group in this time.
    pub period: Duration,
    /// Resolved after this long without an event.
    pub quiet: Duration,
    /// Groups that are told apart; the rest shares one.
    pub most_groups: usize,
    /// Heaviest tenants that a notice names.
    pub tenants: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { period: Duration::from_secs(60), quiet: Duration::from_secs(60), most_groups: 200, tenants: 5 }
    }
}

/// Names kept for each one that is shown: the more, the surer the order.
const SKETCH: usize = 8;
/// Summaries leave at marks so far apart in a period, so that many groups share a message.
const MARKS: u32 = 4;
/// The longest that flapping makes the quiet time, in quiet times.
const MOST_PATIENCE: u32 = 8;
/// A resolved subject is remembered for so many quiet times.
const MEMORY: u32 = 10;

/// Groups events and says what there is to tell.
#[derive(Debug)]
pub struct Aggregator {
    settings: Settings,
    groups: BTreeMap<Subject, Group>,
    other: Option<(Group, Distinct)>,
    time: Steady,
    /// The mark that was passed last.
    mark: u128,
    sequence: u64,
}

/// A clock of its own: where the given one steps back it stands still, and goes on from there.
#[derive(Debug, Default)]
struct Steady {
    told: Option<Nanos>,
    now: Nanos,
}

impl Steady {
    fn tell(&mut self, now: Nanos) {
        self.now = self.now + now.since(self.told.unwrap_or(Nanos(0)));
        self.told = Some(now);
    }
}

#[derive(Debug)]
struct Group {
    open: bool,
    /// The first notice of this episode is not out yet.
    fresh: bool,
    episode: u64,
    first: Nanos,
    last: Nanos,
    told: Nanos,
    count: u64,
    total: u64,
    peak_in_flight: u32,
    limit: Option<(u32, u32)>,
    tenants: Heaviest,
    detail: Option<std::sync::Arc<str>>,
    /// How many quiet times it has to be quiet.
    patience: u32,
}

impl Aggregator {
    /// Nothing seen yet.
    pub fn new(settings: Settings) -> Self {
        Self { settings, groups: BTreeMap::new(), other: None, time: Steady::default(), mark: 0, sequence: 0 }
    }

    /// Other settings; open groups go on under them.
    pub fn set(&mut self, settings: Settings) {
        self.settings = settings;
    }

    /// `subject` was seen.
    pub fn observe(&mut self, subject: &Subject, seen: &Seen, now: Nanos) {
        self.time.tell(now);
        let (now, settings) = (self.time.now, self.settings);
        if !self.groups.contains_key(subject) && !self.has_room() {
            let (group, subjects) = self.other.get_or_insert_with(|| (Group::new(now, &settings), Distinct::new()));
            if !group.open {
                *subjects = Distinct::new();
            }
            subjects.add(subject);
            group.see(seen, now, &settings);
            return;
        }
        let group = self.groups.entry(subject.clone()).or_insert_with(|| Group::new(now, &settings));
        group.see(seen, now, &settings);
    }

    /// What there is to tell now. To be called a few times a second, and right after the first event
    /// of a quiet subject.
    pub fn tick(&mut self, now: Nanos) -> Vec<Notice> {
        self.time.tell(now);
        let (now, settings) = (self.time.now, self.settings);
        let mark = u128::from(now.0) / (settings.period / MARKS).as_nanos().max(1);
        let at_mark = std::mem::replace(&mut self.mark, mark) != mark;
        let mut notices = Vec::new();
        for (subject, group) in &mut self.groups {
            if let Some(state) = group.due(now, at_mark, &settings) {
                notices.push(group.tell(subject.clone(), state, now, &settings, &mut self.sequence));
            }
        }
        if let Some((group, subjects)) = &mut self.other
            && let Some(state) = group.due(now, at_mark, &settings)
        {
            let mut notice = group.tell(Subject::process(Kind::Other), state, now, &settings, &mut self.sequence);
            notice.merged = subjects.estimate();
            notices.push(notice);
        }
        self.groups.retain(|_, group| group.open || now.since(group.last) < settings.quiet * MEMORY);
        notices
    }

    /// What goes on now, each as a notice of how it stands.
    pub fn open(&self) -> Vec<Notice> {
        let groups = self.groups.iter().filter(|(_, group)| group.open);
        let mut open: Vec<_> = groups
            .map(|(subject, group)| {
                group.notice(subject.clone(), State::Continues, self.time.now, &self.settings, self.sequence)
            })
            .collect();
        if let Some((group, subjects)) = self.other.as_ref().filter(|(group, _)| group.open) {
            let subject = Subject::process(Kind::Other);
            let mut notice = group.notice(subject, State::Continues, self.time.now, &self.settings, self.sequence);
            notice.merged = subjects.estimate();
            open.push(notice);
        }
        open
    }

    /// Whether a subject is quiet, so that its next event wants to be told at once.
    pub fn is_quiet(&self, subject: &Subject) -> bool {
        self.groups.get(subject).is_none_or(|group| !group.open)
    }

    /// The aggregator's time, which notices are stamped with.
    pub fn now(&self) -> Nanos {
        self.time.now
    }

    /// Makes room by forgetting who has been quiet for longest.
    fn has_room(&mut self) -> bool {
        if self.groups.len() < self.settings.most_groups {
            return true;
        }
        let resolved = self.groups.iter().filter(|(_, group)| !group.open);
        let oldest = resolved.min_by_key(|(_, group)| group.last).map(|(subject, _)| subject.clone());
        oldest.is_some_and(|subject| self.groups.remove(&subject).is_some())
    }
}

impl Group {
    fn new(now: Nanos, settings: &Settings) -> Self {
        Self {
            open: false,
            fresh: false,
            episode: 0,
            first: now,
            last: now,
            told: now,
            count: 0,
            total: 0,
            peak_in_flight: 0,
            limit: None,
            tenants: Heaviest::new(settings.tenants * SKETCH),
            detail: None,
            patience: 1,
        }
    }

    fn see(&mut self, seen: &Seen, now: Nanos, settings: &Settings) {
        if !self.open {
            let flaps = self.episode > 0;
            let patience = if flaps { (self.patience * 2).min(MOST_PATIENCE) } else { 1 };
            let episode = self.episode + 1;
            *self = Self { open: true, fresh: true, episode, patience, ..Self::new(now, settings) };
        }
        self.last = now;
        self.count = self.count.saturating_add(seen.count);
        self.total = self.total.saturating_add(seen.count);
        self.peak_in_flight = self.peak_in_flight.max(seen.peak_in_flight);
        if let Some((low, high)) = seen.limit {
            let (so_low, so_high) = self.limit.unwrap_or((low, high));
            self.limit = Some((so_low.min(low), so_high.max(high)));
        }
        for (tenant, weight) in &seen.tenants {
            self.tenants.add(tenant, *weight);
        }
        if seen.detail.is_some() {
            self.detail.clone_from(&seen.detail);
        }
    }

    fn due(&self, now: Nanos, at_mark: bool, settings: &Settings) -> Option<State> {
        if !self.open {
            return None;
        }
        if self.fresh {
            return Some(State::Began);
        }
        if !at_mark || now.since(self.told) < settings.period {
            return None;
        }
        if now.since(self.last) >= settings.quiet * self.patience {
            return Some(State::Resolved);
        }
        // Nothing new while it waits to be resolved: nothing to tell.
        (self.last > self.told).then_some(State::Continues)
    }

    fn tell(&mut self, subject: Subject, state: State, now: Nanos, settings: &Settings, sequence: &mut u64) -> Notice {
        *sequence += 1;
        let notice = self.notice(subject, state, now, settings, *sequence);
        self.open = state != State::Resolved;
        (self.fresh, self.told, self.count) = (false, now, 0);
        notice
    }

    fn notice(&self, subject: Subject, state: State, now: Nanos, settings: &Settings, sequence: u64) -> Notice {
        Notice {
            subject,
            state,
            episode: self.episode,
            sequence,
            first: self.first,
            last: self.last,
            at: now,
            count: self.count,
            total: self.total,
            peak_in_flight: self.peak_in_flight,
            limit: self.limit,
            tenants: self.tenants.top(settings.tenants),
            merged: 0,
            detail: self.detail.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
