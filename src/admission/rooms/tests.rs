//! Who enters next, in plain steps, against the plainest capacity there is.

use std::cell::RefCell;
use std::time::Duration;

use super::*;
use crate::admission::Order;

const MS: u64 = 1_000_000;

/// Counts units: what each class has of its own, and what all share.
#[derive(Default)]
struct Plain {
    own: RefCell<Vec<u32>>,
    shared: RefCell<u32>,
    claims: Vec<bool>,
    capped: Vec<bool>,
}

impl Capacity for Plain {
    type Entered = ();

    fn claims(&self, class: usize, _: u32) -> bool {
        self.claims.get(class).copied().unwrap_or(false)
    }

    fn enter(&self, class: usize, weight: u32, own_only: bool) -> Result<(), Blocked> {
        if self.capped.get(class).copied().unwrap_or(false) {
            return Err(Blocked::Class);
        }
        if let Some(own) = self.own.borrow_mut().get_mut(class)
            && *own >= weight
        {
            *own -= weight;
            return Ok(());
        }
        let mut shared = self.shared.borrow_mut();
        if own_only || *shared < weight {
            return Err(Blocked::Shared);
        }
        *shared -= weight;
        Ok(())
    }
}

fn shared(units: u32) -> Plain {
    Plain { shared: RefCell::new(units), ..Plain::default() }
}

fn rooms(classes: &[Class]) -> Rooms<u32> {
    let mut rooms = Rooms::default();
    rooms.configure(classes);
    rooms
}

/// Tenants 7 and 8 are known.
fn with_tenants(mut rooms: Rooms<u32>) -> Rooms<u32> {
    let weights = [(7, 1.0), (8, 1.0)].into_iter().collect();
    rooms.set_turns(&TurnPolicy { weights, ..TurnPolicy::default() });
    rooms
}

fn push(rooms: &mut Rooms<u32>, at_ms: u64, class: usize, tenant: Option<u64>, name: u32) -> Spot {
    let waiter = Waiter { weight: 1, deadline: Nanos::NEVER, payload: name };
    rooms.push(Nanos(at_ms * MS), class, tenant, waiter)
}

/// Everybody who leaves the room at this time, in order; the expired as negative numbers.
fn served(rooms: &mut Rooms<u32>, at_ms: u64, capacity: &Plain) -> Vec<i64> {
    let mut served = Vec::new();
    loop {
        match rooms.step(Nanos(at_ms * MS), capacity) {
            Step::Admitted(waiter, ()) => served.push(i64::from(waiter.payload)),
            Step::Expired(waiter) => served.push(-i64::from(waiter.payload)),
            Step::Nobody { .. } => return served,
        }
    }
}

#[test]
fn without_classes_it_is_a_plain_queue() {
    let mut rooms = rooms(&[]);
    let spots: Vec<_> = (1..=4).map(|name| push(&mut rooms, 0, 0, None, name)).collect();
    assert_eq!(rooms.remove(spots[1]).payload, 2);
    assert_eq!(served(&mut rooms, 0, &shared(2)), [1, 3]);
    assert_eq!(rooms.len(), 1);
}

#[test]
fn claims_go_first_then_priorities_then_arrival() {
    let mut rooms =
        rooms(&[Class::new("a"), Class::new("b"), Class::new("c").priority(200), Class::new("d").priority(1)]);
    for (name, class) in [(1, 0), (2, 1), (3, 0), (4, 2), (5, 3)] {
        push(&mut rooms, 0, class, None, name);
    }
    let capacity = Plain { claims: vec![false, false, false, true], ..shared(5) };
    assert_eq!(served(&mut rooms, 0, &capacity), [5, 4, 1, 2, 3]);
}

#[test]
fn a_class_at_its_cap_keeps_nobody_else_waiting() {
    let mut rooms = rooms(&[Class::new("a").priority(200), Class::new("b")]);
    push(&mut rooms, 0, 0, None, 1);
    push(&mut rooms, 0, 1, None, 2);
    let capacity = Plain { capped: vec![true], ..shared(5) };
    assert_eq!(served(&mut rooms, 0, &capacity), [2]);
    assert!(matches!(rooms.step(Nanos(0), &capacity), Step::Nobody { for_shared: false }));
}

#[test]
fn who_does_not_fit_into_what_all_share_keeps_those_behind_out_but_for_units_of_their_own() {
    let mut rooms = rooms(&[Class::new("a").priority(200), Class::new("b"), Class::new("c")]);
    let heavy = Waiter { weight: 9, deadline: Nanos::NEVER, payload: 1 };
    rooms.push(Nanos(0), 0, None, heavy);
    push(&mut rooms, 0, 1, None, 2);
    push(&mut rooms, 0, 2, None, 3);
    let capacity = Plain { own: RefCell::new(vec![0, 0, 1]), ..shared(5) };
    assert_eq!(served(&mut rooms, 0, &capacity), [3]);
    assert!(matches!(rooms.step(Nanos(0), &capacity), Step::Nobody { for_shared: true }));
}

#[test]
fn a_full_room_makes_room_at_the_cost_of_a_lower_priority_and_never_of_a_higher() {
    let mut rooms = rooms(&[Class::new("a").priority(200), Class::new("b").priority(50)]);
    (1..=2).for_each(|name| {
        push(&mut rooms, 0, 1, None, name);
    });
    let evicted = rooms.make_room(Nanos(0), (0, None), 10, 2).expect("room").expect("somebody");
    assert_eq!(evicted.payload, 2, "the newest of the lowest priority");
    push(&mut rooms, 0, 0, None, 3);
    assert!(rooms.make_room(Nanos(0), (1, None), 10, 2).is_err());
    assert!(rooms.make_room(Nanos(0), (1, None), 10, 3).expect("room").is_none());
    assert!(rooms.make_room(Nanos(0), (0, None), 1, 10).is_err(), "the class's own bound");
}

#[test]
fn a_full_room_makes_room_for_a_quiet_tenant_at_the_cost_of_a_loud_one() {
    let mut rooms = with_tenants(rooms(&[]));
    (1..=10).for_each(|name| {
        push(&mut rooms, 0, 0, Some(7), name);
    });
    assert!(rooms.make_room(Nanos(0), (0, Some(7)), 10, 10).is_err(), "not for its own");
    let evicted = rooms.make_room(Nanos(0), (0, Some(8)), 10, 10).expect("room").expect("somebody");
    assert_eq!(evicted.payload, 10);
    push(&mut rooms, 0, 0, Some(8), 11);
    assert_eq!(served(&mut rooms, 0, &shared(3)).iter().filter(|name| **name == 11).count(), 1, "its turn comes soon");
}

#[test]
fn a_standing_queue_serves_the_newest_and_lets_the_old_go() {
    let mut rooms = rooms(&[Class::new("a").order(Order::Adaptive { target: Duration::from_millis(10) })]);
    for (name, at) in [(1, 0), (2, 4), (3, 9), (4, 12)] {
        push(&mut rooms, at, 0, None, name);
    }
    assert_eq!(served(&mut rooms, 9, &shared(1)), [1], "in order while it is young");
    assert_eq!(served(&mut rooms, 15, &shared(1)), [-2, 4], "2 has waited for more than the target");
    assert_eq!(served(&mut rooms, 16, &shared(5)), [3]);
    (5..=6).for_each(|name| {
        push(&mut rooms, 17, 0, None, name);
    });
    assert_eq!(served(&mut rooms, 18, &shared(5)), [5, 6], "it had drained");
}

#[test]
fn expired_waiters_leave_without_a_place_and_without_a_turn() {
    let mut rooms = rooms(&[]);
    for name in 1..=3 {
        let deadline = if name == 3 { Nanos::NEVER } else { Nanos(5 * MS) };
        rooms.push(Nanos(0), 0, None, Waiter { weight: 1, deadline, payload: name });
    }
    assert_eq!(served(&mut rooms, 5, &shared(1)), [-1, -2, 3]);
    assert!(rooms.is_empty());
}

#[test]
fn what_is_ahead_follows_priorities_and_turns() {
    let mut rooms = with_tenants(rooms(&[Class::new("a").priority(200), Class::new("b")]));
    push(&mut rooms, 0, 0, None, 0);
    (1..=20).for_each(|name| {
        push(&mut rooms, 0, 1, Some(7), name);
    });
    let now = Nanos(0);
    assert_eq!(rooms.ahead(now, 0, None), 1);
    assert_eq!(rooms.ahead(now, 1, Some(7)), 1 + 20);
    assert!(rooms.ahead(now, 1, Some(8)) <= 3, "it waits for its turn, not for all of them");
}
