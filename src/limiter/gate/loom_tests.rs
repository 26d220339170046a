//! The gate under every interleaving that loom finds (preemption bound 2 or 3).
//! Run: `RUSTFLAGS="--cfg tidegate_loom" cargo test --release --lib loom_`.

use std::future::poll_fn;

use loom::future::block_on;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering as LoomOrdering};
use loom::thread;

use super::*;

fn model(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(test);
}

fn gate(limit: u32) -> Arc<Gate> {
    Arc::new(Gate::new(limit, Mode::Enforce, Clock::new()))
}

fn wait_and_leave(gate: &Gate, weight: u32) {
    let admitted = match gate.arrive(weight, |_| Ok::<_, ()>(Nanos::NEVER)).expect("may wait") {
        Arrival::Admitted(_) => true,
        Arrival::Waits(mut wait) => matches!(block_on(poll_fn(|cx| wait.poll(cx))), Fate::Admitted(_)),
        Arrival::Closed => false,
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
        let dropped = match gate.arrive(1, |_| Ok::<_, ()>(Nanos::NEVER)).expect("may wait") {
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
