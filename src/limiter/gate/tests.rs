//! The gate without threads: order, expiry, hand-over, and a model that follows random operations.

use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Wake};

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct CountWakes(AtomicUsize);

impl Wake for CountWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn gate(limit: u32) -> Gate {
    Gate::new(limit, Mode::Enforce, Clock::new())
}

fn ask(weight: u32) -> Ask {
    Ask { class: 0, tenant: None, weight }
}

fn patience(deadline: Nanos) -> Patience {
    Patience { deadline, most_of_class: u32::MAX, most: u32::MAX }
}

fn in_flight(level: u32) -> Fate {
    Fate::Admitted(Entered { level, class: 0 })
}

fn wait(gate: &Gate, weight: u32) -> Wait<'_> {
    wait_until(gate, weight, Nanos::NEVER)
}

fn wait_until(gate: &Gate, weight: u32, deadline: Nanos) -> Wait<'_> {
    match gate.arrive(ask(weight), |_| Ok::<_, ()>(patience(deadline))).expect("may wait") {
        Arrival::Waits(wait) => wait,
        other => panic!("must wait: {other:?}"),
    }
}

fn poll(wait: &mut Wait<'_>) -> Poll<Fate> {
    wait.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn waiters_enter_in_order() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let (mut first, mut second) = (wait(&gate, 1), wait(&gate, 1));
    gate.leave(1);
    assert_eq!((poll(&mut second), poll(&mut first)), (Poll::Pending, Poll::Ready(in_flight(1))));
    gate.leave(1);
    assert_eq!(poll(&mut second), Poll::Ready(in_flight(1)));
}

#[test]
fn a_heavy_head_that_gives_up_lets_those_behind_in_at_once() {
    let gate = gate(8);
    gate.try_enter(5).expect("empty");
    let heavy = wait(&gate, 5);
    let (mut b, mut c) = (wait(&gate, 1), wait(&gate, 1));
    assert_eq!(poll(&mut b), Poll::Pending, "nobody walks past the head");
    drop(heavy);
    assert!(poll(&mut b).is_ready() && poll(&mut c).is_ready());
    assert_eq!(gate.word().in_flight(), 7);
}

#[test]
fn a_lowered_limit_binds_with_a_full_queue_and_loses_nobody() {
    let gate = gate(20);
    gate.try_enter(20).expect("room");
    let mut waits: Vec<_> = (0..500).map(|_| wait(&gate, 1)).collect();
    let _ = gate.set_limit(2);
    for left in 1..=18 {
        gate.leave(1);
        assert_eq!(gate.word().in_flight(), 20 - left, "nobody enters above the new limit");
    }
    for wait in &mut waits {
        gate.leave(1);
        assert!(poll(wait).is_ready(), "in order, none lost");
        assert_eq!(gate.word().in_flight(), 2);
    }
    assert_eq!(gate.queued(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_expired_leaves_at_its_turn_without_a_place() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let soon = gate.clock.now() + std::time::Duration::from_millis(10);
    let mut expired = wait_until(&gate, 1, soon);
    let mut patient = wait(&gate, 1);
    tokio::time::advance(std::time::Duration::from_millis(20)).await;
    gate.leave(1);
    assert_eq!(poll(&mut expired), Poll::Ready(Fate::Expired));
    assert_eq!(poll(&mut patient), Poll::Ready(in_flight(1)));
}

#[test]
fn giving_up_in_the_moment_of_admission_takes_the_place() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let late = wait(&gate, 1);
    gate.leave(1);
    assert_eq!(late.give_up(), in_flight(1), "no place is both refused and used");
    assert_eq!(gate.word().in_flight(), 1);
}

#[test]
fn dropping_a_wait_that_was_just_admitted_gives_the_place_back() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let gone = wait(&gate, 1);
    let mut next = wait(&gate, 1);
    gate.leave(1);
    drop(gone);
    assert_eq!(poll(&mut next), Poll::Ready(in_flight(1)));
}

#[test]
fn a_wait_costs_one_wake_and_none_while_it_waits() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let wakes = Arc::new(CountWakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut wait = wait(&gate, 1);
    for _ in 0..5 {
        assert!(wait.poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    gate.leave(1);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
}

#[test]
fn raising_the_limit_serves_more_than_one_batch() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let mut waits: Vec<_> = (0..200).map(|_| wait(&gate, 1)).collect();
    assert!(gate.set_limit(150));
    gate.serve();
    assert_eq!(waits.iter_mut().filter_map(|w| poll(w).is_ready().then_some(())).count(), 149);
    assert_eq!((gate.word().in_flight(), gate.queued()), (150, 51));
}

#[test]
fn leaving_shadow_or_closing_serves_the_room() {
    let gate = gate(1);
    gate.try_enter(1).expect("empty");
    let mut wait_one = wait(&gate, 1);
    assert!(gate.set_mode(Mode::Shadow));
    gate.serve();
    assert_eq!(poll(&mut wait_one), Poll::Ready(in_flight(2)));
    let _ = gate.set_mode(Mode::Enforce);
    let mut wait_two = wait(&gate, 1);
    gate.close();
    assert_eq!(poll(&mut wait_two), Poll::Ready(Fate::Closed));
    assert!(matches!(gate.arrive(ask(1), |_| Ok::<_, ()>(patience(Nanos::NEVER))), Ok(Arrival::Closed)));
}

#[derive(Clone, Debug)]
enum Operation {
    TryEnter(u32),
    Arrive(u32),
    Leave(usize),
    Drop(usize),
    SetLimit(u32),
}

fn operation() -> impl Strategy<Value = Operation> {
    let weight = prop_oneof![4 => Just(1_u32), 2 => 1..4_u32, 1 => 5..40_u32];
    prop_oneof![
        3 => weight.clone().prop_map(Operation::TryEnter),
        4 => weight.prop_map(Operation::Arrive),
        5 => (0..64_usize).prop_map(Operation::Leave),
        2 => (0..64_usize).prop_map(Operation::Drop),
        1 => (1..12_u32).prop_map(Operation::SetLimit),
    ]
}

/// The plainest limiter there is.
#[derive(Default)]
struct Model {
    limit: u32,
    inside: Vec<u32>,
    waiting: VecDeque<(usize, u32)>,
}

impl Model {
    fn in_flight(&self) -> u32 {
        self.inside.iter().sum()
    }

    fn fits(&self, weight: u32) -> bool {
        self.in_flight() == 0 || self.in_flight() + weight <= self.limit
    }

    fn try_enter(&mut self, weight: u32) -> bool {
        let enters = self.waiting.is_empty() && self.fits(weight);
        self.inside.extend(enters.then_some(weight));
        enters
    }

    /// Who is let in, by name.
    fn serve(&mut self) -> Vec<usize> {
        let mut served = Vec::new();
        while let Some(&(name, weight)) = self.waiting.front()
            && self.fits(weight)
        {
            self.waiting.pop_front();
            self.inside.push(weight);
            served.push(name);
        }
        served
    }
}

proptest! {
    #[test]
    fn does_what_the_plain_model_does(limit in 1..12_u32, operations in prop::collection::vec(operation(), 1..120)) {
        let gate = gate(limit);
        let mut model = Model { limit, ..Model::default() };
        let mut waits: Vec<(usize, Wait<'_>)> = Vec::new();
        for (name, operation) in operations.into_iter().enumerate() {
            let mut served = Vec::new();
            match operation {
                Operation::TryEnter(weight) => prop_assert_eq!(gate.try_enter(weight).is_ok(), model.try_enter(weight)),
                Operation::Arrive(weight) => match gate.arrive(ask(weight), |_| Ok::<_, ()>(patience(Nanos::NEVER))).expect("may wait") {
                    Arrival::Admitted(_) => prop_assert!(model.try_enter(weight)),
                    Arrival::Waits(wait) => {
                        prop_assert!(!model.try_enter(weight));
                        model.waiting.push_back((name, weight));
                        waits.push((name, wait));
                    }
                    Arrival::Full | Arrival::Closed => prop_assert!(false, "never full, never closed"),
                },
                Operation::Leave(at) if !model.inside.is_empty() => {
                    let weight = model.inside.swap_remove(at % model.inside.len());
                    gate.leave(weight);
                    served = model.serve();
                }
                Operation::Drop(at) if !waits.is_empty() => {
                    let (name, wait) = waits.swap_remove(at % waits.len());
                    model.waiting.retain(|(n, _)| *n != name);
                    drop(wait);
                    served = model.serve();
                }
                Operation::SetLimit(limit) => {
                    model.limit = limit;
                    if gate.set_limit(limit) {
                        gate.serve();
                    }
                    served = model.serve();
                }
                Operation::Leave(_) | Operation::Drop(_) => {}
            }
            let mut ready: Vec<_> = waits.iter_mut().filter_map(|(n, w)| poll(w).is_ready().then_some(*n)).collect();
            waits.retain(|(n, _)| !ready.contains(n));
            ready.sort_unstable();
            prop_assert_eq!(ready, served);
            prop_assert_eq!(gate.word().in_flight(), model.in_flight());
            prop_assert_eq!(gate.queued() as usize, model.waiting.len());
            prop_assert_eq!(gate.word().has_waiting(), !model.waiting.is_empty());
        }
    }
}

mod classes;
