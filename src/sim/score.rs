//! Scores: a law's run against the oracle's on the same seed. Definitions in `docs/simulator.md`.

use super::measure::{Measure, PhaseMeasure, Slice};
use super::oracle::{Reached, ReachedPhase};
use super::scenario::Scenario;

/// How a law did in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Requests answered within the SLO, share of the oracle's.
    pub goodput: f64,
    /// 99th percentile of the latency, share of the oracle's; who gave up counts with the time-out.
    pub p99: f64,
    /// Mean over the phases of the time until goodput is back, in seconds.
    pub settle_s: f64,
    /// The same in mean latencies of the oracle.
    pub settle_latencies: f64,
    /// Turned away beyond what the oracle turned away or let fail, share of the tries.
    pub needless: f64,
    /// Share of tries turned away in calm phases after their warm-up.
    pub calm_shed: f64,
    /// Jain's index of the limiters' answers from the second minute on (or the last third, if that is
    /// sooner); 1 with a single limiter.
    pub jain: f64,
}

/// Settled: over so many slices ...
const SETTLED_SLICES: usize = 3;
/// ... goodput is at least this share of the oracle's ...
const SETTLED_SHARE: f64 = 0.9;
/// ... and at least this over the rest of the phase, so that a good beginning is not enough.
const LASTING_SHARE: f64 = 0.8;
/// Needless rejections are summed up over such parts of a phase.
const PARTS: usize = 10;
/// Calm: less load than this share of the capacity.
const CALM: f64 = 0.6;
/// The first part of a calm phase is warm-up.
const WARM_UP: f64 = 0.2;

impl Score {
    /// Scores `measure` against what the oracle `reached` with the same seed.
    pub fn of(scenario: &Scenario, measure: &Measure, reached: &Reached) -> Self {
        let pairs = || measure.phases.iter().zip(&reached.phases);
        let steps = pairs().count() as f64;
        let settle = |(law, oracle): (&PhaseMeasure, &ReachedPhase)| settling(law, oracle);
        let latencies = |(law, oracle): (&PhaseMeasure, &ReachedPhase)| {
            settling(law, oracle) / oracle.mean_latency.max(scenario.service_s * 0.1)
        };
        let tries = measure.sum(|s| s.tries) as f64;
        let needless: f64 = pairs().map(|(law, oracle)| needless(law, oracle)).sum();
        let whole = scenario.seconds();
        Self {
            goodput: measure.good() as f64 / (reached.good() as f64).max(1.0),
            p99: measure.latencies.quantile(0.99) / reached.p99.max(1e-9),
            settle_s: pairs().map(settle).sum::<f64>() / steps,
            settle_latencies: pairs().map(latencies).sum::<f64>() / steps,
            needless: needless / tries.max(1.0),
            calm_shed: calm_shed(scenario, measure),
            jain: measure.jain((whole * 2.0 / 3.0).min(60.0), whole),
        }
    }
}

/// From the phase's beginning to the first slices in which goodput is that of the oracle again.
fn settling(law: &PhaseMeasure, oracle: &ReachedPhase) -> f64 {
    let good: Vec<f64> = law.slices.iter().map(|s| f64::from(s.good)).collect();
    let is_good = |at: usize, end: usize, share: f64| {
        let want: f64 = oracle.good[at..end].iter().map(|n| f64::from(*n)).sum();
        good[at..end].iter().sum::<f64>() >= share * want
    };
    let all = good.len();
    let settled = (0..all)
        .find(|at| is_good(*at, (at + SETTLED_SLICES).min(all), SETTLED_SHARE) && is_good(*at, all, LASTING_SHARE));
    settled.unwrap_or(all) as f64 * law.slice_s
}

/// Requests that the law turned away and the oracle would have had answered, part by part.
///
/// What the oracle admits only to have it refused downstream (over a quota, say) is no loss when
/// the law turns it away: its failures count like its rejections.
fn needless(law: &PhaseMeasure, oracle: &ReachedPhase) -> f64 {
    let part = law.slices.len().div_ceil(PARTS);
    let ours = law.slices.chunks(part).map(|slices| {
        let sum = |count: fn(&Slice) -> u32| slices.iter().map(|s| f64::from(count(s))).sum::<f64>();
        (sum(|s| s.turned_away), sum(|s| s.turned_away + s.failed))
    });
    let theirs = oracle.lost.chunks(part).map(|slices| slices.iter().map(|n| f64::from(*n)).sum::<f64>());
    ours.zip(theirs).map(|((turned_away, lost), theirs)| (lost - theirs).clamp(0.0, turned_away)).sum()
}

/// Whether a phase has so little load, and no trouble, that nothing needs to be shed.
fn is_calm(scenario: &Scenario, phase: usize) -> bool {
    let spec = &scenario.phases[phase];
    let rate = spec.rate.unwrap_or(f64::INFINITY).max(spec.rate_end.unwrap_or(0.0));
    let rate = rate * spec.burst.map_or(1.0, |burst| burst.factor.max(1.0));
    rate < CALM * scenario.capacity(phase) && spec.stop.is_none() && spec.errors == 0.0 && spec.work_growth == 0.0
}

fn calm_shed(scenario: &Scenario, measure: &Measure) -> f64 {
    let calm = measure.phases.iter().enumerate().filter(|(i, _)| is_calm(scenario, *i));
    let (mut shed, mut tries) = (0.0, 0.0);
    for (_, phase) in calm {
        let warm = (phase.slices.len() as f64 * WARM_UP).ceil() as usize;
        for slice in phase.slices.iter().skip(warm) {
            shed += f64::from(slice.turned_away);
            tries += f64::from(slice.tries);
        }
    }
    if tries > 0.0 { shed / tries } else { 0.0 }
}
