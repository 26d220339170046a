//! Whose turn it is: weighted fair turns between the tenants of a class.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996): a flow's turn has a start tag; the smallest goes
//! first, and its next tag is later by what the turn cost divided by the flow's weight. A flow that was
//! idle starts at the current virtual time, so it has neither debt nor credit, except for its burst
//! credit, which lets it start that much earlier and refills with time.
//!
//! Tenants that were seen often enough have a flow of their own, up to a bound. All others share a few
//! flows by hash, which together weigh as much as one tenant: whoever invents a name for each request
//! wins nothing by it. A plain value; it holds no request.

use std::collections::HashMap;
use std::time::Duration;

use super::seen::Seen;
use crate::time::Nanos;

/// Flows that unknown tenants share, by hash.
const BUCKETS: usize = 8;
/// The flow of those that name no tenant.
const NOBODY: usize = 0;
/// Where the flows of known tenants begin.
const KNOWN: usize = 1 + BUCKETS;

/// How turns are shared between tenants. Tenants go by a hash of their names.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnPolicy {
    /// The most tenants that have a flow of their own.
    pub tracked: u32,
    /// Weights of those that do not weigh 1. They always have a flow of their own.
    pub weights: HashMap<u64, f64>,
    /// Units that a tenant which was idle may be ahead of its turn.
    pub burst: f64,
    /// How long an empty burst credit takes to refill.
    pub refill: Duration,
}

impl Default for TurnPolicy {
    fn default() -> Self {
        Self { tracked: 64, weights: HashMap::new(), burst: 0.0, refill: Duration::from_secs(10) }
    }
}

#[derive(Clone, Debug)]
struct Flow {
    key: Option<u64>,
    weight: f64,
    /// Of the turn that is next.
    start: f64,
    /// Of the turn that was last.
    finish: f64,
    credit: f64,
    last_seen: Nanos,
    backlogged: bool,
}

impl Flow {
    fn new(key: Option<u64>, weight: f64, credit: f64, now: Nanos) -> Self {
        Self { key, weight, start: 0.0, finish: 0.0, credit, last_seen: now, backlogged: false }
    }
}

/// The turns of one class.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    policy: TurnPolicy,
    flows: Vec<Flow>,
    known: HashMap<u64, usize>,
    seen: Seen,
    virtual_time: f64,
}

impl Default for Turns {
    fn default() -> Self {
        Self::new(TurnPolicy::default())
    }
}

impl Turns {
    pub(super) fn new(policy: TurnPolicy) -> Self {
        let bucket = Flow::new(None, 1.0 / BUCKETS as f64, 0.0, Nanos(0));
        let mut flows = vec![bucket; KNOWN];
        flows[NOBODY].weight = 1.0;
        Self { policy, flows, known: HashMap::new(), seen: Seen::default(), virtual_time: 0.0 }
    }

    /// Takes another policy over. Flows keep their turns; those of tenants beyond a smaller bound stay
    /// until they are reused.
    pub(super) fn set_policy(&mut self, policy: TurnPolicy) {
        self.policy = policy;
        for flow in &mut self.flows[KNOWN..] {
            flow.weight = flow.key.and_then(|key| self.policy.weights.get(&key)).copied().unwrap_or(1.0);
            flow.credit = flow.credit.min(self.policy.burst);
        }
        let weights: Vec<_> = self.policy.weights.iter().map(|(key, weight)| (*key, *weight)).collect();
        for (key, weight) in weights {
            if !self.known.contains_key(&key) {
                self.track(key, weight, Nanos(0));
            }
        }
    }

    /// The flow of a tenant that comes to wait.
    pub(super) fn flow_of(&mut self, tenant: Option<u64>, now: Nanos) -> usize {
        let Some(key) = tenant else { return NOBODY };
        if let Some(flow) = self.known.get(&key) {
            return *flow;
        }
        let weight = self.policy.weights.get(&key).copied();
        if weight.is_some() || self.seen.stands_out(key, now) {
            self.track(key, weight.unwrap_or(1.0), now).unwrap_or_else(|| bucket_of(key))
        } else {
            bucket_of(key)
        }
    }

    /// The flow that a tenant would have, without taking note of it.
    pub(super) fn flow_now(&self, tenant: Option<u64>) -> usize {
        tenant.map_or(NOBODY, |key| self.known.get(&key).copied().unwrap_or_else(|| bucket_of(key)))
    }

    fn track(&mut self, key: u64, weight: f64, now: Nanos) -> Option<usize> {
        let flow = Flow::new(Some(key), weight, self.policy.burst, now);
        let most = self.policy.tracked as usize + self.policy.weights.len();
        let at = if self.flows.len() < KNOWN + most {
            self.flows.push(flow);
            self.flows.len() - 1
        } else {
            let idle = (KNOWN..self.flows.len()).filter(|at| !self.flows[*at].backlogged);
            let at = idle.min_by_key(|at| self.flows[*at].last_seen)?;
            if let Some(old) = std::mem::replace(&mut self.flows[at], flow).key {
                self.known.remove(&old);
            }
            at
        };
        self.known.insert(key, at);
        Some(at)
    }

    /// The first request of a flow waits.
    pub(super) fn begins(&mut self, at: usize, now: Nanos) {
        let (burst, refill) = (self.policy.burst, self.policy.refill.as_secs_f64().max(1e-3));
        let flow = &mut self.flows[at];
        if flow.key.is_some() {
            let idle = now.since(flow.last_seen).as_secs_f64();
            flow.credit = (flow.credit + burst * idle / refill).min(burst);
        }
        flow.start = flow.finish.max(self.virtual_time - flow.credit / flow.weight);
        flow.credit -= ((self.virtual_time - flow.start) * flow.weight).clamp(0.0, flow.credit);
        flow.last_seen = now;
        flow.backlogged = true;
    }

    /// A flow had its turn, for `weight` units.
    pub(super) fn had(&mut self, at: usize, weight: u32, now: Nanos) {
        let flow = &mut self.flows[at];
        self.virtual_time = self.virtual_time.max(flow.start);
        flow.finish = flow.start + f64::from(weight) / flow.weight;
        flow.start = flow.finish;
        flow.last_seen = now;
    }

    /// Nobody of a flow waits any more.
    pub(super) fn ends(&mut self, at: usize) {
        self.flows[at].backlogged = false;
    }

    /// Nobody waits any more: nobody is ahead or behind.
    pub(super) fn drained(&mut self) {
        self.virtual_time = self.flows.iter().map(|flow| flow.finish).fold(self.virtual_time, f64::max);
    }

    /// The tag of a flow's next turn; the smallest goes first.
    pub(super) fn start(&self, at: usize) -> f64 {
        self.flows[at].start
    }

    /// A flow's weight.
    pub(super) fn weight(&self, at: usize) -> f64 {
        self.flows[at].weight
    }
}

fn bucket_of(key: u64) -> usize {
    1 + (key % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves `turns` units among flows that always have something to do.
    fn serve(turns: &mut Turns, flows: &[usize], n: usize) -> Vec<usize> {
        let mut served = vec![0; flows.len()];
        for _ in 0..n {
            let next = (0..flows.len())
                .min_by(|a, b| turns.start(flows[*a]).total_cmp(&turns.start(flows[*b])))
                .expect("flows");
            turns.had(flows[next], 1, Nanos(0));
            served[next] += 1;
        }
        served
    }

    fn known(turns: &mut Turns, key: u64) -> usize {
        (0..10).map(|_| turns.flow_of(Some(key), Nanos(0))).last().expect("ten")
    }

    #[test]
    fn turns_are_shared_by_weight() {
        let weights = HashMap::from([(1, 3.0)]);
        let mut turns = Turns::new(TurnPolicy { weights, ..TurnPolicy::default() });
        let flows = [known(&mut turns, 1), known(&mut turns, 2)];
        flows.iter().for_each(|flow| turns.begins(*flow, Nanos(0)));
        assert_eq!(serve(&mut turns, &flows, 400), [300, 100]);
    }

    #[test]
    fn who_was_idle_has_neither_debt_nor_credit() {
        let mut turns = Turns::default();
        let flows = [known(&mut turns, 1), known(&mut turns, 2)];
        turns.begins(flows[0], Nanos(0));
        serve(&mut turns, &flows[..1], 1000);
        turns.begins(flows[1], Nanos(0));
        let served = serve(&mut turns, &flows, 100);
        assert!(served[0].abs_diff(50) <= 1, "{served:?}");
    }

    #[test]
    fn burst_credit_puts_the_idle_ahead_once_and_refills() {
        let mut turns = Turns::new(TurnPolicy { burst: 20.0, ..TurnPolicy::default() });
        let flows = [known(&mut turns, 1), known(&mut turns, 2)];
        turns.begins(flows[0], Nanos(0));
        serve(&mut turns, &flows[..1], 1000);
        for (at, ahead) in [(0_u64, 20), (0, 0), (5, 10), (100, 20)] {
            turns.begins(flows[1], Nanos(at * 1_000_000_000));
            let served = serve(&mut turns, &flows, 100);
            assert!(served[1].abs_diff((100 + ahead) / 2) <= 2, "{served:?} with {ahead} ahead");
            turns.ends(flows[1]);
            serve(&mut turns, &flows[..1], 200);
        }
    }

    #[test]
    fn a_name_for_each_request_weighs_as_much_as_one_tenant() {
        let mut turns = Turns::default();
        let honest = known(&mut turns, 1);
        let mut invented: Vec<_> =
            (1000..50_000_u64).map(|n| turns.flow_of(Some(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)), Nanos(0))).collect();
        assert!(invented.iter().all(|flow| *flow < KNOWN), "none has a flow of its own");
        invented.sort_unstable();
        invented.dedup();
        invented.push(honest);
        invented.iter().for_each(|flow| turns.begins(*flow, Nanos(0)));
        let served = serve(&mut turns, &invented, 1000);
        assert!(served.last().expect("honest").abs_diff(500) <= 8, "{served:?}");
    }

    #[test]
    fn the_number_of_flows_is_bounded_and_the_idle_make_room() {
        let mut turns = Turns::new(TurnPolicy { tracked: 4, ..TurnPolicy::default() });
        let first = known(&mut turns, 0);
        turns.begins(first, Nanos(0));
        for key in 1..100 {
            known(&mut turns, key);
        }
        assert_eq!((turns.flows.len(), turns.known.len()), (KNOWN + 4, 4));
        assert_eq!(turns.flow_now(Some(0)), first, "who waits keeps its flow");
    }
}
