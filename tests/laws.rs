//! What every law keeps, on windows made by hand. Behaviour that needs a downstream is in
//! `tests/law_scenarios.rs`.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::Bounds;
use tidegate::law::{self, Decision, Knee, Law, Reason};
use tidegate::outcome::{Outcome, OutcomeCounts};
use tidegate::time::Nanos;
use tidegate::window::{Sample, Unfinished, Window};

/// The laws that move the limit.
fn moving() -> impl Iterator<Item = Box<dyn Law>> {
    law::NAMES.iter().filter(|name| **name != "fixed").map(|name| law::by_name(name).expect("a law"))
}

/// What a window brings.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    lasts: Duration,
    answers: u32,
    outcome: Outcome,
    latency: Duration,
    turned_away: u64,
}

impl Stretch {
    /// A tenth of a second of good answers at the limit.
    fn good() -> Self {
        Self {
            lasts: Duration::from_millis(100),
            answers: 40,
            outcome: Outcome::Success,
            latency: Duration::from_millis(50),
            turned_away: 40,
        }
    }
}

/// A law with the limit that its decisions lead to.
struct Run {
    law: Box<dyn Law>,
    bounds: Bounds,
    limit: f64,
    now: Nanos,
}

impl Run {
    fn new(law: Box<dyn Law>, limit: f64) -> Self {
        let bounds = Bounds::new(1, 2000).expect("valid");
        Self { law, bounds, limit, now: Nanos(1_000_000_000_000) }
    }

    fn window(&mut self, stretch: Stretch) -> Decision {
        let Stretch { lasts, answers, outcome, latency, turned_away } = stretch;
        let opened = self.now;
        self.now = opened + lasts;
        let in_flight = self.bounds.apply(self.limit);
        let samples: Vec<_> = (0..answers.min(512))
            .map(|i| {
                let end = opened + lasts.mul_f64(f64::from(i + 1) / f64::from(answers.min(512)));
                // A spread of a tenth around the latency, the same for every window.
                let latency = latency.mul_f64(0.9 + 0.2 * f64::from(i % 7) / 6.0);
                Sample { start: end - latency, end, in_flight: (in_flight - i % 3 % in_flight).max(1), outcome }
            })
            .collect();
        let mut finished = OutcomeCounts::default();
        finished.add(outcome, u64::from(answers));
        let decision = self.law.decide(
            self.limit,
            &Window {
                opened,
                closed: self.now,
                finished,
                turned_away,
                waited: 0,
                in_flight_open: in_flight,
                in_flight_close: in_flight,
                one_in: 1,
                samples: &samples,
                unfinished: &Unfinished::default(),
                quiet: Duration::ZERO,
                stalled: answers == 0,
            },
        );
        self.limit = self.bounds.clamp(decision.limit);
        decision
    }

    fn windows(&mut self, n: usize, stretch: Stretch) -> f64 {
        for _ in 0..n {
            let _ = self.window(stretch);
        }
        self.limit
    }
}

#[test]
fn no_law_grows_a_limit_that_did_not_bind() {
    for law in moving() {
        let mut run = Run::new(law, 20.0);
        let name = run.law.name();
        for _ in 0..300 {
            let before = run.limit;
            // A slot of a fractional limit may round it up: never by a whole unit.
            assert!(run.window(Stretch { turned_away: 0, ..Stretch::good() }).limit < before + 1.0, "{name}");
        }
        assert!(run.limit <= 21.0, "{name}: {}", run.limit);
    }
}

#[test]
fn every_law_grows_a_limit_that_binds_while_answers_are_good() {
    for law in moving() {
        let mut run = Run::new(law, 20.0);
        let limit = run.windows(300, Stretch::good());
        assert!(limit > 25.0, "{}: {limit}", run.law.name());
    }
}

#[test]
fn throttles_alone_lead_to_the_minimum() {
    for law in moving() {
        let mut run = Run::new(law, 100.0);
        run.windows(50, Stretch::good());
        let throttled = Stretch { outcome: Outcome::Throttled, latency: Duration::from_millis(2), ..Stretch::good() };
        let limit = run.windows(120, throttled);
        assert!(limit < 2.0, "{}: {limit}", run.law.name());
    }
}

#[test]
fn time_outs_cut_the_limit() {
    for law in moving() {
        let mut run = Run::new(law, 100.0);
        let before = run.windows(50, Stretch::good());
        let late = Stretch { outcome: Outcome::Overloaded, latency: Duration::from_secs(1), ..Stretch::good() };
        let limit = run.windows(60, late);
        assert!(limit < 0.6 * before, "{}: {before} to {limit}", run.law.name());
    }
}

#[test]
fn one_window_cuts_by_half_at_most() {
    for law in moving() {
        let mut run = Run::new(law, 100.0);
        run.windows(50, Stretch::good());
        let before = run.limit;
        let limit = run.window(Stretch { outcome: Outcome::Throttled, ..Stretch::good() }).limit;
        assert!(limit >= 0.49 * before, "{}: {before} to {limit}", run.law.name());
    }
}

#[test]
fn a_law_at_the_minimum_comes_back() {
    for law in moving() {
        let mut run = Run::new(law, 100.0);
        run.windows(50, Stretch::good());
        run.windows(150, Stretch { outcome: Outcome::Throttled, ..Stretch::good() });
        let limit = run.windows(400, Stretch { answers: 4, ..Stretch::good() });
        assert!(limit > 8.0, "{}: {limit}", run.law.name());
    }
}

/// The same good answers, with and without fast failures among them, teach the same latency.
#[test]
fn a_fast_failure_teaches_no_law() {
    for outcome in [Outcome::Fault, Outcome::Exhausted, Outcome::Throttled, Outcome::Caller] {
        for law in moving() {
            let name = law.name();
            let mut run = Run::new(law, 20.0);
            run.windows(100, Stretch { turned_away: 0, ..Stretch::good() });
            let before = run.law.learned().unloaded_latency_s;
            let limit = run.limit;
            let fast = Stretch { outcome, latency: Duration::from_micros(500), turned_away: 0, ..Stretch::good() };
            run.windows(50, fast);
            let after = run.law.learned().unloaded_latency_s;
            assert_eq!(before.is_some(), after.is_some(), "{name}");
            if let (Some(before), Some(after)) = (before, after) {
                assert!((after / before - 1.0).abs() < 0.05, "{name} {outcome}: {before} to {after}");
            }
            assert!(run.limit <= limit + 1.0, "{name} {outcome}: {limit} to {}", run.limit);
        }
    }
}

#[test]
fn faults_and_cancellations_leave_the_limit_alone() {
    for outcome in [Outcome::Fault, Outcome::Exhausted, Outcome::Cancelled] {
        for law in moving() {
            let mut run = Run::new(law, 20.0);
            let before = run.windows(100, Stretch { turned_away: 0, ..Stretch::good() });
            let limit = run.windows(100, Stretch { outcome, latency: Duration::from_millis(10), ..Stretch::good() });
            assert!((limit - before).abs() <= 0.1 * before + 1.0, "{} {outcome}: {limit}", run.law.name());
        }
    }
}

#[test]
fn a_stall_is_not_health() {
    for law in moving() {
        let mut run = Run::new(law, 20.0);
        let before = run.windows(50, Stretch { turned_away: 0, ..Stretch::good() });
        let limit = run.windows(20, Stretch { answers: 0, ..Stretch::good() });
        assert!(limit <= before + 1.0, "{}: {before} to {limit}", run.law.name());
    }
}

#[test]
fn bounds_that_an_operator_moves_hold_at_once_and_after() {
    for law in moving() {
        let mut run = Run::new(law, 100.0);
        run.windows(100, Stretch::good());
        for (min, max) in [(1, 10), (500, 800), (30, 30), (2, 2000)] {
            run.bounds = Bounds::new(min, max).expect("valid");
            run.limit = run.bounds.clamp(run.limit);
            for _ in 0..20 {
                let _ = run.window(Stretch::good());
                assert!(run.bounds.contains(run.bounds.apply(run.limit)));
            }
        }
    }
}

#[test]
fn the_limit_stays_within_its_bounds_under_throttles_and_twentyfold_latency() {
    for law in moving() {
        let mut run = Run::new(law, 50.0);
        run.bounds = Bounds::new(10, 200).expect("valid");
        for i in 0..600 {
            let outcome = if i % 2 == 0 { Outcome::Throttled } else { Outcome::Success };
            let _ = run.window(Stretch { outcome, latency: Duration::from_secs(1), ..Stretch::good() });
            assert!((10..=200).contains(&run.bounds.apply(run.limit)), "{}", run.law.name());
        }
    }
}

#[test]
fn knee_says_when_shedding_does_not_help() {
    let mut run = Run::new(Box::new(Knee::default().futile_share(0.2)), 100.0);
    let before = run.windows(50, Stretch::good());
    let late = Stretch { outcome: Outcome::Overloaded, latency: Duration::from_secs(1), ..Stretch::good() };
    let reasons: Vec<_> = (0..100).map(|_| run.window(late).reason).collect();
    assert!(reasons.contains(&Reason::HoldFutile), "{reasons:?}");
    assert!(run.law.learned().shedding_is_futile);
    assert!(run.limit >= 0.2 * before.min(100.0) - 1.0, "{before} to {}", run.limit);
    run.windows(30, Stretch::good());
    assert!(!run.law.learned().shedding_is_futile, "and when it is over");
}

#[test]
fn the_unloaded_latency_is_not_believed_above_the_cap() {
    let cap = Duration::from_millis(20);
    let mut run = Run::new(Box::new(Knee::default().baseline_cap(cap)), 20.0);
    run.windows(100, Stretch::good());
    let learned = run.law.learned().unloaded_latency_s.expect("learned");
    assert!(learned <= 0.0201, "{learned}");
}

fn weird_stretch() -> impl Strategy<Value = Stretch> {
    let outcome = prop::sample::select(Outcome::ALL.to_vec());
    let time = prop_oneof![Just(0), 0..1_000_000_u64, 0..u64::MAX / 4];
    (
        time.clone(),
        prop_oneof![Just(0), 0..600_u32, Just(u32::MAX)],
        outcome,
        time,
        prop_oneof![0..50_u64, Just(u64::MAX / 4)],
    )
        .prop_map(|(lasts, answers, outcome, latency, turned_away)| Stretch {
            lasts: Duration::from_nanos(lasts),
            answers,
            outcome,
            latency: Duration::from_nanos(latency),
            turned_away,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_windows_the_limit_is_a_number_and_decisions_repeat(
        stretches in prop::collection::vec(weird_stretch(), 1..40),
        initial in 1.0..2000.0,
    ) {
        for name in law::NAMES {
            let mut runs = [(); 2].map(|()| Run::new(law::by_name(name).expect("a law"), initial));
            for &stretch in &stretches {
                let [a, b] = &mut runs;
                let decision = a.window(stretch);
                prop_assert!(decision.limit.is_finite() && decision.limit > 0.0, "{name}: {decision:?}");
                prop_assert_eq!(decision, b.window(stretch), "{}", name);
                prop_assert!(decision.pace.max >= decision.pace.min);
            }
        }
    }
}
