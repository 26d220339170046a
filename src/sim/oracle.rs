//! The oracle: the best static limit of every phase, found by sweep on the same seeds.
//!
//! A coarse grid over all limits, the best of it for each phase, then finer steps around each
//! phase's best. What counts is the number of requests answered within the SLO. Its result can be
//! kept as JSON; the key changes whenever scenario, seed or the engine does.

use serde::{Deserialize, Serialize};

use super::engine::{Policy, run};
use super::measure::Measure;
use super::scenario::Scenario;

/// Changes whenever the engine gives other results for the same scenario and seed.
pub const ENGINE_VERSION: u32 = 2;

/// Seeds on which the limits are found.
const TUNED_ON: [u64; 3] = [1, 2, 3];
/// Neighbouring limits of the coarse grid.
const COARSE: f64 = 1.414;
/// Then, around the best: steps up and down.
const FINER: [f64; 4] = [1.19, 1.09, 1.09, 1.045];

/// The best static limits of a scenario, one for each phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits(pub Vec<u32>);

/// What the best static limits reach with one seed: all that a score needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// 99th percentile of the latency, in seconds.
    pub p99: f64,
    /// By phase.
    pub phases: Vec<ReachedPhase>,
}

/// One phase of [`Reached`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReachedPhase {
    /// Mean latency of the answered, in seconds.
    pub mean_latency: f64,
    /// Good answers, by slice.
    pub good: Vec<u32>,
    /// Turned away, or refused or failed by the downstream, by slice.
    pub lost: Vec<u32>,
}

impl Reached {
    /// The part of a run that a score needs.
    pub fn of(measure: &Measure) -> Self {
        let phases = measure.phases.iter().map(|phase| ReachedPhase {
            mean_latency: phase.mean_latency(),
            good: phase.slices.iter().map(|s| s.good).collect(),
            lost: phase.slices.iter().map(|s| s.turned_away + s.failed).collect(),
        });
        Self { p99: measure.latencies.quantile(0.99), phases: phases.collect() }
    }

    /// Good answers in all.
    pub fn good(&self) -> u64 {
        self.phases.iter().flat_map(|p| &p.good).map(|n| u64::from(*n)).sum()
    }
}

/// Finds the best static limits.
pub fn find(scenario: &Scenario) -> Limits {
    let mut best = coarse(scenario);
    let mut good = goods(scenario, &best, &TUNED_ON);
    for step in FINER {
        for up in [true, false] {
            let tried: Vec<u32> = best.iter().map(|limit| neighbour(*limit, step, up, scenario)).collect();
            let got = goods(scenario, &tried, &TUNED_ON);
            let mixed: Vec<u32> = (0..best.len()).map(|i| if got[i] > good[i] { tried[i] } else { best[i] }).collect();
            if mixed == best {
                continue;
            }
            // Phases leak into each other: a mix is kept only when it really is better.
            let got = if mixed == tried { got } else { goods(scenario, &mixed, &TUNED_ON) };
            if got.iter().sum::<u64>() > good.iter().sum::<u64>() {
                (best, good) = (mixed, got);
            }
        }
    }
    Limits(best)
}

/// What those limits reach with one seed.
pub fn reach(scenario: &Scenario, limits: &Limits, seed: u64) -> Reached {
    Reached::of(&run(scenario, &Policy::Static(&limits.0), seed).measure)
}

/// Under which name a result for one seed (or for all, `seed` 0) is kept.
pub fn key(scenario: &Scenario, seed: u64) -> String {
    // FNV-1a: stable over versions of Rust, which std's hashers are not.
    let text = format!("{ENGINE_VERSION} {seed} {}", scenario.fingerprint());
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    format!("{hash:016x}")
}

/// Good answers by phase, over all those seeds.
fn goods(scenario: &Scenario, limits: &[u32], seeds: &[u64]) -> Vec<u64> {
    let mut sums = vec![0; limits.len()];
    for seed in seeds {
        let measure = run(scenario, &Policy::Static(limits), *seed).measure;
        for (sum, phase) in sums.iter_mut().zip(&measure.phases) {
            *sum += phase.good();
        }
    }
    sums
}

fn coarse(scenario: &Scenario) -> Vec<u32> {
    let phases = scenario.phases.len();
    let (mut best, mut most) = (vec![1; phases], vec![0; phases]);
    let mut last = Vec::new();
    let mut limit = 1.0_f64;
    let mut worse = 0;
    while limit <= f64::from(scenario.limiter.max) && worse < 4 {
        let whole = limit.round() as u32;
        let got = goods(scenario, &vec![whole; phases], &TUNED_ON[..1]);
        let falls = got.iter().zip(&most).all(|(got, most)| (*got as f64) < 0.9 * *most as f64);
        worse = if falls || got == last { worse + 1 } else { 0 };
        for i in 0..phases {
            if got[i] > most[i] {
                (best[i], most[i]) = (whole, got[i]);
            }
        }
        last = got;
        limit = (limit * COARSE).max(limit + 1.0);
    }
    best
}

fn neighbour(limit: u32, step: f64, up: bool, scenario: &Scenario) -> u32 {
    let (near, far) = (f64::from(limit), f64::from(limit) * if up { step } else { 1.0 / step });
    let moved = if up { far.round().max(near + 1.0) } else { far.round().min(near - 1.0) };
    (moved.max(1.0) as u32).clamp(1, scenario.limiter.max)
}
