//! Watches a change for its bake time, and says when something got worse.
//!
//! Readings of every limiter are kept for some minutes, so that there is a time before the change to
//! compare with.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tidegate::Limiter;
use tidegate::config::{ChangeConfig, Changed};
use tidegate::guard::{Counts, Thresholds, Worse, compare};

/// How far apart readings are kept.
const APART: Duration = Duration::from_secs(10);
/// How many are kept: ten minutes.
const MOST: usize = 60;
/// How often a change is looked at while it bakes, at most.
const LOOKS: u32 = 30;

/// Readings of all limiters.
type Reading = BTreeMap<String, Counts>;

/// The readings of the last minutes.
#[derive(Default)]
pub(crate) struct History {
    readings: VecDeque<(Instant, Reading)>,
}

impl History {
    /// Keeps a reading when it is time for one.
    pub(crate) fn note(&mut self, now: Instant, limiters: &[Limiter]) {
        if self.readings.back().is_some_and(|(last, _)| now.duration_since(*last) < APART) {
            return;
        }
        if self.readings.len() == MOST {
            self.readings.pop_front();
        }
        self.readings.push_back((now, read(limiters)));
    }

    /// What came in the time `back` before now, or as much of it as is known.
    fn last(&self, now: Instant, back: Duration, current: &Reading) -> Reading {
        let near = |at: &Instant| now.duration_since(*at) <= back + APART;
        let Some((_, from)) = self.readings.iter().find(|(at, _)| near(at)) else { return Reading::new() };
        since(current, from)
    }
}

/// A change that bakes.
pub(crate) struct Bake {
    until: Instant,
    every: Duration,
    next: Instant,
    looks: u32,
    allowed: Thresholds,
    before: Reading,
    at_change: Reading,
}

/// What a look at a change that bakes says.
pub(crate) enum Look {
    /// Nothing yet.
    GoesOn,
    /// The time is over and nothing got worse. With the figures.
    Good(String),
    /// Something got worse: what.
    Worse(String),
}

impl Bake {
    /// For a change that is put in force now; `None` when it is not to be watched.
    pub(crate) fn begin(
        how: &ChangeConfig,
        changes: &[Changed],
        limiters: &[Limiter],
        history: &History,
        now: Instant,
    ) -> Option<Self> {
        let time = how.bake()?;
        let every = (time / LOOKS).max(Duration::from_secs(1));
        let rise = how.max_rise();
        let mut current = read(limiters);
        if changes.iter().all(|change| change.limiter().is_some()) {
            let touched: BTreeSet<&str> = changes.iter().filter_map(Changed::limiter).collect();
            current.retain(|name, _| touched.contains(name.as_str()));
        }
        let before = history.last(now, time, &current);
        Some(Self {
            until: now + time,
            every,
            next: now + every,
            // Each limiter is looked at as often as there are looks.
            looks: (time.as_millis() / every.as_millis().max(1)) as u32 * current.len().max(1) as u32,
            allowed: Thresholds {
                p99: rise.p99,
                faults: rise.faults,
                throttles: rise.throttles,
                rejections: rise.rejections,
                confidence: how.confidence(),
            },
            before,
            at_change: current,
        })
    }

    /// How long it goes on.
    pub(crate) fn left(&self, now: Instant) -> Duration {
        self.until.saturating_duration_since(now)
    }

    /// Looks, when it is time to.
    pub(crate) fn look(&mut self, now: Instant, limiters: &[Limiter]) -> Look {
        if now < self.next {
            return Look::GoesOn;
        }
        self.next = now + self.every;
        let after = since(&read(limiters), &self.at_change);
        let none = Counts::default();
        let worse: Vec<String> = after
            .iter()
            .flat_map(|(name, after)| {
                let before = self.before.get(name).unwrap_or(&none);
                let worse: Vec<Worse> = compare(before, after, &self.allowed, self.looks);
                worse.into_iter().map(move |worse| format!("{name}: {worse}"))
            })
            .collect();
        if !worse.is_empty() {
            return Look::Worse(worse.join("; "));
        }
        if now < self.until { Look::GoesOn } else { Look::Good(self.figures(&after)) }
    }

    fn figures(&self, after: &Reading) -> String {
        let sum = |reading: &Reading| -> u64 { reading.values().map(|counts| counts.finished).sum() };
        let (before, after) = (sum(&self.before), sum(after));
        if before == 0 {
            return format!("nothing to compare with: no requests before, {after} after");
        }
        format!("nothing got worse: {before} requests before, {after} after")
    }
}

fn read(limiters: &[Limiter]) -> Reading {
    limiters.iter().map(|limiter| (limiter.name().to_string(), Counts::of(&limiter.snapshot()))).collect()
}

/// Limiters that are in one of them alone have nothing to compare.
fn since(now: &Reading, earlier: &Reading) -> Reading {
    now.iter().filter_map(|(name, counts)| Some((name.clone(), counts.since(earlier.get(name)?)))).collect()
}
