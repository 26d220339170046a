//! Behaviour of the default law that needs a downstream: real failures of adaptive limiters, each
//! played in the simulator. Whole behaviours, not figures to a percent: those are in the scenarios.

use tidegate::law::{Knee, Law, Reason};
use tidegate::sim::engine::{Outcomes, Policy, run};
use tidegate::sim::measure::Slice;
use tidegate::sim::scenario::Scenario;

fn play_from(initial: f64, text: &str) -> Outcomes {
    let scenario = Scenario::parse("case", text).expect("a valid scenario");
    let law = || -> Box<dyn Law> { Box::new(Knee::default()) };
    run(&scenario, &Policy::Law { law: &law, initial: &[initial] }, 3)
}

fn play(text: &str) -> Outcomes {
    play_from(20.0, text)
}

fn slices(outcomes: &Outcomes, phase: usize) -> &[Slice] {
    &outcomes.measure.phases[phase].slices
}

/// The slices of a phase after the share `from` of it.
fn after(outcomes: &Outcomes, phase: usize, from: f64) -> &[Slice] {
    let all = slices(outcomes, phase);
    &all[(all.len() as f64 * from) as usize..]
}

fn sum(slices: &[Slice], of: impl Fn(&Slice) -> u32) -> f64 {
    slices.iter().map(|s| f64::from(of(s))).sum()
}

/// Share of the tries that were turned away.
fn shed(slices: &[Slice]) -> f64 {
    sum(slices, |s| s.turned_away) / sum(slices, |s| s.tries).max(1.0)
}

fn unloaded(outcomes: &Outcomes) -> f64 {
    outcomes.controls[0].learned().unloaded_latency_s.expect("learned")
}

#[test]
fn fast_refusals_do_not_teach_the_latency_and_the_limit_comes_back() {
    let outcomes = play(
        "service_s = 0.1\nfast_s = 0.001\ndemand = { kind = \"lognormal\", cv = 0.3 }\ndownstream = { kind = \"delay\" }\n\
         [[phase]]\nseconds = 30\nrate = 200\nquota = 1000\n[[phase]]\nseconds = 30\nquota = 100\n\
         [[phase]]\nseconds = 30\nquota = 1000\n",
    );
    assert!((0.08..0.14).contains(&unloaded(&outcomes)), "{}", unloaded(&outcomes));
    assert!(shed(after(&outcomes, 2, 0.5)) < 0.02, "{}", shed(after(&outcomes, 2, 0.5)));
}

#[test]
fn a_service_that_became_slower_for_good_is_served_again() {
    let outcomes = play(
        "service_s = 0.02\nslo_s = 0.3\ndownstream = { kind = \"ps\" }\n\
         [[phase]]\nseconds = 60\nrate = 830\nworkers = 60\n[[phase]]\nseconds = 60\nwork = 3\nworkers = 60\n",
    );
    assert!(shed(after(&outcomes, 1, 0.5)) < 0.05, "{}", shed(after(&outcomes, 1, 0.5)));
}

#[test]
fn mild_overload_does_not_make_the_limit_creep_up() {
    let outcomes = play_from(
        100.0,
        "service_s = 0.02\ndownstream = { kind = \"ps\" }\n[[phase]]\nseconds = 120\nrate = 2000\nworkers = 32\n",
    );
    let limits: Vec<f64> = slices(&outcomes, 0).iter().map(|s| f64::from(s.limit)).collect();
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (middle, end) = (mean(&limits[limits.len() / 3..limits.len() / 2]), mean(&limits[limits.len() * 5 / 6..]));
    assert!(end < 1.5 * middle && end < 100.0, "{middle} to {end}");
}

#[test]
fn mixed_work_leaves_the_floor_after_an_overload() {
    let outcomes = play(
        "service_s = 0.05\nslo_s = 0.5\ndemand = { kind = \"bimodal\", long_share = 0.02, ratio = 100 }\n\
         downstream = { kind = \"fifo\" }\n\
         [[phase]]\nseconds = 60\nrate = 4000\nworkers = 20\n[[phase]]\nseconds = 120\nrate = 150\n",
    );
    assert!(shed(after(&outcomes, 1, 0.5)) < 0.02, "{}", shed(after(&outcomes, 1, 0.5)));
}

#[test]
fn impatient_callers_do_not_shrink_the_limit() {
    let outcomes = play(
        "service_s = 0.2\ndemand = { kind = \"lognormal\", cv = 0.1 }\ndownstream = { kind = \"ps\" }\n\
         [clients]\ncancel_share = 0.4\ncancel_after_s = 0.05\n\
         [[phase]]\nseconds = 60\nrate = 100\nworkers = 100\n",
    );
    assert!(shed(after(&outcomes, 0, 0.3)) < 0.01, "{}", shed(after(&outcomes, 0, 0.3)));
}

#[test]
fn a_limit_that_is_not_used_does_not_grow_and_a_burst_is_met() {
    let outcomes = play(
        "service_s = 0.02\ndownstream = { kind = \"fifo\" }\n\
         [[phase]]\nseconds = 120\nrate = 100\nworkers = 30\n[[phase]]\nseconds = 10\nrate = 4000\n",
    );
    assert!(slices(&outcomes, 0).iter().all(|s| s.limit <= 21));
    let late = after(&outcomes, 1, 0.3);
    assert!(late.iter().filter(|s| s.limit > 60).count() * 10 < late.len());
}

#[test]
fn bursts_with_idle_time_between_get_their_throughput() {
    let outcomes = play(
        "service_s = 0.03\nslo_s = 0.2\ndemand = { kind = \"lognormal\", cv = 0.8 }\ndownstream = { kind = \"fifo\" }\n\
         [[phase]]\nseconds = 100\nrate = 2500\nworkers = 100\nburst = { every_s = 5, share = 0.8, factor = 0.0001 }\n",
    );
    let late = after(&outcomes, 0, 0.2);
    assert!(sum(late, |s| s.good) > 0.7 * sum(late, |s| s.arrivals));
}

#[test]
fn light_traffic_meets_no_dip() {
    let outcomes =
        play("service_s = 0.02\ndownstream = { kind = \"fifo\" }\n[[phase]]\nseconds = 300\nrate = 30\nworkers = 20\n");
    assert_eq!(sum(slices(&outcomes, 0), |s| s.reasons[Reason::Probe.index()]), 0.0);
    assert!(shed(slices(&outcomes, 0)) < 0.002, "{}", shed(slices(&outcomes, 0)));
}

#[test]
fn a_pause_downstream_is_over_when_it_is_over() {
    let outcomes = play(
        "service_s = 0.005\nslo_s = 0.05\ntimeout_s = 1\ndownstream = { kind = \"fifo\" }\n\
         [[phase]]\nseconds = 60\nrate = 1500\nworkers = 20\nstop = { every_s = 10, for_s = 0.2 }\n",
    );
    let late = after(&outcomes, 0, 0.2);
    assert!(sum(late, |s| s.good) > 0.93 * sum(late, |s| s.arrivals), "{}", shed(late));
}

#[test]
fn a_cold_start_reaches_the_capacity_and_does_not_overshoot_it_twofold() {
    let outcomes = play(
        "service_s = 0.1\ndownstream = { kind = \"fifo\" }\n[[phase]]\nseconds = 30\nrate = 3000\nworkers = 150\n",
    );
    let limits: Vec<u32> = slices(&outcomes, 0).iter().map(|s| s.limit).collect();
    let reached = limits.iter().position(|l| *l >= 120).expect("reaches 120");
    assert!(reached < limits.len() / 5, "after {reached} of {} slices", limits.len());
    assert!(limits.iter().filter(|l| **l > 330).count() * 20 < limits.len(), "{:?}", limits.iter().max());
}

#[test]
fn a_wobble_of_the_latency_does_not_shrink_the_limit() {
    let outcomes = play(
        "service_s = 0.022\ndemand = { kind = \"lognormal\", cv = 0.1 }\ndownstream = { kind = \"fifo\" }\n\
         [[phase]]\nseconds = 120\nrate = 3000\nworkers = 40\n",
    );
    let limits: Vec<f64> = after(&outcomes, 0, 0.2).iter().map(|s| f64::from(s.limit)).collect();
    let mean = limits.iter().sum::<f64>() / limits.len() as f64;
    let sd = (limits.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / limits.len() as f64).sqrt();
    assert!(sd < 0.3 * mean && mean > 35.0, "mean {mean}, deviation {sd}");
}

#[test]
fn a_batch_that_ends_leaves_no_rejections_behind() {
    let outcomes = play(
        "service_s = 0.05\ndownstream = { kind = \"ps\" }\n[[phase]]\nseconds = 120\nrate = 600\nworkers = 20\n\
         [[phase]]\nseconds = 120\nrate = 40\nwork = 2\nworkers = 20\n",
    );
    assert!(shed(after(&outcomes, 1, 0.3)) < 0.01, "{}", shed(after(&outcomes, 1, 0.3)));
}
