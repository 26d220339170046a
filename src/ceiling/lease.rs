//! How much of a shared ceiling a process asks for, and when.
//!
//! A lease is sized by demand: what is waited for, and what the recent rate of use will need until
//! half of a lease's life is over. It lives only as long as the store says, so that units granted in
//! one moment cannot pile up and be used in another. By then time has paid all of it off in the store's
//! bucket, so what is left over is worth something only earlier: at half of its life what demand will
//! not need is given back.
//!
//! A plain value: it is told the time, what it sees of its ceiling, and what the store answered.

use std::time::Duration;

use super::store::Answer;
use crate::time::Nanos;

/// A process that asks for nothing says at least so often that it is there.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// Demand is measured over at least so long.
const MEASURED: Duration = Duration::from_millis(5);

/// Units at hand, until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// How many.
    pub units: u32,
    /// They may not be used from here on.
    pub until: Nanos,
}

/// What there is to see of a ceiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Units used since the beginning.
    pub used: u64,
    /// Units at hand that may still be used.
    pub at_hand: u32,
    /// When the first of them may not be used any more.
    pub until: Nanos,
    /// Units that are waited for.
    pub waited_for: u64,
    /// Units that were asked for in vain since the last request.
    pub missed: u32,
    /// Something is to be told at once: units to give back, a throttle.
    pub news: bool,
}

/// Sizes leases and says when the next request is due.
#[derive(Clone, Debug)]
pub struct Lease {
    demand: f64,
    used: u64,
    measured: Nanos,
    last: u32,
    ran_dry: bool,
    life: Duration,
    most: u32,
    asked: Nanos,
    not_before: Nanos,
}

impl Lease {
    /// Nothing was asked yet.
    pub fn new(now: Nanos) -> Self {
        Self {
            demand: 0.0,
            used: 0,
            measured: now,
            last: 0,
            ran_dry: false,
            life: Duration::ZERO,
            most: 1,
            asked: now,
            not_before: now,
        }
    }

    /// How many units to ask for.
    pub fn want(&mut self, now: Nanos, seen: &Seen) -> u32 {
        self.measure(now, seen.used);
        let pressing = seen.waited_for.saturating_add(u64::from(seen.missed)).min(u64::from(self.most));
        let pressing = u32::try_from(pressing).unwrap_or(u32::MAX);
        if pressing > 0 && seen.at_hand == 0 {
            self.ran_dry = true;
        }
        let foreseen = (self.demand * self.life.as_secs_f64() / 2.0) as u32;
        let foreseen = if self.ran_dry { foreseen.max(self.last.saturating_mul(2)) } else { foreseen };
        let enough = pressing.saturating_add(foreseen).min(self.most);
        if seen.at_hand > self.low() && u64::from(seen.at_hand) >= u64::from(pressing) {
            return 0;
        }
        enough.saturating_sub(seen.at_hand)
    }

    /// The store answered a request for `want` that was sent at `sent`. `jitter` lies in `0.0..1.0`.
    ///
    /// Gives what may be used; nothing when the answer came too late for that.
    pub fn answered(&mut self, now: Nanos, sent: Nanos, want: u32, answer: &Answer, jitter: f64) -> Option<Batch> {
        self.life = answer.life;
        self.most = ((answer.rate * answer.life.as_secs_f64()) as u32).max(1);
        self.asked = now;
        self.not_before = now;
        if answer.granted > 0 {
            self.last = answer.granted;
        }
        if answer.granted < want && !answer.wait.is_zero() {
            // Others want it too. Coming back at once would only cost round trips: what the store can
            // save up meanwhile is not lost.
            let pause = answer.wait.max(answer.life / 8);
            self.not_before = now + pause.mul_f64(1.0 + 0.25 * jitter);
        }
        self.ran_dry = false;
        let until = sent + answer.life;
        (answer.granted > 0 && now < until).then_some(Batch { units: answer.granted, until })
    }

    /// How many units to keep, when half of the lease's life is over and demand needs fewer than there
    /// are.
    pub fn surplus(&mut self, now: Nanos, seen: &Seen) -> Option<u32> {
        self.measure(now, seen.used);
        let left = seen.until.since(now);
        let half = seen.at_hand > 0 && left <= self.life / 2 && !left.is_zero();
        let keep = (self.demand * left.as_secs_f64() * 2.0).ceil() as u32;
        let keep = keep.saturating_add(u32::try_from(seen.waited_for).unwrap_or(u32::MAX));
        (half && keep < seen.at_hand).then_some(keep)
    }

    /// When the next request is due, or the next look at what is at hand.
    pub fn due(&mut self, now: Nanos, seen: &Seen) -> Nanos {
        if seen.news {
            return now;
        }
        if self.want(now, seen) > 0 {
            return self.not_before.max(now);
        }
        let heartbeat = self.asked + HEARTBEAT;
        // Until half of the lease's life is over there is nothing to give back.
        let half = seen.until - self.life / 2;
        if seen.at_hand > 0 && half > now { heartbeat.min(half) } else { heartbeat }
    }

    /// With fewer units than this at hand, the next lease is fetched.
    pub fn low(&self) -> u32 {
        self.last / 2
    }

    fn measure(&mut self, now: Nanos, used: u64) {
        let passed = now.since(self.measured);
        if passed >= MEASURED {
            let rate = used.saturating_sub(self.used) as f64 / passed.as_secs_f64();
            self.demand = f64::midpoint(self.demand, rate);
            (self.used, self.measured) = (used, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    fn answer(granted: u32) -> Answer {
        Answer { granted, life: 50 * MS, wait: 10 * MS, rate: 10_000.0, members: 4 }
    }

    #[test]
    fn a_process_at_rest_asks_for_nothing_and_says_that_it_is_there() {
        let mut lease = Lease::new(at(0));
        let seen = Seen::default();
        assert_eq!(lease.want(at(5), &seen), 0);
        lease.answered(at(5), at(5), 0, &answer(0), 0.0);
        assert_eq!(lease.due(at(6), &seen), at(5) + HEARTBEAT);
    }

    #[test]
    fn leases_grow_with_demand_and_shrink_without() {
        let mut lease = Lease::new(at(0));
        let mut seen = Seen { waited_for: 1, ..Seen::default() };
        assert_eq!(lease.want(at(1), &seen), 1);
        assert!(lease.answered(at(1), at(1), 1, &answer(1), 0.0).is_some());
        // 4,000 a second.
        for ms in (5..100).step_by(5) {
            seen = Seen { used: 4 * ms, ..Seen::default() };
            lease.want(at(ms), &seen);
        }
        seen.used = 400;
        let want = lease.want(at(100), &seen);
        assert!((80..=105).contains(&want), "{want}");
        for ms in (105..500).step_by(5) {
            lease.want(at(ms), &seen);
        }
        assert_eq!(lease.want(at(500), &seen), 0);
    }

    #[test]
    fn one_that_ran_dry_asks_for_more_than_it_had() {
        let mut lease = Lease::new(at(0));
        lease.answered(at(1), at(1), 10, &answer(10), 0.0);
        let seen = Seen { used: 10, missed: 3, ..Seen::default() };
        assert_eq!(lease.want(at(2), &seen), 23);
    }

    #[test]
    fn what_is_left_at_half_of_its_life_is_given_back_and_a_late_answer_is_of_no_use() {
        let mut lease = Lease::new(at(0));
        let batch = lease.answered(at(11), at(10), 10, &answer(10), 0.0).expect("in time");
        assert_eq!(batch, Batch { units: 10, until: at(60) });
        let seen = Seen { at_hand: 10, until: batch.until, ..Seen::default() };
        assert_eq!(lease.due(at(12), &seen), at(35));
        assert_eq!(lease.surplus(at(34), &seen), None);
        assert_eq!(lease.surplus(at(35), &seen), Some(0));
        assert_eq!(lease.due(at(36), &seen), at(11) + HEARTBEAT);
        assert_eq!(lease.answered(at(60), at(10), 10, &answer(10), 0.0), None);
    }

    #[test]
    fn one_that_got_less_than_it_wanted_lets_the_store_save_up() {
        let mut lease = Lease::new(at(0));
        let seen = Seen { waited_for: 9, ..Seen::default() };
        lease.answered(at(0), at(0), 9, &answer(2), 0.5);
        assert_eq!(lease.due(at(1), &seen), at(0) + Duration::from_micros(11_250));
        assert_eq!(lease.due(at(1), &Seen { news: true, ..seen }), at(1));
    }
}
