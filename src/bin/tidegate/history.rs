//! The last minutes of every limiter, second by second, and who wants to hear the next one.
//!
//! One sampler serves everybody: it takes a point of each limiter a second, however many look on.
//! Rings, clients and what waits for a client are bounded; who does not keep up is let go and
//! comes back, and the rings fill what was missed.

mod point;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::body::Bytes;
use serde_json::{Map, Value, json};
use tidegate::{Limiter, Snapshot};
use tokio::sync::mpsc;

pub(crate) use point::{COLUMNS, Point};

/// Rings of all limiters, and the clients of the stream.
pub(crate) struct History {
    /// Tells one run of the process from the next.
    boot: String,
    began: Instant,
    began_at: f64,
    seen: Mutex<Seen>,
}

struct Seen {
    sequence: u64,
    at: Duration,
    rings: BTreeMap<Arc<str>, Ring>,
    clients: Vec<mpsc::Sender<Bytes>>,
}

struct Ring {
    last: Snapshot,
    points: VecDeque<(f64, Point)>,
}

/// How often a point is taken.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// The longest ring: five minutes.
const LONGEST: usize = 300;
/// The shortest, when there are many limiters.
const SHORTEST: usize = 60;
/// Points of all limiters together, about 12 MB.
const MOST_POINTS: usize = 120_000;
/// Clients of the stream at a time.
const MOST_CLIENTS: usize = 32;
/// Events that may wait for a client.
const MOST_WAITING: usize = 8;

/// There are as many clients as there may be.
pub(crate) struct Full;

impl History {
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seen = Seen { sequence: 0, at: Duration::ZERO, rings: BTreeMap::new(), clients: Vec::new() };
        Self {
            boot: format!("{:x}-{:x}", std::process::id(), now.as_millis()),
            began: Instant::now(),
            began_at: now.as_secs_f64(),
            seen: Mutex::new(seen),
        }
    }

    pub(crate) fn boot(&self) -> &str {
        &self.boot
    }

    /// Takes a point of each limiter; limiters that are gone are forgotten.
    pub(crate) fn look(&self, limiters: &[Limiter]) {
        self.take(self.began.elapsed(), limiters.iter().map(Limiter::snapshot).collect());
    }

    /// Times are counted from the start by the monotonic clock: they never go back.
    fn take(&self, at: Duration, all: Vec<Snapshot>) {
        let mut seen = self.seen();
        let passed = at.saturating_sub(seen.at).as_secs_f64();
        let keep = kept(all.len());
        let mut rings = BTreeMap::new();
        for now in all {
            let old = seen.rings.remove(&now.name);
            let point = Point::between(old.as_ref().map(|ring| &ring.last), &now, passed);
            let mut points = old.map_or_else(VecDeque::new, |ring| ring.points);
            points.drain(..(points.len() + 1).saturating_sub(keep));
            points.push_back((self.began_at + at.as_secs_f64(), point));
            rings.insert(now.name.clone(), Ring { last: now, points });
        }
        (seen.rings, seen.at) = (rings, at);
        seen.sequence += 1;
    }

    /// The newest point of every limiter; `extra` is added at the top.
    pub(crate) fn now(&self, extra: Map<String, Value>) -> Value {
        let seen = self.seen();
        let limiters: Map<String, Value> =
            seen.rings.iter().map(|(name, ring)| (name.to_string(), ring.newest())).collect();
        let mut all = extra;
        all.insert("boot".to_owned(), json!(self.boot));
        all.insert("sequence".to_owned(), json!(seen.sequence));
        all.insert("at".to_owned(), json!(self.began_at + seen.at.as_secs_f64()));
        all.insert("limiters".to_owned(), Value::Object(limiters));
        Value::Object(all)
    }

    /// All points of one limiter, oldest first, each with its time in front.
    pub(crate) fn of(&self, limiter: &str) -> Option<Value> {
        let seen = self.seen();
        let points: Vec<_> = seen.rings.get(limiter)?.points.iter().map(|(at, point)| point.json(Some(*at))).collect();
        Some(json!({ "boot": self.boot, "limiter": limiter, "columns": COLUMNS, "points": points }))
    }

    /// Limit and units in flight of all limiters over the last minute: enough for a small chart each.
    pub(crate) fn glance(&self) -> Value {
        let seen = self.seen();
        let lines = seen.rings.iter().map(|(name, ring)| {
            let last: Vec<_> =
                ring.points.iter().skip(ring.points.len().saturating_sub(SHORTEST)).map(|(_, p)| p.glance()).collect();
            (name.to_string(), json!(last))
        });
        json!({ "boot": self.boot, "columns": ["limit", "in_flight"], "limiters": lines.collect::<Map<_, _>>() })
    }

    /// A client that gets every event from now on, `first` before them.
    pub(crate) fn join(&self, first: Bytes) -> Result<mpsc::Receiver<Bytes>, Full> {
        let mut seen = self.seen();
        seen.clients.retain(|client| !client.is_closed());
        if seen.clients.len() >= MOST_CLIENTS {
            return Err(Full);
        }
        let (client, events) = mpsc::channel(MOST_WAITING);
        // The channel is new and has room.
        let _ = client.try_send(first);
        seen.clients.push(client);
        Ok(events)
    }

    pub(crate) fn has_clients(&self) -> bool {
        !self.seen().clients.is_empty()
    }

    /// Hands an event to every client. Whoever has no room left is let go.
    pub(crate) fn tell(&self, event: &Bytes) {
        self.seen().clients.retain(|client| client.try_send(event.clone()).is_ok());
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Points that each of so many rings keeps.
fn kept(limiters: usize) -> usize {
    (MOST_POINTS / limiters.max(1)).clamp(SHORTEST, LONGEST)
}

impl Ring {
    fn newest(&self) -> Value {
        let now = &self.last;
        json!({
            "mode": now.mode.as_str(),
            "law": now.law,
            "fallback": now.fallback.map(|kind| kind.as_str()),
            "reason": now.last_decision.as_ref().map(|record| record.reason.as_str()),
            "values": self.points.back().map(|(_, point)| point.json(None)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(name: &str) -> Limiter {
        Limiter::builder(name).bounds(1, 10).build().expect("good bounds")
    }

    fn look(history: &History, second: u64, limiters: &[&Limiter]) {
        let all = limiters.iter().map(|limiter| limiter.snapshot()).collect();
        history.take(Duration::from_secs(second), all);
    }

    fn points(history: &History, name: &str) -> Vec<Value> {
        history.of(name).expect("known")["points"].as_array().expect("a list").clone()
    }

    #[test]
    fn a_ring_holds_five_minutes_and_forgets_the_oldest() {
        let (history, limiter) = (History::new(), limiter("a"));
        for second in 1..=400 {
            look(&history, second, &[&limiter]);
        }
        let points = points(&history, "a");
        assert_eq!(points.len(), LONGEST);
        let time = |i: usize| points[i][0].as_f64().expect("a time");
        assert_eq!((time(299) - time(0)).round(), 299.0);
    }

    #[test]
    fn with_many_limiters_the_rings_are_shorter_but_not_too_short() {
        for (limiters, points) in [(0, 300), (1, 300), (400, 300), (1500, 80), (100_000, 60)] {
            assert_eq!(kept(limiters), points, "{limiters} limiters");
        }
    }

    #[test]
    fn a_limiter_that_is_gone_is_forgotten() {
        let (history, stays, goes) = (History::new(), limiter("stays"), limiter("goes"));
        look(&history, 1, &[&stays, &goes]);
        look(&history, 2, &[&stays]);
        assert!(history.of("goes").is_none());
        assert_eq!(points(&history, "stays").len(), 2);
    }

    #[test]
    fn who_does_not_keep_up_is_let_go_and_others_are_not() {
        let history = History::new();
        let Ok(mut slow) = history.join(Bytes::from_static(b"first")) else { panic!("there is room") };
        let Ok(mut quick) = history.join(Bytes::from_static(b"first")) else { panic!("there is room") };
        for _ in 0..20 {
            history.tell(&Bytes::from_static(b"event"));
            while quick.try_recv().is_ok() {}
        }
        let mut got = 0;
        while slow.try_recv().is_ok() {
            got += 1;
        }
        assert_eq!(got, MOST_WAITING);
        assert_eq!(slow.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
        assert_eq!(quick.try_recv(), Err(mpsc::error::TryRecvError::Empty));
    }

    #[test]
    fn clients_are_bounded_and_one_that_left_makes_room() {
        let history = History::new();
        let mut clients: Vec<_> = (0..MOST_CLIENTS).filter_map(|_| history.join(Bytes::new()).ok()).collect();
        assert!(history.join(Bytes::new()).is_err());
        clients.pop();
        assert!(history.join(Bytes::new()).is_ok());
    }
}
