//! The gate under every interleaving that loom finds (preemption bound 2 or 3).
//! Run: `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --lib loom_`.

use std::future::poll_fn;

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering as LoomOrdering};
use loom::thread;

use super::*;
use crate::admission::Share;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(test);
}

fn gate(limit: u32) -> Arc<Gate> {
    Arc::new(Gate::new(limit, Mode::Enforce, Clock::new()))
}

const PATIENCE: Patience = Patience { deadline: Nanos::NEVER, most_of_class: 9, most: 9 };

fn ask(class: usize, weight: u32) -> Ask {
    Ask { class, tenant: None, weight }
}

fn wait_and_leave(gate: &Gate, weight: u32) {
    let admitted = match gate.arrive(ask(0, weight), |_| Ok::<_, ()>(PATIENCE)).expect("may wait") {
        Arrival::Admitted(_) => true,
        Arrival::Waits(mut wait) => matches!(block_on(poll_fn(|cx| wait.poll(cx))), Fate::Admitted(_)),
        Arrival::Full | Arrival::Closed => false,
    };
    if admitted {
        gate.leave(weight);
    }
}

fn assert_idle(gate: &Gate) {
    let word = gate.word();
    assert_eq!((word.in_flight(), word.has_waiting(), gate.queued()), (0, false, 0));
}

#[test]
fn loom_no_overshoot_by_two_who_race_for_one_place() {
    model(|| {
        let gate = gate(1);
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
                thread::spawn(move || {
                    if gate.try_enter(1).is_ok() {
                        assert_eq!(inside.fetch_add(1, LoomOrdering::SeqCst), 0);
                        inside.fetch_sub(1, LoomOrdering::SeqCst);
                        gate.leave(1);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        assert_idle(&gate);
    });
}

#[test]
fn loom_a_waiter_is_woken_by_whoever_leaves() {
    model(|| {
        let gate = gate(1);
        gate.try_enter(1).expect("empty");
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_and_leave(&gate, 1))
        };
        gate.leave(1);
        waiter.join().expect("woken");
        assert_idle(&gate);
    });
}

#[test]
fn loom_a_waiter_that_is_dropped_hands_its_place_on() {
    model(|| {
        let gate = gate(1);
        gate.try_enter(1).expect("empty");
        let dropped = match gate.arrive(ask(0, 1), |_| Ok::<_, ()>(PATIENCE)).expect("may wait") {
            Arrival::Waits(wait) => wait,
            other => panic!("must wait: {other:?}"),
        };
        let leaver = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.leave(1))
        };
        let second = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_and_leave(&gate, 1))
        };
        drop(dropped);
        leaver.join().expect("no panic");
        second.join().expect("woken");
        assert_idle(&gate);
    });
}

#[test]
fn loom_a_raised_limit_reaches_a_waiter_that_arrives_at_the_same_time() {
    model(|| {
        let gate = gate(1);
        gate.try_enter(1).expect("empty");
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_and_leave(&gate, 1))
        };
        if gate.set_limit(2) {
            gate.serve();
        }
        waiter.join().expect("woken though nobody left");
        gate.leave(1);
        assert_idle(&gate);
    });
}

#[test]
fn loom_a_lowered_limit_is_never_passed() {
    model(|| {
        let gate = gate(2);
        let entrant = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || match gate.try_enter(2) {
                Ok(word) => {
                    // The limit in force at admission is in the very word that was swapped in.
                    assert!(word.in_flight() <= word.limit() || word.in_flight() == 2);
                    gate.leave(2);
                }
                Err(word) => assert!(!word.admits(2)),
            })
        };
        if gate.try_enter(1).is_ok() {
            let _ = gate.set_limit(1);
            assert!(gate.try_enter(1).is_err(), "one in flight at limit one");
            gate.leave(1);
        }
        entrant.join().expect("no panic");
        assert_idle(&gate);
    });
}

#[test]
fn loom_closing_sends_a_waiter_away() {
    model(|| {
        let gate = gate(1);
        gate.try_enter(1).expect("empty");
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_and_leave(&gate, 1))
        };
        gate.close();
        waiter.join().expect("sent away");
        gate.leave(1);
        assert_eq!((gate.word().in_flight(), gate.queued()), (0, 0));
    });
}

/// A gate with a default class, and `more` after it.
fn gate_of(limit: u32, more: &[Class]) -> Arc<Gate> {
    let gate = gate(limit);
    let classes = [Class::new("default")].iter().chain(more).cloned().collect();
    gate.set_classes(classes);
    gate
}

fn reserving(units: u32) -> Class {
    Class::new("reserving").reserve(Share::Units(units))
}

/// Enters a class without waiting, counts those inside meanwhile, and leaves.
fn visit(gate: &Gate, class: usize, inside: &AtomicUsize, most: usize) -> bool {
    let table = gate.classes().expect("classes");
    let entered = gate.try_enter_class(table, class, 1).is_ok();
    if entered {
        assert!(inside.fetch_add(1, LoomOrdering::SeqCst) < most, "more inside than the limit");
        inside.fetch_sub(1, LoomOrdering::SeqCst);
        gate.leave_place(class as u32 + 1, 1);
    }
    entered
}

fn wait_in_class_and_leave(gate: &Gate, class: usize) {
    match gate.arrive(ask(class, 1), |_| Ok::<_, ()>(PATIENCE)).expect("may wait") {
        Arrival::Admitted(entered) => gate.leave_place(entered.class, 1),
        Arrival::Waits(mut wait) => match block_on(poll_fn(|cx| wait.poll(cx))) {
            Fate::Admitted(entered) => gate.leave_place(entered.class, 1),
            other => panic!("must enter: {other:?}"),
        },
        other => panic!("must enter: {other:?}"),
    }
}

#[test]
fn loom_classes_together_never_pass_the_limit() {
    model(|| {
        let gate = gate_of(2, &[reserving(1)]);
        let inside = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = [0, 0]
            .into_iter()
            .map(|class| {
                let (gate, inside) = (Arc::clone(&gate), Arc::clone(&inside));
                thread::spawn(move || visit(&gate, class, &inside, 2))
            })
            .collect();
        assert!(visit(&gate, 1, &inside, 2), "the reserve is its owner's, whatever others do");
        threads.into_iter().for_each(|t| drop(t.join().expect("no panic")));
        assert_eq!(gate.in_flight(), 0);
    });
}

#[test]
fn loom_a_lowered_limit_binds_for_classes_too() {
    model(|| {
        let gate = gate_of(3, &[reserving(2)]);
        let table = gate.classes().expect("classes");
        gate.try_enter_class(table, 0, 1).expect("room");
        let entrant = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || {
                let entered = gate.try_enter_class(gate.classes().expect("classes"), 1, 1).is_ok();
                if entered {
                    gate.leave_place(2, 1);
                }
            })
        };
        let _ = gate.set_limit(1);
        let late = gate.try_enter_class(table, 1, 1);
        assert!(late.is_err(), "one of class 0 is in flight at limit one");
        entrant.join().expect("no panic");
        gate.leave_place(1, 1);
        assert!(gate.try_enter_class(table, 1, 1).is_ok(), "and nothing is lost");
        gate.leave_place(2, 1);
        assert_eq!(gate.in_flight(), 0);
    });
}

#[test]
fn loom_what_another_class_keeps_reaches_a_waiter() {
    model(|| {
        let gate = gate_of(1, &[Class::new("other")]);
        let table = gate.classes().expect("classes");
        gate.relax();
        gate.try_enter_class(table, 1, 1).expect("room");
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_in_class_and_leave(&gate, 0))
        };
        gate.leave_place(2, 1);
        waiter.join().expect("woken, though the class would keep its unit");
        assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    });
}

#[test]
fn loom_a_waiter_at_its_cap_is_woken_by_its_own_class() {
    model(|| {
        let gate = gate_of(4, &[Class::new("capped").cap(Share::Units(1))]);
        let table = gate.classes().expect("classes");
        gate.relax();
        gate.try_enter_class(table, 1, 1).expect("room");
        let waiter = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || wait_in_class_and_leave(&gate, 1))
        };
        gate.leave_place(2, 1);
        waiter.join().expect("woken");
        assert_eq!((gate.in_flight(), gate.queued(), gate.word().has_waiting()), (0, 0, false));
    });
}
