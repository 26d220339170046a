//! The simulator against queueing theory, and against itself.

use tidegate::law::{Aimd, Law};
use tidegate::sim::engine::{Policy, run};
use tidegate::sim::measure::Measure;
use tidegate::sim::oracle;
use tidegate::sim::scenario::{Abandoned, Clients, Demand, Downstream, PhaseSpec, Scenario, Stop};

const FIFO: Downstream = Downstream::Fifo { backlog: None };

/// Work of 50 ms, a time-out that nobody meets, one phase.
fn steady(demand: Demand, downstream: Downstream, rate: f64, workers: f64, seconds: f64) -> Scenario {
    let mut scenario = Scenario::bare("steady", 0.05, demand, downstream).within(Some(0.2), Some(1e6));
    let phase = PhaseSpec { seconds, rate: Some(rate), workers: Some(workers), ..PhaseSpec::default() };
    scenario.phases = vec![phase];
    scenario.check().expect("valid");
    scenario
}

fn unlimited(scenario: &Scenario, seed: u64) -> Measure {
    run(scenario, &Policy::Static(&[1_000_000]), seed).measure
}

fn close_to(what: &str, got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() < tolerance, "{what}: {got:.5}, theory says {want:.5}");
}

/// Probability that an arrival waits in M/M/c, for `load` = rate times work.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let blocked = erlang_b(servers, load);
    let utilisation = load / f64::from(servers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

fn erlang_b(servers: u32, load: f64) -> f64 {
    (1..=servers).fold(1.0, |blocked, n| load * blocked / (f64::from(n) + load * blocked))
}

#[test]
fn a_queue_with_servers_waits_as_erlang_says() {
    let scenario = steady(Demand::Exponential, FIFO, 60.0, 4.0, 2000.0);
    let latency = unlimited(&scenario, 1).phases[0].mean_latency();
    let wait = erlang_c(4, 3.0) * 0.05 / (4.0 * (1.0 - 0.75));
    close_to("mean latency", latency, 0.05 + wait, 0.03);
}

#[test]
fn a_limit_of_the_servers_turns_away_as_erlang_says() {
    for demand in [Demand::Exponential, Demand::Lognormal { cv: 1.0 }, Demand::Constant] {
        let scenario = steady(demand, FIFO, 100.0, 6.0, 600.0);
        let measure = run(&scenario, &Policy::Static(&[6]), 2).measure;
        let share = measure.sum(|s| s.turned_away) as f64 / measure.sum(|s| s.tries) as f64;
        close_to("share turned away", share, erlang_b(6, 5.0), 0.04);
    }
}

#[test]
fn processor_sharing_cares_only_for_the_mean() {
    for demand in [Demand::Constant, Demand::Exponential, Demand::Bimodal { long_share: 0.1, ratio: 10.0 }] {
        let scenario = steady(demand, Downstream::Ps, 12.0, 1.0, 5000.0);
        let latency = unlimited(&scenario, 3).phases[0].mean_latency();
        close_to("mean latency", latency, 0.05 / (1.0 - 0.6), 0.06);
    }
}

#[test]
fn in_flight_is_rate_times_latency() {
    let scenario = steady(Demand::Lognormal { cv: 1.0 }, FIFO, 120.0, 8.0, 600.0);
    let measure = unlimited(&scenario, 4);
    let slices = &measure.phases[0].slices;
    let in_flight = slices.iter().map(|s| f64::from(s.in_flight)).sum::<f64>() / slices.len() as f64;
    close_to("in flight", in_flight, 120.0 * measure.phases[0].mean_latency(), 0.05);
}

#[test]
fn a_quota_answers_no_more_than_its_rate() {
    let mut scenario = steady(Demand::Exponential, Downstream::Delay, 300.0, 1.0, 100.0);
    scenario.phases[0].quota = Some(100.0);
    let measure = unlimited(&scenario, 5);
    close_to("answered", measure.sum(|s| s.answered) as f64, 100.0 * 100.0, 0.02);
    close_to("refused", measure.sum(|s| s.failed) as f64, 200.0 * 100.0, 0.03);
}

#[test]
fn a_full_backlog_refuses_what_does_not_fit() {
    let overloaded = steady(Demand::Exponential, Downstream::Fifo { backlog: Some(3) }, 200.0, 4.0, 200.0);
    let measure = unlimited(&overloaded, 6);
    close_to("answered", measure.sum(|s| s.answered) as f64, 80.0 * 200.0, 0.03);
    assert!(measure.latencies.quantile(0.999) < 1.0, "nobody waits behind more than three");
}

#[test]
fn abandoned_work_that_goes_on_costs_capacity() {
    let mut scenario = steady(Demand::Exponential, FIFO, 240.0, 6.0, 60.0).within(Some(0.2), Some(0.3));
    let answered = |scenario: &Scenario| unlimited(scenario, 7).sum(|s| s.answered);
    let cancelled = answered(&scenario);
    scenario.abandoned = Abandoned::GoesOn;
    let goes_on = answered(&scenario);
    assert!(goes_on * 5 < cancelled, "{goes_on} against {cancelled}");
}

#[test]
fn stops_delay_and_lose_nothing() {
    let mut scenario = steady(Demand::Exponential, FIFO, 20.0, 4.0, 200.0);
    scenario.phases[0].stop = Some(Stop { every_s: 10.0, for_s: 1.0 });
    let measure = unlimited(&scenario, 8);
    assert!(measure.sum(|s| s.arrivals) - measure.sum(|s| s.answered) < 30, "all are answered but the last");
    let p99 = measure.latencies.quantile(0.99);
    assert!((0.8..1.3).contains(&p99), "{p99}");
}

#[test]
fn retries_are_tries_of_the_same_requests() {
    let mut scenario = steady(Demand::Exponential, FIFO, 200.0, 4.0, 60.0);
    scenario.clients = Clients { retries: 2, ..Clients::default() };
    let measure = run(&scenario, &Policy::Static(&[4]), 9).measure;
    let (arrivals, tries) = (measure.sum(|s| s.arrivals), measure.sum(|s| s.tries));
    assert!(tries > 2 * arrivals && tries < 3 * arrivals, "{tries} tries of {arrivals}");
    assert!(measure.sum(|s| s.answered) < arrivals);
}

#[test]
fn a_closed_loop_is_bounded_by_its_clients() {
    let mut scenario = steady(Demand::Exponential, FIFO, 1.0, 50.0, 100.0);
    scenario.clients.closed = Some(tidegate::sim::scenario::Closed { clients: 10, think_s: 0.05 });
    let measure = unlimited(&scenario, 10);
    close_to("answered", measure.sum(|s| s.answered) as f64, 100.0 * 10.0 / 0.1, 0.03);
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let scenario = steady(Demand::Lognormal { cv: 0.7 }, Downstream::Ps, 300.0, 8.0, 20.0);
    let law = || Box::new(Aimd::default()) as Box<dyn Law>;
    let run = |seed| run(&scenario, &Policy::Law { law: &law, initial: &[20.0] }, seed).measure;
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_law_moves_the_limit_within_its_bounds() {
    let mut scenario = steady(Demand::Exponential, Downstream::Fifo { backlog: Some(2) }, 300.0, 8.0, 60.0);
    scenario.limiter.min = 4;
    scenario.limiter.max = 25;
    let law = || Box::new(Aimd::default()) as Box<dyn Law>;
    let measure = run(&scenario, &Policy::Law { law: &law, initial: &[20.0] }, 1).measure;
    let limits: Vec<u32> = measure.phases[0].slices.iter().map(|s| s.limit).collect();
    assert!(limits.iter().all(|limit| (4..=25).contains(limit)) && limits.iter().any(|limit| *limit != limits[0]));
}

#[test]
fn the_oracle_finds_the_servers() {
    let mut scenario = steady(Demand::Constant, FIFO, 400.0, 10.0, 30.0).within(Some(0.06), None);
    scenario.phases.push(PhaseSpec { workers: Some(5.0), ..scenario.phases[0].clone() });
    // An SLO just above the work leaves no room for a queue.
    let limits = oracle::find(&scenario).0;
    assert!((10..=11).contains(&limits[0]) && (5..=6).contains(&limits[1]), "{limits:?}");
}

#[test]
fn a_waiting_room_in_front_fills_the_gaps() {
    let mut scenario = steady(Demand::Exponential, FIFO, 110.0, 6.0, 300.0);
    let answered = |scenario: &Scenario| run(scenario, &Policy::Static(&[6]), 11).measure.sum(|s| s.answered);
    let without = answered(&scenario);
    scenario.limiter.queue = 10;
    scenario.limiter.queue_s = 0.1;
    let with = answered(&scenario);
    assert!(with > without + without / 20, "{with} against {without}");
}
