//! Classes at the gate without threads: a plain model that follows random operations, and what
//! races cannot show; then threads that race against changes of the limit.

use std::sync::atomic::{AtomicBool, AtomicI64};

use super::*;
use crate::admission::{Lend, Share, partition};

fn gate_of(limit: u32, classes: Vec<Class>) -> Gate {
    let gate = gate(limit);
    gate.set_classes(classes);
    gate
}

fn try_enter(gate: &Gate, class: usize, weight: u32) -> Result<(), Refusal> {
    gate.try_enter_class(gate.classes().expect("classes"), class, weight).map(drop)
}

fn leave(gate: &Gate, class: usize, weight: u32) {
    gate.leave_place(class as u32 + 1, weight);
}

fn used(gate: &Gate, class: usize) -> u32 {
    gate.classes().expect("classes").usage(class).used
}

fn wait_in(gate: &Gate, class: usize, weight: u32) -> Wait<'_> {
    match gate.arrive(Ask { class, tenant: None, weight }, |_| Ok::<_, ()>(patience(Nanos::NEVER))).expect("may wait") {
        Arrival::Waits(wait) => wait,
        other => panic!("must wait: {other:?}"),
    }
}

/// A default class and one that reserves 4.
fn with_reserve(lend: Lend) -> Vec<Class> {
    vec![Class::new("default"), Class::new("query").reserve(Share::Units(4)).lend(lend)]
}

#[test]
fn a_reserve_is_its_owners_and_nobody_elses() {
    let gate = gate_of(10, with_reserve(Lend::Nothing));
    let entered = (0..20).filter(|_| try_enter(&gate, 0, 1).is_ok()).count();
    assert_eq!(entered, 6);
    assert_eq!(try_enter(&gate, 0, 1), Err(Refusal::Limit));
    assert!((0..4).all(|_| try_enter(&gate, 1, 1).is_ok()), "its owner never waits");
    assert_eq!(try_enter(&gate, 1, 1), Err(Refusal::Limit));
    assert_eq!(gate.in_flight(), 10);
}

#[test]
fn a_lent_reserve_is_used_by_others_and_its_owner_goes_first() {
    let gate = gate_of(10, with_reserve(Lend::Allowed));
    (0..10).for_each(|_| try_enter(&gate, 0, 1).expect("all of it is lent"));
    let mut others: Vec<_> = (0..3).map(|_| wait_in(&gate, 0, 1)).collect();
    let mut owner = wait_in(&gate, 1, 1);
    leave(&gate, 0, 1);
    assert!(poll(&mut owner).is_ready(), "the next unit is the owner's");
    assert!(others.iter_mut().all(|other| poll(other).is_pending()));
}

#[test]
fn a_cap_holds_and_keeps_nobody_else_out() {
    let gate = gate_of(10, vec![Class::new("default"), Class::new("batch").cap(Share::Units(3))]);
    (0..3).for_each(|_| try_enter(&gate, 1, 1).expect("below its cap"));
    assert_eq!(try_enter(&gate, 1, 1), Err(Refusal::Class));
    let mut capped = wait_in(&gate, 1, 1);
    (0..7).for_each(|_| try_enter(&gate, 0, 1).expect("a class at its cap keeps nobody else waiting"));
    assert_eq!(try_enter(&gate, 0, 1), Err(Refusal::Limit));
    leave(&gate, 0, 1);
    assert!(poll(&mut capped).is_pending());
    leave(&gate, 1, 1);
    assert!(poll(&mut capped).is_ready());
}

#[test]
fn what_a_class_keeps_for_its_next_requests_is_there_for_others_when_they_need_it() {
    let gate = gate_of(10, vec![Class::new("default"), Class::new("a"), Class::new("b")]);
    gate.relax();
    (0..10).for_each(|_| try_enter(&gate, 1, 1).expect("room"));
    (0..10).for_each(|_| leave(&gate, 1, 1));
    assert_eq!((gate.word().in_flight(), gate.in_flight()), (10, 0), "class a keeps ten units");
    (0..10).for_each(|_| try_enter(&gate, 2, 1).expect("which class b gets"));
    assert_eq!(try_enter(&gate, 1, 1), Err(Refusal::Limit));
}

#[test]
fn a_limit_below_what_is_in_flight_admits_nobody_not_even_to_a_reserve() {
    let gate = gate_of(20, with_reserve(Lend::Nothing));
    (0..16).for_each(|_| try_enter(&gate, 0, 1).expect("room"));
    let _ = gate.set_limit(8);
    for left in (8..=16).rev() {
        assert_eq!((gate.in_flight(), try_enter(&gate, 1, 1)), (left, Err(Refusal::Limit)));
        leave(&gate, 0, 1);
    }
    try_enter(&gate, 1, 1).expect("seven in flight: the first unit below the limit is the reserve's");
    assert_eq!(try_enter(&gate, 0, 1), Err(Refusal::Limit));
}

#[test]
fn a_request_heavier_than_the_limit_enters_an_idle_limiter_though_units_are_held() {
    let gate = gate_of(10, with_reserve(Lend::Nothing));
    try_enter(&gate, 0, 50).expect("alone");
    assert_eq!(try_enter(&gate, 1, 1), Err(Refusal::Limit));
    leave(&gate, 0, 50);
    assert!((0..4).all(|_| try_enter(&gate, 1, 1).is_ok()), "what was held is held again");
    assert_eq!(try_enter(&gate, 0, 50), Err(Refusal::Limit), "not alone");
}

#[test]
fn classes_may_come_change_and_go_while_requests_are_in_flight_and_wait() {
    let gate = gate(4);
    (0..4).for_each(|_| assert!(gate.try_enter(1).is_ok()));
    let mut early = wait(&gate, 1);
    gate.set_classes(with_reserve(Lend::Nothing));
    gate.leave(1);
    assert!(poll(&mut early).is_pending(), "the reserve is filled first");
    (0..3).for_each(|_| gate.leave(1));
    assert_eq!(poll(&mut early), Poll::Ready(Fate::Admitted(Entered { level: 1, class: 1 })));
    gate.set_classes(vec![Class::new("default"), Class::new("query")]);
    (0..3).for_each(|_| try_enter(&gate, 0, 1).expect("nothing is reserved any more"));
    assert_eq!((gate.in_flight(), used(&gate, 0)), (4, 4));
}

#[test]
fn shadow_admits_past_cap_and_limit_and_says_so() {
    let gate = gate_of(2, vec![Class::new("default").cap(Share::Units(1))]);
    let _ = gate.set_mode(Mode::Shadow);
    let over = |_| gate.try_enter_class(gate.classes().expect("classes"), 0, 1).expect("all").over;
    assert_eq!((0..3).map(over).collect::<Vec<_>>(), [false, true, true]);
    (0..3).for_each(|_| leave(&gate, 0, 1));
    let _ = gate.set_mode(Mode::Enforce);
    try_enter(&gate, 0, 1).expect("room");
    assert_eq!(try_enter(&gate, 0, 1), Err(Refusal::Class));
    gate.close();
    assert_eq!(try_enter(&gate, 0, 1), Err(Refusal::Closed));
}

#[derive(Clone, Debug)]
enum Operation {
    TryEnter(usize, u32),
    Arrive(usize, u32),
    Drop(usize),
    Leave(usize),
    SetLimit(u32),
    Relax,
}

fn operation() -> impl Strategy<Value = Operation> {
    let weight = prop_oneof![5 => Just(1_u32), 2 => 1..4_u32, 1 => 5..30_u32];
    prop_oneof![
        6 => (0..4_usize, weight.clone()).prop_map(|(class, weight)| Operation::TryEnter(class, weight)),
        3 => (0..4_usize, weight).prop_map(|(class, weight)| Operation::Arrive(class, weight)),
        1 => (0..64_usize).prop_map(Operation::Drop),
        5 => (0..64_usize).prop_map(Operation::Leave),
        1 => (1..16_u32).prop_map(Operation::SetLimit),
        1 => Just(Operation::Relax),
    ]
}

fn class() -> impl Strategy<Value = Class> {
    let share = |most| {
        prop_oneof![(0..most).prop_map(Share::Units), (0..20_u32).prop_map(|n| Share::Fraction(f64::from(n) / 64.0))]
    };
    (share(6_u32), prop::option::of(share(12)), any::<bool>()).prop_map(|(reserve, cap, lends)| {
        let class = Class::new("c").reserve(reserve).lend(if lends { Lend::Allowed } else { Lend::Nothing });
        cap.map_or(class.clone(), |cap| class.cap(cap))
    })
}

/// The plainest division of a limit: in flight by class, and what must stay free for others.
struct Model {
    limit: u32,
    classes: Vec<Class>,
    used: [u32; 4],
    inside: Vec<(usize, u32)>,
}

impl Model {
    fn admit(&mut self, class: usize, weight: u32) {
        self.used[class] += weight;
        self.inside.push((class, weight));
    }

    /// Takes those in whose wait is over.
    fn take_in(&mut self, waits: &mut Vec<(usize, u32, Wait<'_>)>) -> usize {
        let before = waits.len();
        waits.retain_mut(|(class, weight, wait)| {
            let waits = poll(wait).is_pending();
            if !waits {
                self.admit(*class, *weight);
            }
            waits
        });
        before - waits.len()
    }

    fn enters(&self, class: usize, weight: u32) -> bool {
        let parts = partition(self.limit, &self.classes);
        let total: u32 = self.used.iter().sum();
        let fits_class = self.used[class] == 0 || self.used[class] + weight <= parts[class].cap;
        let kept = |at: usize| parts[at].held.saturating_sub(self.used[at] + if at == class { weight } else { 0 });
        let held: u32 = (0..4).map(kept).sum();
        // Alone is always possible. What is not there any more cannot be held.
        fits_class && (total == 0 || total + weight + held <= self.limit)
    }

    fn reserves_are_there(&self) -> bool {
        let parts = partition(self.limit, &self.classes);
        (0..4).map(|at| self.used[at].max(parts[at].held)).sum::<u32>() <= self.limit
    }
}

proptest! {
    #[test]
    fn classes_do_what_the_plain_model_does(
        limit in 1..16_u32,
        classes in prop::collection::vec(class(), 4),
        operations in prop::collection::vec(operation(), 1..150),
    ) {
        let gate = gate_of(limit, classes.clone());
        let mut model = Model { limit, classes, used: [0; 4], inside: Vec::new() };
        let mut waits: Vec<(usize, u32, Wait<'_>)> = Vec::new();
        for operation in operations {
            match operation {
                Operation::TryEnter(class, weight) => {
                    let total: u32 = model.used.iter().sum();
                    let entered = try_enter(&gate, class, weight).is_ok();
                    if entered {
                        let cap = partition(model.limit, &model.classes)[class].cap;
                        prop_assert!(total == 0 || total + weight <= model.limit, "over the limit");
                        prop_assert!(model.used[class] == 0 || model.used[class] + weight <= cap, "over the cap");
                    }
                    // While reserves cannot all be there, it depends on the past which of them are.
                    if model.reserves_are_there() && waits.is_empty() {
                        prop_assert_eq!(entered, model.enters(class, weight), "{:?} {}", model.used, model.limit);
                    }
                    if entered {
                        model.admit(class, weight);
                    }
                }
                Operation::Leave(at) if !model.inside.is_empty() => {
                    let (class, weight) = model.inside.swap_remove(at % model.inside.len());
                    model.used[class] -= weight;
                    leave(&gate, class, weight);
                }
                Operation::Arrive(class, weight) => {
                    let ask = Ask { class, tenant: None, weight };
                    match gate.arrive(ask, |_| Ok::<_, ()>(patience(Nanos::NEVER))).expect("may wait") {
                        Arrival::Admitted(_) => model.admit(class, weight),
                        Arrival::Waits(wait) => waits.push((class, weight, wait)),
                        other => prop_assert!(false, "{other:?}"),
                    }
                }
                Operation::Drop(at) if !waits.is_empty() => drop(waits.swap_remove(at % waits.len())),
                Operation::Leave(_) | Operation::Drop(_) => {}
                Operation::SetLimit(limit) => {
                    model.limit = limit;
                    if gate.set_limit(limit) {
                        gate.serve();
                    }
                }
                Operation::Relax => gate.relax(),
            }
            model.take_in(&mut waits);
            gate.serve();
            prop_assert_eq!(model.take_in(&mut waits), 0, "nobody was left who could have been served");
            prop_assert_eq!((0..4).map(|class| used(&gate, class)).collect::<Vec<_>>(), model.used.to_vec());
            prop_assert_eq!(gate.in_flight(), model.used.iter().sum::<u32>());
        }
    }
}

#[test]
fn threads_that_race_each_other_and_the_limit_never_overshoot_and_lose_nothing() {
    let gate = gate_of(
        8,
        vec![
            Class::new("default"),
            Class::new("a").reserve(Share::Fraction(0.25)),
            Class::new("b").reserve(Share::Units(2)).cap(Share::Units(5)),
            Class::new("c").cap(Share::Fraction(0.5)),
        ],
    );
    // The limit only shrinks and grows between 4 and 8, so 8 is never passed; nor is a cap.
    let inside = [const { AtomicI64::new(0) }; 5];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (gate, inside, stop) = (&gate, &inside, &stop);
            scope.spawn(move || {
                for n in 0..30_000_usize {
                    let class = (n + thread) % 4;
                    if try_enter(gate, class, 1).is_ok() {
                        let most = [8, 8, 5, 4][class];
                        assert!(inside[class].fetch_add(1, Ordering::SeqCst) < most, "over the cap of {class}");
                        assert!(inside[4].fetch_add(1, Ordering::SeqCst) < 8, "over the limit");
                        if n % 64 == 0 {
                            std::thread::yield_now();
                        }
                        inside[4].fetch_sub(1, Ordering::SeqCst);
                        inside[class].fetch_sub(1, Ordering::SeqCst);
                        leave(gate, class, 1);
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
        for limit in (4..=8).cycle() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            if gate.set_limit(limit) {
                gate.serve();
            }
            gate.relax();
        }
    });
    assert_eq!((gate.in_flight(), gate.queued()), (0, 0));
    let _ = gate.set_limit(8);
    let all = (0..100).filter(|n| try_enter(&gate, n % 4, 1).is_ok()).count();
    assert_eq!(all, 8, "not one unit is lost");
}
