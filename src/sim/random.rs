//! Random scenarios: the same seed gives the same ones.
//!
//! Busy: capacities of 4 to 400, 1 ms to 3 s of work, loads of 0.6 to 3 times the capacity, up to
//! two changes. Low: 5 to 300 answers a second, 3 to 30 workers, phases of 10 to 30 s, from initial
//! limits 5, 20 and 100.

use super::rng::Rng;
use super::scenario::{Demand, Downstream, PhaseSpec, Scenario};

/// Which kind of random scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Many answers a second.
    Busy,
    /// Few.
    Low,
}

impl Kind {
    /// The kind of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "busy" => Some(Kind::Busy),
            "low" => Some(Kind::Low),
            _ => None,
        }
    }
}

/// Scenario number `index` of a seed.
pub fn scenario(kind: Kind, seed: u64, index: u64) -> Scenario {
    let stream = index * 2 + u64::from(kind == Kind::Low);
    let mut rng = Rng::new(seed ^ 0x7469_6465, stream);
    match kind {
        Kind::Busy => busy(&mut rng, index),
        Kind::Low => low(&mut rng, index),
    }
}

fn busy(rng: &mut Rng, index: u64) -> Scenario {
    let workers = rng.log_between(4.0, 400.0).round();
    let service_s = rng.log_between(0.001, 3.0);
    let mut scenario = start(rng, "busy", index, service_s, workers);
    // Long enough for some thousand answers, short enough to be run by the hundred.
    let base = PhaseSpec { seconds: 1.0, workers: Some(workers), ..PhaseSpec::default() };
    scenario.phases = vec![base];
    let capacity = scenario.capacity(0);
    let answers = rng.between(8_000.0, 30_000.0);
    let seconds = (answers / capacity).max(60.0 * service_s);
    let load = rng.between(0.6, 3.0);
    scenario.phases[0].seconds = seconds;
    scenario.phases[0].rate = Some(load * capacity);
    for _ in 0..rng.below(3) {
        change(rng, &mut scenario, false);
    }
    scenario
}

fn low(rng: &mut Rng, index: u64) -> Scenario {
    let workers = rng.log_between(3.0, 30.0).round();
    let answers = rng.log_between(5.0, 300.0);
    let mut scenario = start(rng, "low", index, workers / answers, workers);
    let base = PhaseSpec { seconds: 1.0, workers: Some(workers), ..PhaseSpec::default() };
    scenario.phases = vec![base];
    // Work that gives that many answers a second whatever the kind of downstream.
    let service_s = scenario.service_s * scenario.capacity(0) / answers;
    scenario.service_s = service_s;
    scenario.phases[0].seconds = rng.between(10.0, 30.0);
    scenario.phases[0].rate = Some(rng.between(0.5, 2.5) * answers);
    for _ in 0..1 + rng.below(2) {
        change(rng, &mut scenario, true);
    }
    scenario.limiter.initial = vec![5.0, 20.0, 100.0];
    scenario
}

fn start(rng: &mut Rng, name: &str, index: u64, service_s: f64, workers: f64) -> Scenario {
    let demand = match rng.below(6) {
        0 => Demand::Constant,
        1 | 2 => Demand::Exponential,
        3 => Demand::Lognormal { cv: 0.5 },
        4 => Demand::Lognormal { cv: 1.0 },
        _ => Demand::Bimodal { long_share: 0.05, ratio: rng.between(5.0, 50.0) },
    };
    let downstream = match rng.below(10) {
        0..=3 => Downstream::Fifo { backlog: None },
        4..=6 => Downstream::Ps,
        7 | 8 => Downstream::Batch { slow: rng.between(0.2, 1.2) / workers, past: 2.0 },
        _ => {
            let contention = rng.between(0.2, 1.0) / workers;
            Downstream::Usl { contention, coherence: rng.between(0.3, 1.5) / (workers * workers) }
        }
    };
    let mut scenario = Scenario::bare(&format!("{name}_{index}"), service_s, demand, downstream);
    scenario.set = format!("random {name}");
    let soft = matches!(downstream, Downstream::Batch { .. } | Downstream::Usl { .. });
    if soft {
        scenario = scenario.within(Some(5.0 * service_s), None);
    }
    scenario
}

/// Adds a phase in which one thing is different.
fn change(rng: &mut Rng, scenario: &mut Scenario, low: bool) {
    let Some(before) = scenario.phases.last().cloned() else { return };
    let mut phase = before;
    if low {
        phase.seconds = rng.between(10.0, 30.0);
    }
    let fifo = matches!(scenario.downstream, Downstream::Fifo { .. } | Downstream::Ps);
    match rng.below(if low && fifo { 5 } else { 4 }) {
        0 => phase.workers = phase.workers.map(|workers| (workers * rng.between(0.25, 1.0)).round().max(1.0)),
        1 => phase.work *= rng.log_between(1.0 / 3.0, 2.0),
        2 => phase.rate = phase.rate.map(|rate| rate * rng.log_between(0.4, 2.5)),
        3 => phase.errors = rng.between(0.05, 0.5),
        _ => phase.quota = Some(scenario.capacity(scenario.phases.len() - 1) * rng.between(0.2, 0.8)),
    }
    scenario.phases.push(phase);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_one_can_be_run_and_comes_again() {
        for kind in [Kind::Busy, Kind::Low] {
            for index in 0..300 {
                let made = scenario(kind, 9, index);
                made.check().expect("valid");
                assert_eq!(made.fingerprint(), scenario(kind, 9, index).fingerprint());
            }
        }
    }
}
