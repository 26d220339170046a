//! Who is served when there is not enough: tenants and waiting-room orders under virtual time.
//!
//! The shipped word, waiting room, turns and orders in front of a downstream with a fixed limit and
//! exponential service times. It decides nothing of its own; a run is a function of case and seed.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::rng::Rng;
use crate::admission::{Blocked, Capacity, Class, Order, Rooms, Step, TurnPolicy, Waiter, Word};
use crate::time::Nanos;

/// What one tenant asks for.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Requests a second, Poisson.
    pub rate: f64,
    /// Whether it has another name for each request.
    pub invents_names: bool,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Case {
    /// Requests in flight at a time.
    pub limit: u32,
    /// Mean service time in seconds.
    pub service_s: f64,
    /// How many may wait, and how long at most, in seconds.
    pub room: (u32, f64),
    /// How long a client waits for its answer, in seconds; it leaves the room then, and a later answer
    /// is of no use to it.
    pub deadline_s: f64,
    /// How long requests arrive, in seconds.
    pub seconds: f64,
    /// The order of the waiting room.
    pub order: Order,
    /// Turns by tenant; in order of arrival without.
    pub turns: Option<TurnPolicy>,
    /// Who asks.
    pub tenants: Vec<Load>,
    /// From so many seconds on rates are multiplied by this, for so long; for ever repeated after as long
    /// a pause as the first. `None`: rates are steady.
    pub bursts: Option<(f64, f64, f64)>,
}

/// What became of one tenant's requests.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Requests.
    pub arrived: u64,
    /// Answered.
    pub answered: u64,
    /// Answered within the deadline.
    pub good: u64,
    latencies: Vec<f64>,
}

impl Served {
    /// A quantile of the latencies of those that were answered in time, in seconds; 0 when there is none.
    pub fn latency(&self, q: f64) -> f64 {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = ((sorted.len() as f64 * q) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(at).copied().unwrap_or(0.0)
    }
}

/// Jain's index of fairness: 1 when all have the same, `1/n` when one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (shares.len() as f64 * squares) } else { 1.0 }
}

#[derive(Clone, Copy, Debug)]
struct Asked {
    tenant: usize,
    at: Nanos,
}

struct Inside<'a>(&'a Cell<Word>);

impl Capacity for Inside<'_> {
    type Entered = ();

    fn claims(&self, _: usize, _: u32) -> bool {
        false
    }

    fn enter(&self, _: usize, weight: u32, _: bool) -> Result<(), Blocked> {
        let word = self.0.get();
        if !word.admits_waiter(weight) {
            return Err(Blocked::Shared);
        }
        self.0.set(word.enter(weight));
        Ok(())
    }
}

struct Run<'a> {
    case: &'a Case,
    word: Cell<Word>,
    rooms: Rooms<Asked>,
    /// Requests in flight, by their end.
    ends: BinaryHeap<Reverse<(Nanos, usize, Nanos)>>,
    service: Rng,
    served: Vec<Served>,
    names: u64,
}

/// Runs a case; one line for each tenant.
pub fn run(case: &Case, seed: u64) -> Vec<Served> {
    let mut rooms = Rooms::default();
    rooms.configure(&[Class::new("all").order(case.order)]);
    if let Some(turns) = &case.turns {
        rooms.set_turns(turns);
    }
    let mut run = Run {
        case,
        word: Cell::new(Word::new(case.limit)),
        rooms,
        ends: BinaryHeap::new(),
        service: Rng::new(seed, 0),
        served: vec![Served::default(); case.tenants.len()],
        names: 1 << 32,
    };
    let mut rngs: Vec<_> = (0..case.tenants.len()).map(|tenant| Rng::new(seed, 1 + tenant as u64)).collect();
    let mut arrivals: BinaryHeap<_> = (0..case.tenants.len())
        .map(|tenant| Reverse((run.next_arrival(0.0, tenant, &mut rngs[tenant]), tenant)))
        .collect();
    while let Some(Reverse((at, tenant))) = arrivals.pop() {
        run.finish_until(at);
        run.arrive(at, tenant);
        let next = run.next_arrival(at.as_secs_f64(), tenant, &mut rngs[tenant]);
        if next.as_secs_f64() < case.seconds {
            arrivals.push(Reverse((next, tenant)));
        }
    }
    run.finish_until(Nanos::NEVER);
    run.served
}

impl Run<'_> {
    fn next_arrival(&self, now: f64, tenant: usize, rng: &mut Rng) -> Nanos {
        let factor = self.case.bursts.map_or(1.0, |(every, lasts, factor)| {
            let into = now % (every + lasts);
            if into >= every { factor } else { 1.0 }
        });
        Nanos::from_secs_f64(now + rng.exp() / (self.case.tenants[tenant].rate * factor))
    }

    /// Everything that ends before `until`.
    fn finish_until(&mut self, until: Nanos) {
        while let Some(Reverse((end, tenant, asked))) =
            self.ends.peek().copied().filter(|Reverse((end, ..))| *end <= until)
        {
            self.ends.pop();
            self.word.set(self.word.get().leave(1));
            let latency = end.since(asked).as_secs_f64();
            let served = &mut self.served[tenant];
            served.answered += 1;
            if latency <= self.case.deadline_s {
                served.good += 1;
                served.latencies.push(latency);
            }
            self.serve(end);
        }
    }

    fn arrive(&mut self, now: Nanos, tenant: usize) {
        self.served[tenant].arrived += 1;
        self.serve(now);
        let asked = Asked { tenant, at: now };
        if self.rooms.is_empty() && Inside(&self.word).enter(0, 1, false).is_ok() {
            self.begin(now, asked);
            return;
        }
        let name = self.case.turns.as_ref().map(|_| {
            self.names += u64::from(self.case.tenants[tenant].invents_names);
            let name = if self.case.tenants[tenant].invents_names { self.names } else { tenant as u64 };
            // Names are hashes.
            (name + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
        let (most, longest) = self.case.room;
        if self.rooms.make_room(now, (0, name), most, most).is_ok() {
            let waits = longest.min(self.case.deadline_s);
            let deadline = Nanos::from_secs_f64(now.as_secs_f64() + waits);
            self.rooms.push(now, 0, name, Waiter { weight: 1, deadline, payload: asked });
        }
    }

    fn serve(&mut self, now: Nanos) {
        loop {
            match self.rooms.step(now, &Inside(&self.word)) {
                Step::Admitted(waiter, ()) => self.begin(now, waiter.payload),
                Step::Expired(_) => {}
                Step::Nobody { .. } => return,
            }
        }
    }

    fn begin(&mut self, now: Nanos, asked: Asked) {
        let end = Nanos::from_secs_f64(now.as_secs_f64() + self.service.exp() * self.case.service_s);
        self.ends.push(Reverse((end, asked.tenant, asked.at)));
    }
}
