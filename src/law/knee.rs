//! `knee`: the default law. It learns how latency depends on the requests in flight, and keeps the
//! limit a little past the point where latency begins to rise.
//!
//! Every served request is one observation: the number in flight that it met when it was admitted,
//! and its latency. The pieces, each in a file of its own:
//!
//! - `profile`: mean latency by in-flight level, slowly forgotten. Requests that have not finished
//!   count with the time they have waited so far, so that overload shows before slow answers come.
//! - `posterior`: from the profile, how likely each place is for the *knee*, the level from which
//!   latency rises. One flat level makes the likely knee lie higher, a band that is all slow makes
//!   it lie lower: so the law explores both ways by itself.
//! - `change`: sums of residuals that give an alarm when the downstream changes. The profile is then
//!   replaced by that of the last few mean latencies; the unloaded latency known before stays as a
//!   prior, so that a loss of capacity moves the knee and not the baseline.
//! - `rhythm`: a rare short dip while the limit binds, to look at latency with fewer in flight.
//! - `refusals`: throttles and time-outs cut at once, pause, and let the limit climb in small steps.
//! - `noise`, `traffic`: how much latency varies; the mean latency (the *beat*, the unit of all
//!   waiting times), stalls, and whether the limit is what binds.
//!
//! The limit is where the modelled latency has risen by `tol = 0.1 + 0.8 / sqrt(knee)`: a small
//! downstream needs relatively more in flight to stay busy. It grows only while it binds, by at
//! most a half at a time. All constants are in samples, variances or mean latencies, so the law
//! is the same at 5 requests a second and at 50,000.

mod change;
mod noise;
mod pair;
mod posterior;
mod profile;
mod refusals;
mod rhythm;
mod traffic;

use std::time::Duration;

use self::change::{Change, Shift};
use self::noise::Noise;
use self::pair::{Pair, Verdict};
use self::posterior::{Anchor, Belief, Point, fit};
use self::profile::{Profile, Scale};
use self::refusals::{Cut, Refusals};
use self::rhythm::Rhythm;
use self::traffic::Traffic;
use super::{Decision, Inputs, Law, Learned, Reason};
use crate::time::Nanos;
use crate::window::{LEVELS, Pace, Sample, Window, level_of};

/// Long memory: so many mean latencies or samples, whichever is longer.
const LONG: (f64, f64) = (60.0, 400.0);
/// Short memory, all that is kept after an alarm.
const SHORT: (f64, f64) = (3.0, 40.0);
/// At most so many samples a mean latency are independent.
const INDEPENDENT: f64 = 24.0;
/// Squared error of the model itself.
const MODEL_ERROR: f64 = 0.0025;
/// After an alarm, the old unloaded latency counts as so many samples.
const KEEP: f64 = 25.0;
/// The tolerated rise: `TOLERANCE.0 + TOLERANCE.1 / sqrt(knee)`, in log latency.
const TOLERANCE: (f64, f64) = (0.1, 0.8);
/// Optimism: so many standard deviations of the knee, and all above the second number.
const OPTIMISM: (f64, f64) = (0.3, 0.3);
/// Growth: at most by this factor, after so many mean latencies and samples (times the variance).
const MOST_GROWTH: f64 = 2.0;
const GROWTH_WAIT: (f64, f64) = (1.0, 4.0);
/// Shrinking: at most by this factor a mean latency.
const MOST_SHRINK: f64 = 0.6;
/// Latency cuts nothing before so many samples, times the variance.
const FIRST: f64 = 12.0;
/// A step of the limit larger than this (log) hides changes of the downstream for two mean latencies.
const OWN_STEP: f64 = 0.1;
/// The unloaded latency may creep up by this (log) before it is held.
/// After an alarm the unloaded latency is at most what is seen now, with this slack (log).
const SEEN_SLACK: f64 = 0.15;
const CREEP: f64 = 0.2;
/// It is held so many mean latencies after the start or a change.
const CAP_AFTER: f64 = 20.0;
/// Levels so far apart (log) may raise it too, with such log odds.
const STRAIN_SPREAD: f64 = 0.5;
const STRAIN: f64 = 4.0;
/// Dips are only needed while all samples lie within so much (log).
const BLIND: f64 = 0.8;
const FREE_ON_ALARM: bool = true;
/// Smaller moves are left undone.
const DEAD_BAND: f64 = 0.02;
/// Without demand the limit only falls, when the knee's headroom lies below this share of it at
/// this many standard deviations.
const SURELY_LESS: (f64, f64) = (0.86, 1.645);

/// Neighbouring levels of few samples are taken together until they have so many.
const GROUP: f64 = 4.0;
const PRIOR: f64 = 1.0;

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

/// The default law. See the [module](self).
#[derive(Clone, Debug)]
pub struct Knee {
    target: Option<Duration>,
    cap: Option<Duration>,
    futile_share: f64,
    scale: Scale,
    long: Profile,
    short: Profile,
    noise: Noise,
    change: Change,
    traffic: Traffic,
    refusals: Refusals,
    rhythm: Rhythm,
    pair: Pair,
    /// What unfinished requests have waited, by level, as far as it is in the sums.
    waited: [f64; LEVELS],
    anchor: Anchor,
    /// When the unloaded latency was set free.
    freed: Nanos,
    /// Log distance of the highest level from the lowest with enough samples.
    spread: f64,
    belief: Option<Belief>,
    /// The limit without dips and slots, and what the last decision said.
    limit: f64,
    said: f64,
    /// When the limit last moved, and samples since then.
    moved: Nanos,
    since_move: f64,
    /// Whether the window brought anything that was served.
    fresh: bool,
    /// Until then residuals come from our own step.
    quiet_until: Nanos,
}

impl Default for Knee {
    fn default() -> Self {
        Self {
            target: None,
            cap: None,
            futile_share: 0.1,
            scale: Scale::new(),
            long: Profile::new(),
            short: Profile::new(),
            noise: Noise::new(),
            change: Change::default(),
            traffic: Traffic::new(),
            refusals: Refusals::new(),
            rhythm: Rhythm::new(),
            pair: Pair::default(),
            waited: [0.0; LEVELS],
            freed: Nanos(0),
            spread: 0.0,
            anchor: Anchor { s: 0.0, weight: 0.0, most: f64::INFINITY },
            belief: None,
            limit: f64::NAN,
            said: f64::NAN,
            moved: Nanos(0),
            since_move: 0.0,
            fresh: false,
            quiet_until: Nanos(0),
        }
    }
}

impl Knee {
    /// Mean latency that is to be kept: the tolerated rise follows from it. Default: none.
    #[must_use]
    pub fn latency_target(mut self, target: Duration) -> Self {
        self.target = (!target.is_zero()).then_some(target);
        self
    }

    /// The unloaded latency is never believed to be above this. Default: no cap.
    #[must_use]
    pub fn baseline_cap(mut self, cap: Duration) -> Self {
        self.cap = (!cap.is_zero()).then_some(cap);
        self
    }

    /// Share of the limit that is kept when cuts change nothing, within `0.0..=1.0`. Default 0.1.
    #[must_use]
    pub fn futile_share(mut self, share: f64) -> Self {
        self.futile_share = if share.is_nan() { 0.1 } else { share.clamp(0.0, 1.0) };
        self
    }

    /// The limit in force is not what was said: the start, or the bounds moved it.
    fn take_over(&mut self, limit: f64) {
        let limit = if limit.is_finite() { limit.max(1.0) } else { 1.0 };
        if self.limit.is_nan() {
            self.limit = limit;
        } else if limit > self.said {
            self.limit = self.limit.max(limit);
        } else if limit < self.said {
            self.limit = self.limit.min(limit);
        }
    }

    /// Takes in what the window brings.
    fn observe(&mut self, window: &Window<'_>) {
        let before = self.traffic.counted();
        for sample in window.samples {
            self.observe_sample(sample, met(sample.in_flight, in_flight_at(window, sample.end)), window.one_in);
        }
        self.traffic.observe(window);
        let counted = self.traffic.counted() - before;
        self.since_move += counted;
        self.fresh = counted > 0.0;
        let beats = window.duration().as_secs_f64() / self.traffic.beat().max(1e-9);
        let slow = self.noise.relative().max(1.0);
        let kept = |memory: (f64, f64)| (-(beats / memory.0).min(counted / memory.1) / slow).exp();
        self.long.forget(kept(LONG));
        self.short.forget(kept(SHORT));
        self.pair.forget(kept(SHORT));
        self.count_waiting(window);
        self.anchor.weight *= kept(LONG);
    }

    fn observe_sample(&mut self, sample: &Sample, met: u32, one_in: u32) {
        let usable = self.traffic.follow(sample, one_in);
        let level = level_of(met);
        let latency = sample.latency().as_secs_f64();
        let weight = weight_of(f64::from(sample.in_flight), one_in);
        if !usable || latency <= 0.0 {
            return;
        }
        let (mean, mean_ln, behind) = self.expected(level);
        let ln = latency.ln();
        let (residual, residual_ln) = if mean > 0.0 { (latency / mean - 1.0, ln - mean_ln) } else { (0.0, 0.0) };
        if sample.outcome.is_served() {
            self.long.add(level, latency, ln, weight);
            self.short.add(level, latency, ln, weight);
            self.pair.add(sample.start, latency, f64::from(sample.in_flight.max(1)).ln(), weight);
        } else if sample.outcome.is_lower_bound() && (mean <= 0.0 || latency > mean) {
            self.long.add_waited(level, latency, weight);
            self.short.add_waited(level, latency, weight);
        } else {
            return;
        }
        self.traffic.count_latency(latency, weight);
        if behind >= 2.0 && !self.change.is_suspected() {
            self.noise.learn((latency, ln), (mean, mean_ln), behind, weight);
        }
        if behind > 0.0 && sample.start >= self.quiet_until {
            let z = if self.noise.is_heavy() { residual_ln } else { residual } / self.noise.of_fit().sqrt();
            if let Some(shift) = self.change.push(z / (1.0 + 1.0 / behind).sqrt(), weight) {
                self.forget_old(shift, sample.end);
            }
        }
    }

    /// Mean latency and mean ln latency that a level is known for, and the samples behind it; from
    /// the model where the level has none.
    fn expected(&self, level: usize) -> (f64, f64, f64) {
        let at = self.long.level(level);
        if at.weight >= 1.0 {
            return (at.sum / at.weight, at.sum_ln / at.weight, at.weight);
        }
        self.belief.map_or((0.0, 0.0, 0.0), |belief| {
            let ln = belief.ln_latency(self.scale.ln_units(level));
            (ln.exp(), ln, 4.0)
        })
    }

    /// An alarm: what is known is that of the last few mean latencies, and the unloaded latency.
    fn forget_old(&mut self, shift: Shift, now: Nanos) {
        self.long = self.short.clone();
        self.pair.restart(now);
        if shift == Shift::Slower && FREE_ON_ALARM {
            self.anchor.most = f64::INFINITY;
            self.freed = now;
        }
        if let Some(belief) = self.belief {
            let seen = self.short.mean().map_or(f64::INFINITY, |mean| mean.ln() + SEEN_SLACK);
            self.anchor.s = belief.s.min(seen);
            self.anchor.weight = KEEP;
        }
        self.rhythm.restart();
    }

    /// Fits the model to the profile; `None` while too little is known.
    fn believe(&mut self) -> Option<Belief> {
        let noise = self.noise.of_fit();
        let (lo, hi) = self.long.span((6.0 * self.noise.relative()).clamp(3.0, 60.0))?;
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
        let from = (lo - 2.0 * tolerance(lo) - 0.2).max(-0.4);
        Some(fit(&points[..n], anchor, from, hi + 1.8_f64.ln()))
    }

    /// Adds to the sums what the unfinished requests have waited since the last window. So a sum is
    /// the time spent in flight at a level, and over the answers it is the mean latency: exact for
    /// work without memory, and without the bias to short requests that come back first.
    fn count_waiting(&mut self, window: &Window<'_>) {
        let mut waited = [0.0; LEVELS];
        let (mut count, mut ages) = (0.0, 0.0);
        for level in 0..LEVELS {
            let (n, age) = window.unfinished.level(level, window.closed);
            if n == 0 {
                continue;
            }
            let age = age.as_secs_f64();
            (count, ages) = (count + f64::from(n), ages + age);
            let units = self.scale.ln_units(level).exp();
            let at = level_of(met(units.round() as u32, f64::from(window.in_flight_close)));
            let mean = self.expected(at).0;
            let mean = if mean > 0.0 { mean } else { self.traffic.beat() };
            // Work of little variance tells nothing before it is overdue.
            let share = self.noise.relative().max(2.0 * age / f64::from(n) / mean - 1.0).min(1.0);
            waited[at] += share * age * weight_of(units, window.one_in);
        }
        let mean_age = ages / f64::max(count, 1.0);
        if !self.traffic.is_after_stall(window) && !self.noise.is_heavy() {
            let mut all = 0.0;
            for level in 0..LEVELS {
                let more = waited[level] - self.waited[level];
                if more != 0.0 {
                    self.long.add_waited(level, more, 1.0);
                    self.short.add_waited(level, more, 1.0);
                    all += more;
                }
            }
            self.traffic.count_waited(all, mean_age);
        } else {
            self.traffic.count_waited(0.0, mean_age);
        }
        self.waited = waited;
    }

    /// Adds a level to a group.
    fn gather(&self, level: usize, group: &mut Group) {
        let at = self.long.level(level);
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

    /// Where the knee's headroom ends: the limit that the belief asks for.
    fn wanted(&self, belief: &Belief) -> f64 {
        let tol = match self.target {
            Some(target) => (target.as_secs_f64().ln() - belief.s).clamp(0.02, 1.4),
            None => tolerance(belief.kappa),
        };
        let hope = OPTIMISM.0 * belief.sd + (belief.sd - OPTIMISM.1).max(0.0);
        (belief.kappa + tol / belief.slope + hope).exp()
    }

    /// The limit that demand has tried out: more than this is not known to be good for anything.
    fn tried(&self) -> f64 {
        let enough = (6.0 * self.noise.relative()).clamp(3.0, 60.0);
        self.long.span(enough).map_or(f64::INFINITY, |(_, hi)| {
            let units = self.scale.ln_units(hi).exp();
            2.0 * units + 3.0 * units.sqrt()
        })
    }

    /// Moves `self.limit` after a window and says why.
    fn step(&mut self, window: &Window<'_>) -> Reason {
        let beat = self.traffic.beat();
        self.refusals.count(window, 0.5 * beat);
        match self.refusals.cut(window.closed, beat, self.limit, self.futile_share) {
            Some(Cut::Refused(to)) => return self.move_to(to, window, Reason::ShrinkThrottle),
            Some(Cut::TimedOut(to)) => return self.move_to(to, window, Reason::ShrinkOverload),
            Some(Cut::Futile(to)) => return self.move_to(to, window, Reason::HoldFutile),
            None => {}
        }
        if window.stalled {
            return Reason::HoldStalled;
        }
        self.belief = self.believe();
        let Some(belief) = self.belief else { return Reason::HoldUncertain };
        let bound = self.traffic.is_bound();
        let was_dip = self.rhythm.is_dip();
        let blind = self.spread < BLIND;
        self.rhythm.turn(window.closed, beat, bound, blind, belief.kappa);
        self.hold_baseline(window, &belief, was_dip);
        let wanted = self.wanted(&belief).min(self.tried()).max(1.0);
        let change = (wanted / self.limit).ln();
        if change < -DEAD_BAND {
            let surely = belief.kappa + tolerance(belief.kappa) / belief.slope + SURELY_LESS.1 * belief.sd;
            if !bound && surely > (SURELY_LESS.0 * self.limit).ln() && wanted < self.tried() {
                return Reason::HoldAppLimited;
            }
            if self.traffic.counted() < FIRST * self.noise.relative().clamp(0.25, 4.0) {
                return Reason::HoldUncertain;
            }
            let beats = window.duration().as_secs_f64() / beat;
            let to = wanted.max(self.limit * MOST_SHRINK.powf(beats.min(1.0)));
            return self.move_to(to, window, Reason::ShrinkLatency);
        }
        if !bound {
            return Reason::HoldAppLimited;
        }
        let waited = self.fresh
            && window.closed.since(self.moved).as_secs_f64() >= GROWTH_WAIT.0 * beat
            && self.since_move >= GROWTH_WAIT.1 * self.noise.relative();
        let to = wanted.min(MOST_GROWTH * self.limit).min(self.refusals.ceiling());
        if change > DEAD_BAND && waited && !self.rhythm.is_dip() && to > self.limit {
            return self.move_to(to, window, Reason::Grow);
        }
        Reason::Hold
    }

    /// While the limit binds, the unloaded latency may rise only by what dips have shown.
    fn hold_baseline(&mut self, window: &Window<'_>, belief: &Belief, was_dip: bool) {
        if !self.traffic.is_bound() {
            self.anchor.most = f64::INFINITY;
            return;
        }
        if self.anchor.most.is_infinite()
            && window.closed.since(self.freed).as_secs_f64() > CAP_AFTER * self.traffic.beat()
        {
            self.anchor.most = belief.s + CREEP;
        }
        if belief.strain > STRAIN && self.spread > STRAIN_SPREAD {
            self.anchor.most = belief.free + CREEP;
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

    fn move_to(&mut self, to: f64, window: &Window<'_>, reason: Reason) -> Reason {
        let change = (to / self.limit).ln();
        if change.abs() > OWN_STEP {
            self.quiet(window);
            self.pair.restart(window.closed);
        }
        self.limit = to;
        self.moved = window.closed;
        self.since_move = 0.0;
        reason
    }

    /// For two mean latencies residuals are the echo of our own step.
    fn quiet(&mut self, window: &Window<'_>) {
        self.quiet_until = window.closed + Duration::from_secs_f64((2.0 * self.traffic.beat()).min(1e6));
        self.change.reset();
    }

    fn pace(&self) -> Pace {
        let beat = Duration::from_secs_f64(self.traffic.beat().clamp(1e-6, 100.0));
        let min = (beat / 4).max(Duration::from_millis(2)).min(Duration::from_secs(5));
        let samples = (self.traffic.in_flight() / 4.0).clamp(1.0, 16.0) as u32;
        Pace { min, max: (beat / 2).max(2 * min), samples }
    }
}

impl Law for Knee {
    fn name(&self) -> &'static str {
        "knee"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        self.take_over(limit);
        self.observe(window);
        let was_dip = self.rhythm.is_dip();
        let mut reason = self.step(window);
        let tol = self.belief.map_or(0.2, |belief| tolerance(belief.kappa));
        self.said = self.rhythm.limit(self.limit, tol, self.noise.relative());
        if self.rhythm.is_dip() != was_dip {
            reason = Reason::Probe;
        }
        let belief = self.belief.unwrap_or_default();
        let inputs = Inputs::default()
            .with("unloaded_s", belief.s.exp())
            .with("knee", belief.kappa.exp())
            .with("spread", belief.sd)
            .with("latency_s", self.traffic.beat())
            .with("noise", self.noise.relative())
            .with("bound_share", self.traffic.bound())
            .with("aim", self.limit)
            .with("in_flight", self.traffic.in_flight());
        Decision { limit: self.said, reason, inputs, pace: self.pace() }
    }

    fn learned(&self) -> Learned {
        let profile = (0..self.long.end())
            .map(|level| (self.scale.ln_units(level).exp(), self.long.level(level)))
            .filter(|(_, at)| at.weight >= 1.0)
            .map(|(units, at)| (units, at.sum / at.weight))
            .collect();
        Learned {
            unloaded_latency_s: self.belief.map(|b| b.s.exp()),
            knee: self.belief.map(|b| b.kappa.exp()),
            knee_spread: self.belief.map(|b| b.sd),
            profile,
            shedding_is_futile: self.refusals.is_futile(),
        }
    }
}

/// The tolerated rise of ln latency at a knee of ln `kappa` units.
fn tolerance(kappa: f64) -> f64 {
    TOLERANCE.0 + TOLERANCE.1 * (-0.5 * kappa.max(0.0)).exp()
}

/// The level that a request met: that of its admission, unless far more came during its life. Then
/// the middle: a shared service was as slow as they made it.
fn met(admitted: u32, at_end: f64) -> u32 {
    let units = f64::from(admitted);
    if at_end > units + 3.0 * units.sqrt() { (units * at_end).sqrt().round() as u32 } else { admitted }
}

/// In flight at a moment within the window, between what it was at both ends.
fn in_flight_at(window: &Window<'_>, at: Nanos) -> f64 {
    let share = at.since(window.opened).as_secs_f64() / window.duration().as_secs_f64().max(1e-9);
    let (open, close) = (f64::from(window.in_flight_open), f64::from(window.in_flight_close));
    open + (close - open) * share.clamp(0.0, 1.0)
}

/// Of the samples that one mean latency brings at `units` in flight, at most some are independent.
fn weight_of(units: f64, one_in: u32) -> f64 {
    (INDEPENDENT * f64::from(one_in) / units.max(1.0)).min(1.0)
}
