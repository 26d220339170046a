//! The part of the waiting room that belongs to one class: who is next, by turns and by order.
//!
//! Between tenants the turns decide, within a tenant the order does. A plain value: it admits
//! nobody, and whoever gives up leaves from any place.

use super::class::Class;
use super::order::{End, Order, Standing};
use super::room::{Ticket, Waiter, WaitingRoom};
use super::turns::{TurnPolicy, Turns};
use crate::time::Nanos;

/// Somebody who waits, with what the room notes about it.
#[derive(Debug)]
struct Noted<T> {
    arrived: Nanos,
    seq: u64,
    payload: T,
}

/// A place in a class's room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    flow: u32,
    ticket: Ticket,
}

/// Who is next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) place: Place,
    pub(super) weight: u32,
    /// Its number among all arrivals.
    pub(super) seq: u64,
    /// Whether it has waited too long: then it leaves without entering.
    pub(super) expired: bool,
}

#[derive(Debug)]
pub(super) struct ClassRoom<T> {
    pub(super) priority: u8,
    order: Order,
    standing: Standing,
    turns: Turns,
    flows: Vec<WaitingRoom<Noted<T>>>,
    /// The flows in which somebody waits.
    backlogged: Vec<u32>,
    len: u32,
}

impl<T> Default for ClassRoom<T> {
    fn default() -> Self {
        Self {
            priority: Class::USUAL_PRIORITY,
            order: Order::default(),
            standing: Standing::default(),
            turns: Turns::default(),
            flows: Vec::new(),
            backlogged: Vec::new(),
            len: 0,
        }
    }
}

impl<T> ClassRoom<T> {
    pub(super) fn configure(&mut self, class: &Class) {
        (self.priority, self.order) = (class.rank(), class.room_order());
    }

    pub(super) fn set_turns(&mut self, policy: TurnPolicy) {
        self.turns.set_policy(policy);
    }

    pub(super) fn push(&mut self, now: Nanos, seq: u64, tenant: Option<u64>, waiter: Waiter<T>) -> Place {
        let flow = self.turns.flow_of(tenant, now);
        while self.flows.len() <= flow {
            self.flows.push(WaitingRoom::default());
        }
        if self.flows[flow].is_empty() {
            self.turns.begins(flow, now);
            self.backlogged.push(flow as u32);
        }
        self.standing.came(now);
        self.len += 1;
        let Waiter { weight, deadline, payload } = waiter;
        let payload = Noted { arrived: now, seq, payload };
        let ticket = self.flows[flow].push(Waiter { weight, deadline, payload });
        Place { flow: flow as u32, ticket }
    }

    /// Who is next at `now`. Those who have waited too long come before all others.
    pub(super) fn next(&self, now: Nanos) -> Option<Next> {
        let too_old = self.standing.too_old(self.order, now);
        let end = self.standing.next(self.order, now);
        let mut best: Option<(f64, u64, Next)> = None;
        for flow in &self.backlogged {
            let room = &self.flows[*flow as usize];
            let (oldest, newest) = (room.first()?, room.last()?);
            let next = |waiter: &Waiter<Noted<T>>, ticket: Option<Ticket>, expired| {
                let place = Place { flow: *flow, ticket: ticket? };
                Some(Next { place, weight: waiter.weight, seq: waiter.payload.seq, expired })
            };
            if oldest.deadline <= now || too_old.is_some_and(|too_old| oldest.payload.arrived <= too_old) {
                return next(oldest, room.first_ticket(), true);
            }
            let candidate = match end {
                End::Oldest => next(oldest, room.first_ticket(), false)?,
                End::Newest => next(newest, room.last_ticket(), newest.deadline <= now)?,
            };
            if candidate.expired {
                return Some(candidate);
            }
            let (start, seq) = (self.turns.start(*flow as usize), oldest.payload.seq);
            if best.as_ref().is_none_or(|(least, first, _)| (start, seq) < (*least, *first)) {
                best = Some((start, seq, candidate));
            }
        }
        best.map(|(_, _, next)| next)
    }

    /// Takes out somebody who enters: its tenant has had its turn.
    pub(super) fn take(&mut self, next: &Next, now: Nanos) -> Waiter<T> {
        self.turns.had(next.place.flow as usize, next.weight, now);
        self.remove(next.place)
    }

    /// Takes out somebody who does not enter.
    pub(super) fn remove(&mut self, place: Place) -> Waiter<T> {
        let room = &mut self.flows[place.flow as usize];
        let Waiter { weight, deadline, payload } = room.remove(place.ticket);
        self.len -= 1;
        if room.is_empty() {
            self.turns.ends(place.flow as usize);
            self.backlogged.retain(|flow| *flow != place.flow);
        }
        if self.len == 0 {
            self.standing.drained();
            self.turns.drained();
        }
        Waiter { weight, deadline, payload: payload.payload }
    }

    pub(super) fn get_mut(&mut self, place: Place) -> &mut T {
        &mut self.flows[place.flow as usize].get_mut(place.ticket).payload.payload
    }

    /// Whose place a newcomer of `tenant` takes when the room is full: the one that would be served
    /// last of the tenant that has most waiting for its weight, when that is more than the newcomer's
    /// tenant would have.
    pub(super) fn place_for(&self, tenant: Option<u64>, now: Nanos) -> Option<Place> {
        let own = self.turns.flow_now(tenant);
        let load = |flow: usize, len: u32| f64::from(len) / self.turns.weight(flow);
        let own_load = load(own, self.flows.get(own).map_or(0, WaitingRoom::len) + 1);
        let heaviest = self.heaviest()?;
        (heaviest != own && load(heaviest, self.flows[heaviest].len()) > own_load)
            .then(|| self.last_served(heaviest, now))?
    }

    /// The one that would be served last of the tenant that has most waiting for its weight.
    pub(super) fn least_urgent(&self, now: Nanos) -> Option<Place> {
        self.last_served(self.heaviest()?, now)
    }

    fn heaviest(&self) -> Option<usize> {
        let load = |flow: usize| f64::from(self.flows[flow].len()) / self.turns.weight(flow);
        self.backlogged.iter().map(|flow| *flow as usize).max_by(|a, b| load(*a).total_cmp(&load(*b)))
    }

    fn last_served(&self, flow: usize, now: Nanos) -> Option<Place> {
        let ticket = match self.standing.next(self.order, now) {
            End::Oldest => self.flows[flow].last_ticket(),
            End::Newest => self.flows[flow].first_ticket(),
        };
        Some(Place { flow: flow as u32, ticket: ticket? })
    }

    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// How many of this class are served before a newcomer of `tenant`, about.
    pub(super) fn ahead(&self, tenant: Option<u64>, now: Nanos) -> u32 {
        if self.standing.next(self.order, now) == End::Newest {
            return 0;
        }
        let own = self.turns.flow_now(tenant);
        let before = f64::from(self.flows.get(own).map_or(0, WaitingRoom::len));
        let weight = self.turns.weight(own);
        let of_others =
            |flow: usize| f64::from(self.flows[flow].len()).min((before + 1.0) * self.turns.weight(flow) / weight);
        let others = self.backlogged.iter().map(|flow| *flow as usize).filter(|flow| *flow != own);
        (before + others.map(of_others).sum::<f64>()) as u32
    }
}
