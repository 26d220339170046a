//! `knee`: the default law. It learns how latency depends on the requests in flight, and keeps the
//! limit a little past the point where latency begins to rise.
//!
//! Every served request is one observation: the number in flight that it met, and its latency. The pieces, each in a file of its own:
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
//! - `pair`: what dips say together: is it a queue, or does the service take that long? While the
//!   limit binds, only their verdict (or levels that lie far apart) may raise the unloaded latency:
//!   a standing queue never becomes the baseline.
//! - `life`, `sharing`: where a service is shared by all, latency depends on the mean number in flight
//!   during a request's life and not on the one it met; which of the two it is, the samples say.
//! - `noise`, `traffic`: how much latency varies; the mean latency (the *beat*, the unit of all
//!   waiting times), stalls, and whether the limit is what binds.
//!
//! The limit is where the modelled latency has risen by `tol = 0.1 + 0.8 / sqrt(knee)`: a small
//! downstream needs relatively more in flight to stay busy. It grows only while it binds, by at
//! most twofold at a time. All constants are in samples, variances or mean latencies, so the law
//! is the same at 5 requests a second and at 50,000.

mod believe;
mod change;
mod learn;
mod life;
mod noise;
mod pair;
mod posterior;
mod profile;
mod refusals;
mod rhythm;
mod sharing;
mod traffic;

use std::time::Duration;

use self::change::Change;
use self::life::Life;
use self::noise::Noise;
use self::pair::Pair;
use self::posterior::{Anchor, Belief};
use self::profile::{Curve, Scale};
use self::refusals::{Cut, Refusals};
use self::rhythm::Rhythm;
use self::sharing::Sharing;
use self::traffic::Traffic;
use super::{Decision, Inputs, Law, Learned, Reason};
use crate::time::Nanos;
use crate::window::{Pace, Window};

/// The tolerated rise: `TOLERANCE.0 + TOLERANCE.1 / sqrt(knee)`, in log latency.
const TOLERANCE: (f64, f64) = (0.1, 0.8);
/// Optimism: so many standard deviations of the knee, and all above the second number.
const OPTIMISM: (f64, f64) = (0.3, 0.3);
/// Growth: at most by this factor, after so many mean latencies and samples (times the variance).
const MOST_GROWTH: f64 = 2.0;
const GROWTH_WAIT: (f64, f64) = (1.0, 4.0);
/// Shrinking: at most by this factor a mean latency.
const MOST_SHRINK: f64 = 0.6;
/// Latency cuts what is likely too much from so many samples on, times the variance, and before
/// that, from a few on, only what is surely too much.
const FIRST: f64 = 12.0;
const FEW: f64 = 4.0;
/// Surely too much: so many standard deviations above the headroom of the knee. What is beyond the
/// second number goes at once, however deep the cut.
const TOO_MUCH: f64 = 2.0;
const FAR_TOO_MUCH: f64 = 3.0;
/// A step of the limit larger than this (log) hides changes of the downstream for two mean latencies.
const OWN_STEP: f64 = 0.1;
/// Dips are only needed while all samples lie within so much (log).
const BLIND: f64 = 0.8;
/// Units that are left beyond twice the level in use: a burst on light traffic is no reason to shed.
const SPARE: f64 = 4.0;
/// Calm: nothing happened for so many mean latencies.
const CALM: u32 = 10;
/// Smaller moves are left undone.
const DEAD_BAND: f64 = 0.02;
/// Without demand the limit only falls, when the knee's headroom lies below this share of it at
/// this many standard deviations.
const SURELY_LESS: (f64, f64) = (0.86, 1.645);

/// The default law; `docs/law.md` explains it.
#[derive(Clone, Debug)]
pub struct Knee {
    target: Option<Duration>,
    cap: Option<Duration>,
    futile_share: f64,
    scale: Scale,
    /// By the number in flight that a request met, and by the mean number during its life.
    curves: [Curve; 2],
    sharing: Sharing,
    noise: Noise,
    change: Change,
    traffic: Traffic,
    life: Life,
    refusals: Refusals,
    rhythm: Rhythm,
    pair: Pair,
    anchor: Anchor,
    /// When the first window was opened.
    started: Nanos,
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
    /// When something last happened: a large step, an alarm, a dip.
    stirred: Nanos,
}

impl Default for Knee {
    fn default() -> Self {
        Self {
            target: None,
            cap: None,
            futile_share: 0.1,
            scale: Scale::new(),
            curves: [Curve::new(), Curve::new()],
            sharing: Sharing::default(),
            noise: Noise::new(),
            change: Change::default(),
            traffic: Traffic::new(),
            life: Life::new(),
            refusals: Refusals::new(),
            rhythm: Rhythm::new(),
            pair: Pair::default(),
            started: Nanos(0),
            spread: 0.0,
            anchor: Anchor { s: 0.0, weight: 0.0, most: f64::INFINITY },
            belief: None,
            limit: f64::NAN,
            said: f64::NAN,
            moved: Nanos(0),
            since_move: 0.0,
            fresh: false,
            quiet_until: Nanos(0),
            stirred: Nanos(0),
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
        let enough = self.enough();
        self.curve().long.span(enough).map_or(f64::INFINITY, |(_, hi)| {
            let units = self.scale.ln_units(hi).exp();
            2.0 * units + 3.0 * units.sqrt() + SPARE
        })
    }

    /// Moves `self.limit` after a window and says why.
    fn step(&mut self, window: &Window<'_>) -> Reason {
        let beat = self.traffic.beat();
        self.refusals.count(window, 0.5 * beat);
        let in_flight = self.life.mean_since(self.refusals.since());
        match self.refusals.cut(window.closed, beat, self.limit, self.futile_share, in_flight) {
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
            let at_most = |sds: f64| (belief.kappa + tolerance(belief.kappa) / belief.slope + sds * belief.sd).exp();
            if !bound && at_most(SURELY_LESS.1) > SURELY_LESS.0 * self.limit && wanted < self.tried() {
                return Reason::HoldAppLimited;
            }
            let counted = self.traffic.counted();
            let early = counted < FIRST * self.noise.relative().clamp(0.25, 4.0);
            if early && (counted < FEW || at_most(TOO_MUCH) > self.limit) {
                return Reason::HoldUncertain;
            }
            let least = if early { wanted.max(at_most(TOO_MUCH)) } else { wanted };
            let beats = window.duration().as_secs_f64() / beat;
            let slowly = self.limit * MOST_SHRINK.powf(beats.min(1.0));
            let to = slowly.min(at_most(FAR_TOO_MUCH)).max(least);
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

    fn move_to(&mut self, to: f64, window: &Window<'_>, reason: Reason) -> Reason {
        let change = (to / self.limit).ln();
        if change.abs() > OWN_STEP {
            self.quiet(window);
            self.stirred = window.closed;
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

    /// Short windows while something is going on, longer ones while nothing does.
    fn pace(&self, now: Nanos) -> Pace {
        let beat = Duration::from_secs_f64(self.traffic.beat().clamp(1e-6, 100.0));
        let calm = now.since(self.stirred) > CALM * beat;
        let (share, least) = if calm { (2, Duration::from_millis(5)) } else { (4, Duration::from_millis(2)) };
        let min = (beat / share).max(least).min(Duration::from_secs(5));
        let samples = (self.traffic.in_flight() / 4.0).clamp(1.0, 16.0) as u32;
        Pace { min, max: (beat / 2).max(2 * min), samples }
    }
}

impl Law for Knee {
    fn name(&self) -> &'static str {
        "knee"
    }

    fn decide(&mut self, limit: f64, window: &Window<'_>) -> Decision {
        if self.limit.is_nan() {
            self.started = window.opened;
        }
        self.take_over(limit);
        self.observe(window);
        let was_dip = self.rhythm.is_dip();
        let mut reason = self.step(window);
        let tol = self.belief.map_or(0.2, |belief| tolerance(belief.kappa));
        self.said = self.rhythm.limit(self.limit, tol, self.noise.relative());
        if self.rhythm.is_dip() != was_dip {
            reason = Reason::Probe;
            self.stirred = window.closed;
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
        Decision { limit: self.said, reason, inputs, pace: self.pace(window.closed) }
    }

    fn learned(&self) -> Learned {
        let profile = (0..self.curve().long.end())
            .map(|level| (self.scale.ln_units(level).exp(), self.curve().long.level(level)))
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
