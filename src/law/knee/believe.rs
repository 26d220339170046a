//! From the profile to a belief, and what holds the belief's unloaded latency in place.
//!
//! Neighbouring levels are taken together until they have some samples, fitted, and the result is
//! held against what dips have shown: while the limit binds, all samples lie in a narrow band, and
//! within it a queue cannot be told from a slow service.

use super::learn::weight_of;
use super::pair::Verdict;
use super::posterior::{Anchor, Belief, Point, fit};
use super::{Knee, tolerance};
use crate::window::{LEVELS, Window, level_of};

/// While there are few samples, this share of them beyond a level is enough for it to count.
const SEEN_SHARE: f64 = 0.4;
/// Squared error of the model itself.
const MODEL_ERROR: f64 = 0.0025;
/// Neighbouring levels are taken together until they have so many samples.
const GROUP: f64 = 4.0;
/// The model's expectation counts as so many samples of a group: a mean over one or two is a wild guess.
const PRIOR: f64 = 1.0;
/// The unloaded latency may creep up by this (log) before it is held.
const CREEP: f64 = 0.2;
/// It is held from so many mean latencies after the start on.
const CAP_AFTER: f64 = 20.0;
/// Levels so far apart (log) may raise it too, with such log odds.
const STRAIN_SPREAD: f64 = 0.5;
const STRAIN: f64 = 4.0;

/// Neighbouring levels, taken together.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    weight: f64,
    sum: f64,
    sum_ln: f64,
    /// Samples and unfinished requests, and the sum of their ln units.
    present: f64,
    x: f64,
}

impl Knee {
    /// Fits the model to the profile; what was believed before, when too little is left of it.
    pub(super) fn believe(&mut self) -> Option<Belief> {
        let noise = self.noise.of_fit();
        let enough = self.enough();
        let Some((lo, hi)) = self.curve().long.span(enough) else { return self.belief };
        let mut points = [Point::default(); LEVELS];
        let mut n = 0;
        let mut group = Group::default();
        for level in 0..LEVELS {
            self.gather(level, &mut group);
            if group.weight >= GROUP || level + 1 == LEVELS {
                if let Some(point) = self.point(&group, noise) {
                    points[n] = point;
                    n += 1;
                }
                group = Group::default();
            }
        }
        let anchor = Anchor {
            weight: self.anchor.weight / noise,
            most: self.cap.map_or(self.anchor.most, |cap| self.anchor.most.min(cap.as_secs_f64().ln())),
            ..self.anchor
        };
        let (lo, hi) = (self.scale.ln_units(lo), self.scale.ln_units(hi));
        self.spread = hi - lo;
        // One request alone has no queue: the knee is never below one unit.
        let from = (lo - 2.0 * tolerance(lo) - 0.2).max(0.0);
        Some(fit(&points[..n], anchor, from, hi + 1.8_f64.ln()))
    }

    /// So many samples at or beyond a level make it count as seen: at the start less is enough.
    pub(super) fn enough(&self) -> f64 {
        let total = self.curve().long.weight();
        let enough = (6.0 * self.noise.relative()).clamp(3.0, 60.0);
        if total < 2.0 { enough } else { enough.min((SEEN_SHARE * total).max(1.0)) }
    }

    /// Adds a level to a group.
    fn gather(&self, level: usize, group: &mut Group) {
        let at = self.curve().long.level(level);
        let x = self.scale.ln_units(level);
        // Where nothing has finished, the time waited says how much a level weighs.
        let present = at.weight + 1e-3 * f64::from(u8::from(at.sum > 0.0));
        group.weight += at.weight;
        group.sum += at.sum;
        group.sum_ln += at.sum_ln;
        group.present += present;
        group.x += present * x;
    }

    /// ln latency of a group and one over its squared error.
    fn point(&self, group: &Group, noise: f64) -> Option<Point> {
        if group.sum <= 0.0 {
            return None;
        }
        let x = group.x / group.present;
        let point = |y, weight: f64| Some(Point { x, y, weight: 1.0 / (noise / weight + MODEL_ERROR) });
        let mean = self.belief.map_or(0.0, |belief| belief.ln_latency(x).exp());
        if group.weight < 0.3 && (mean <= 0.0 || group.sum < mean || self.noise.is_heavy()) {
            // Nothing has finished: that tells something only once they have waited for long.
            return None;
        }
        if self.noise.is_heavy() {
            return point(group.sum_ln / group.weight, group.weight);
        }
        // One answer as the model has it: the mean over few answers is a wild guess.
        let prior = if mean > 0.0 { PRIOR } else { 0.0 };
        point(((group.sum + prior * mean) / (group.weight + prior)).ln(), group.weight.max(0.5))
    }

    /// While the limit binds, the unloaded latency may rise only by what dips have shown.
    pub(super) fn hold_baseline(&mut self, window: &Window<'_>, belief: &Belief, was_dip: bool) {
        if !self.traffic.is_bound() {
            self.anchor.most = f64::INFINITY;
            return;
        }
        if self.anchor.most.is_infinite()
            && window.closed.since(self.started).as_secs_f64() > CAP_AFTER * self.traffic.beat()
        {
            self.anchor.most = belief.s + CREEP;
        }
        if belief.strain > STRAIN && self.spread > STRAIN_SPREAD {
            self.anchor.most = belief.free + CREEP;
        }
        let alone = self.curve().long.level(0);
        if alone.weight >= GROUP {
            // Who was alone had no queue, whatever was believed before.
            self.anchor.most = self.anchor.most.max((alone.sum / alone.weight).ln());
        }
        if self.rhythm.is_dip() && !was_dip {
            self.pair.open(window.closed);
        }
        if was_dip && !self.rhythm.is_dip() {
            let top = level_of(self.said.round() as u32);
            let noise = self.noise.relative();
            let (n, age) = (0..=top).fold((0, 0.0), |(n, age), level| {
                let (m, a) = window.unfinished.level(level, window.closed);
                (n + m, age + a.as_secs_f64())
            });
            let share = (2.0 * age / f64::from(n.max(1)) / self.traffic.beat() - 1.0).max(noise).min(1.0);
            let waited = share * age * weight_of(self.said, window.one_in);
            match self.pair.close(window.closed, waited, noise) {
                Some(Verdict::Own(low)) => self.anchor.most = self.anchor.most.max(low + CREEP),
                Some(Verdict::Queue) | None => {}
            }
        }
    }
}
