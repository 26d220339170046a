//! What a window teaches: samples into the profiles, residuals into the alarm, waiting into the sums.
//!
//! Decides when an alarm makes the law forget, and nothing else. Invariant: throttles, faults and
//! requests that waited through a stall leave no trace in a latency.

use super::Knee;
use super::change::Shift;
use super::profile::Curve;
use crate::time::Nanos;
use crate::window::{LEVELS, Sample, Window, level_of};

/// Long memory: so many mean latencies or samples, whichever is longer.
const LONG: (f64, f64) = (60.0, 400.0);
/// Short memory, all that is kept after an alarm.
const SHORT: (f64, f64) = (3.0, 40.0);
/// At most so many samples a mean latency are independent.
const INDEPENDENT: f64 = 24.0;
/// After an alarm, the old unloaded latency counts as so many samples, or as many as there were.
const KEEP: f64 = 25.0;
/// After an alarm for slower, the unloaded latency may rise by this (log) while the limit binds.
const LEEWAY: f64 = 0.1;
/// After an alarm the unloaded latency is at most what is seen now, with this slack (log).
const SEEN_SLACK: f64 = 0.15;

impl Knee {
    /// Takes in what the window brings.
    pub(super) fn observe(&mut self, window: &Window<'_>) {
        let before = self.traffic.counted();
        self.life.observe(window);
        for sample in window.samples {
            self.observe_sample(sample, window);
        }
        self.sharing.judge(self.noise.relative());
        self.traffic.observe(window);
        let counted = self.traffic.counted() - before;
        self.since_move += counted;
        self.fresh = counted > 0.0;
        let beats = window.duration().as_secs_f64() / self.traffic.beat().max(1e-9);
        let slow = self.noise.relative().max(1.0);
        let kept = |memory: (f64, f64)| (-(beats / memory.0).min(counted / memory.1) / slow).exp();
        for curve in &mut self.curves {
            curve.long.forget(kept(LONG));
            curve.short.forget(kept(SHORT));
        }
        self.pair.forget(kept(SHORT));
        self.count_waiting(window);
        self.anchor.weight *= kept(LONG);
    }

    fn observe_sample(&mut self, sample: &Sample, window: &Window<'_>) {
        let usable = self.traffic.follow(sample, window.one_in);
        let latency = sample.latency().as_secs_f64();
        let weight = weight_of(f64::from(sample.in_flight), window.one_in);
        if !usable || latency <= 0.0 {
            return;
        }
        let by_met = met(sample.in_flight, in_flight_at(window, sample.end));
        let by_life = self.life.mean(f64::from(sample.in_flight), sample.start, sample.end).max(1.0);
        let levels = [level_of(by_met), level_of(by_life.round() as u32)];
        let (mean, mean_ln, behind) = self.expected(levels[usize::from(self.sharing.is_shared())]);
        let ln = latency.ln();
        let (residual, residual_ln) = if mean > 0.0 { (latency / mean - 1.0, ln - mean_ln) } else { (0.0, 0.0) };
        if sample.outcome.is_latency() {
            self.sharing.add(f64::from(sample.in_flight.max(1)).ln(), by_life.ln(), ln, weight);
            self.curves.iter_mut().zip(levels).for_each(|(curve, level)| curve.add(level, latency, ln, weight));
            self.pair.add(sample.start, latency, f64::from(sample.in_flight.max(1)).ln(), weight);
        } else if sample.outcome.is_lower_bound() && (mean <= 0.0 || latency > mean) {
            self.curves.iter_mut().zip(levels).for_each(|(curve, level)| curve.add_waited(level, latency, weight));
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

    /// The curve that is believed: by the number met, or by the mean number during the life.
    pub(super) fn curve(&self) -> &Curve {
        &self.curves[usize::from(self.sharing.is_shared())]
    }

    /// Mean latency and mean ln latency that a level is known for, and the samples behind it; from
    /// the model where the level has none.
    pub(super) fn expected(&self, level: usize) -> (f64, f64, f64) {
        let at = self.curve().long.level(level);
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
        let known = self.curve().long.weight();
        for curve in &mut self.curves {
            curve.long = curve.short.clone();
        }
        self.pair.restart(now);
        if shift == Shift::Slower {
            self.anchor.most += LEEWAY;
        }
        if let Some(belief) = self.belief {
            let seen = self.curve().short.mean().map_or(f64::INFINITY, |mean| mean.ln() + SEEN_SLACK);
            self.anchor.s = belief.s.min(seen);
            self.anchor.weight = KEEP.min(known);
        }
        self.rhythm.restart();
        self.stirred = now;
    }

    /// Adds to the sums what the unfinished requests have waited since the last window. So a sum is
    /// the time spent in flight at a level, and over the answers it is the mean latency: exact for
    /// work without memory, and without the bias to short requests that come back first.
    fn count_waiting(&mut self, window: &Window<'_>) {
        let mut waited = [[0.0; LEVELS]; 2];
        let (mut count, mut ages) = (0.0, 0.0);
        for level in 0..LEVELS {
            let (n, age) = window.unfinished.level(level, window.closed);
            if n == 0 {
                continue;
            }
            let age = age.as_secs_f64();
            (count, ages) = (count + f64::from(n), ages + age);
            let units = self.scale.ln_units(level).exp();
            let by_met = met(units.round() as u32, f64::from(window.in_flight_close));
            let start = Nanos(window.closed.0.saturating_sub((age / f64::from(n) * 1e9) as u64));
            let by_life = self.life.mean(units, start, window.closed).max(1.0);
            let at = [level_of(by_met), level_of(by_life.round() as u32)];
            let mean = self.expected(at[usize::from(self.sharing.is_shared())]).0;
            let mean = if mean > 0.0 { mean } else { self.traffic.beat() };
            // Work of little variance tells nothing before it is overdue.
            let late = 2.0 * age / f64::from(n) / mean - 1.0;
            let share = self.noise.relative().max(late).min(1.0);
            let weight = weight_of(units, window.one_in);
            for (waited, at) in waited.iter_mut().zip(at) {
                waited[at] += share * age * weight;
            }
        }
        let mean_age = ages / f64::max(count, 1.0);
        let usable = !self.traffic.is_after_stall(window) && !self.noise.is_heavy();
        let mut all = 0.0;
        for (which, (curve, waited)) in self.curves.iter_mut().zip(waited).enumerate() {
            let before = std::mem::replace(&mut curve.waited, waited);
            for (level, (new, old)) in waited.into_iter().zip(before).enumerate() {
                let more = new - old;
                if usable && more != 0.0 {
                    curve.add_waited(level, more, 1.0);
                    all += if which == 0 { more } else { 0.0 };
                }
            }
        }
        self.traffic.count_waited(all, mean_age);
    }
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
pub(super) fn weight_of(units: f64, one_in: u32) -> f64 {
    (INDEPENDENT * f64::from(one_in) / units.max(1.0)).min(1.0)
}
