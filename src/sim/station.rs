//! The downstream: who is being served, how fast, and who is done next.
//!
//! All kinds are one mechanism. Everybody who is served moves at the same speed, a function of how
//! many there are, so a job is done when the work clock (the integral of that speed) reaches the
//! clock at its start plus its work: one heap, ordered once, whatever the speed does. A FIFO has
//! speed 1 and a queue in front of its servers. A full stop stops the work clock.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

use super::scenario::{Downstream, PhaseSpec};

/// A request at the downstream, by its slot. A slot that is used again has another `turn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    pub(super) slot: u32,
    pub(super) turn: u32,
}

#[derive(Clone, Copy, Debug)]
struct Serving {
    done_at: f64,
    job: Job,
}

impl PartialEq for Serving {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Serving {}

impl PartialOrd for Serving {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Serving {
    /// Turned round: the heap gives the largest, and the soonest is wanted.
    fn cmp(&self, other: &Self) -> Ordering {
        other.done_at.total_cmp(&self.done_at).then_with(|| other.job.slot.cmp(&self.job.slot))
    }
}

/// Where a slot's job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Nowhere,
    Queued,
    Served,
}

/// The downstream.
pub(super) struct Station {
    kind: Downstream,
    workers: f64,
    /// The work clock, and the time at which it was read.
    clock: f64,
    read_at: f64,
    speed: f64,
    stopped: bool,
    serving: BinaryHeap<Serving>,
    served: u32,
    queue: VecDeque<(Job, f64)>,
    queued: u32,
    /// By slot: the turn that is here, and where it stands. Others in heap and queue are stale.
    places: Vec<(u32, Place)>,
    quota: Option<f64>,
    tokens: f64,
    tokens_at: f64,
}

impl Station {
    pub(super) fn new(kind: Downstream) -> Self {
        Self {
            kind,
            workers: f64::INFINITY,
            clock: 0.0,
            read_at: 0.0,
            speed: 1.0,
            stopped: false,
            serving: BinaryHeap::new(),
            served: 0,
            queue: VecDeque::new(),
            queued: 0,
            places: Vec::new(),
            quota: None,
            tokens: 0.0,
            tokens_at: 0.0,
        }
    }

    /// Another phase begins. Who is being served stays so, though there be fewer workers.
    pub(super) fn set_phase(&mut self, now: f64, phase: &PhaseSpec) {
        self.advance(now);
        self.workers = phase.workers.unwrap_or(f64::INFINITY);
        if self.quota != phase.quota {
            self.quota = phase.quota;
            self.tokens = self.tokens.min(self.burst());
            self.tokens_at = now;
        }
        self.fill();
    }

    /// Stops the work clock, or lets it go on.
    pub(super) fn set_stopped(&mut self, now: f64, stopped: bool) {
        self.advance(now);
        self.stopped = stopped;
    }

    /// A quota lets a tenth of a second's worth through at once.
    fn burst(&self) -> f64 {
        self.quota.map_or(0.0, |quota| (quota / 10.0).max(1.0))
    }

    /// Whether a quota lets one more request through.
    pub(super) fn takes(&mut self, now: f64) -> bool {
        let Some(quota) = self.quota else { return true };
        self.tokens = (self.tokens + quota * (now - self.tokens_at)).min(self.burst());
        self.tokens_at = now;
        let takes = self.tokens >= 1.0;
        if takes {
            self.tokens -= 1.0;
        }
        takes
    }

    /// A request comes with its work; `false` when the backlog is full.
    pub(super) fn arrive(&mut self, now: f64, job: Job, work: f64) -> bool {
        self.advance(now);
        if self.kind.queues() && f64::from(self.served) + 1.0 > self.workers {
            if matches!(self.kind, Downstream::Fifo { backlog: Some(most) } if self.queued >= most) {
                return false;
            }
            self.queue.push_back((job, work));
            self.queued += 1;
            self.put(job, Place::Queued);
            return true;
        }
        self.serve(job, work);
        self.respeed();
        true
    }

    /// When the next job is done; infinite when none will be.
    pub(super) fn next(&self) -> f64 {
        match self.serving.peek() {
            Some(first) if !self.stopped => self.read_at + (first.done_at - self.clock).max(0.0) / self.speed,
            _ => f64::INFINITY,
        }
    }

    /// Takes out the job that is done at `now`, the time that [`Station::next`] gave.
    pub(super) fn complete(&mut self, now: f64) -> Option<Job> {
        self.advance(now);
        let done = self.serving.pop()?;
        self.clock = self.clock.max(done.done_at);
        self.places[done.job.slot as usize].1 = Place::Nowhere;
        self.served -= 1;
        self.fill();
        Some(done.job)
    }

    /// Takes out a job whose client gave up.
    pub(super) fn cancel(&mut self, now: f64, job: Job) {
        self.advance(now);
        let place = &mut self.places[job.slot as usize];
        debug_assert_eq!(place.0, job.turn, "only a job that is here is cancelled");
        match std::mem::replace(&mut place.1, Place::Nowhere) {
            Place::Served => self.served -= 1,
            Place::Queued => self.queued -= 1,
            Place::Nowhere => {}
        }
        self.fill();
    }

    fn put(&mut self, job: Job, place: Place) {
        let slot = job.slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, (0, Place::Nowhere));
        }
        self.places[slot] = (job.turn, place);
    }

    fn is_at(&self, job: Job, place: Place) -> bool {
        self.places[job.slot as usize] == (job.turn, place)
    }

    fn serve(&mut self, job: Job, work: f64) {
        self.serving.push(Serving { done_at: self.clock + work, job });
        self.served += 1;
        self.put(job, Place::Served);
    }

    /// Free servers take from the queue; stale heads go; the speed follows.
    fn fill(&mut self) {
        while f64::from(self.served) + 1.0 <= self.workers {
            let Some((job, work)) = self.queue.pop_front() else { break };
            if self.is_at(job, Place::Queued) {
                self.queued -= 1;
                self.serve(job, work);
            }
        }
        while self.serving.peek().is_some_and(|first| !self.is_at(first.job, Place::Served)) {
            self.serving.pop();
        }
        self.respeed();
    }

    fn respeed(&mut self) {
        self.speed = self.kind.speed(f64::from(self.served), self.workers);
    }

    fn advance(&mut self, now: f64) {
        if !self.stopped {
            self.clock += self.speed * (now - self.read_at);
        }
        self.read_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(slot: u32) -> Job {
        Job { slot, turn: 1 }
    }

    fn station(kind: Downstream, workers: f64) -> Station {
        let mut station = Station::new(kind);
        station.set_phase(0.0, &PhaseSpec { workers: Some(workers), ..PhaseSpec::default() });
        station
    }

    fn drain(station: &mut Station) -> Vec<(u32, f64)> {
        let mut done = Vec::new();
        while station.next().is_finite() {
            let at = station.next();
            let job = station.complete(at).expect("somebody is served");
            done.push((job.slot, (at * 1e6).round() / 1e6));
        }
        done
    }

    #[test]
    fn a_fifo_serves_in_turn_and_refuses_past_its_backlog() {
        let mut fifo = station(Downstream::Fifo { backlog: Some(1) }, 1.0);
        assert!(fifo.arrive(0.0, job(0), 1.0) && fifo.arrive(0.0, job(1), 2.0));
        assert!(!fifo.arrive(0.5, job(2), 1.0));
        assert_eq!(drain(&mut fifo), [(0, 1.0), (1, 3.0)]);
    }

    #[test]
    fn processor_sharing_shares() {
        let mut ps = station(Downstream::Ps, 1.0);
        ps.arrive(0.0, job(0), 2.0);
        ps.arrive(1.0, job(1), 0.5);
        // From 1 on both at half speed: the second needs 1 s, the first then 0.5 s more alone.
        assert_eq!(drain(&mut ps), [(1, 2.0), (0, 2.5)]);
    }

    #[test]
    fn a_cancelled_job_frees_its_place() {
        for cancelled in [0, 1] {
            let mut fifo = station(Downstream::Fifo { backlog: None }, 1.0);
            for slot in 0..3 {
                fifo.arrive(0.0, job(slot), 1.0);
            }
            fifo.cancel(0.5, job(cancelled));
            let last = drain(&mut fifo).last().copied();
            assert_eq!(last, Some((2, if cancelled == 0 { 2.5 } else { 2.0 })));
        }
    }

    #[test]
    fn a_stop_delays_everybody_by_its_length() {
        let mut fifo = station(Downstream::Fifo { backlog: None }, 2.0);
        fifo.arrive(0.0, job(0), 1.0);
        fifo.set_stopped(0.5, true);
        fifo.arrive(0.6, job(1), 1.0);
        assert!(fifo.next().is_infinite());
        fifo.set_stopped(0.7, false);
        assert_eq!(drain(&mut fifo), [(0, 1.2), (1, 1.7)]);
    }

    #[test]
    fn a_quota_lets_its_rate_through() {
        let mut quota = Station::new(Downstream::Delay);
        quota.set_phase(0.0, &PhaseSpec { quota: Some(100.0), ..PhaseSpec::default() });
        let taken = (0..10_000).filter(|i| quota.takes(f64::from(*i) * 1e-3)).count();
        assert!((990..=1010).contains(&taken), "{taken}");
    }
}
