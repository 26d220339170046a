//! Which keys of a destination are to be left alone, and until when. Pure: time and dice are arguments.
//!
//! A hold is never longer than the cap. A destination that asked for more gets one request when the
//! cap is over, then one at a time, until one of them is answered well: so a 24-hour wait freezes
//! nobody, and is not trampled on either. The number of holds is bounded; when a new one finds no
//! room, the one that would end first makes it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::Nanos;

/// The key that stands for the whole destination.
pub(super) const ALL: &str = "";

/// Longer keys are cut: their beginnings tell them apart, or they share a hold.
const LONGEST_KEY: usize = 256;

/// The holds of one destination.
#[derive(Clone, Debug)]
pub(super) struct Holds {
    cap: Duration,
    jitter: f64,
    most: usize,
    by_key: BTreeMap<Box<str>, Hold>,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    until: Nanos,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// As long as was asked for: when it is over, it is over.
    Told,
    /// Asked for longer than the cap.
    Capped,
    /// One request is on its way to find out.
    Probing,
}

/// A hold as it was opened or lengthened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// From now.
    pub(super) length: Duration,
    /// More was asked for.
    pub(super) capped: bool,
    /// There was none for this key before.
    pub(super) is_new: bool,
}

/// Whether a request may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// Nothing holds it.
    Free,
    /// Not for so long.
    Held(Duration),
}

impl Holds {
    pub(super) fn new(cap: Duration, jitter: f64, most: usize) -> Self {
        Self { cap, jitter, most, by_key: BTreeMap::new() }
    }

    pub(super) fn cap(&self) -> Duration {
        self.cap
    }

    /// Holds that are open are shortened too.
    pub(super) fn set_cap(&mut self, cap: Duration, now: Nanos) {
        self.cap = cap;
        for hold in self.by_key.values_mut().filter(|hold| hold.until > now + cap) {
            *hold = Hold { until: now + cap, phase: Phase::Capped };
        }
    }

    /// Keeps everybody with this key away for `asked`, lengthened by up to the jitter; `roll` lies in
    /// `0.0..1.0`. `None` when it is held for longer already.
    pub(super) fn open(&mut self, key: &str, asked: Duration, now: Nanos, roll: f64) -> Option<Opened> {
        let key = cut(key);
        let capped = asked > self.cap;
        // What is cut short anyway is spread downwards, so that the cap is never exceeded.
        let length = match capped {
            true => self.cap.mul_f64(1.0 - self.jitter * roll),
            false => asked.mul_f64(1.0 + self.jitter * roll).min(self.cap),
        };
        let (until, phase) = (now + length, if capped { Phase::Capped } else { Phase::Told });
        let before = self.by_key.get(key).filter(|hold| hold.is_open(now));
        let is_new = before.is_none();
        if before.is_some_and(|before| before.phase != Phase::Probing && before.until >= until) || length.is_zero() {
            return None;
        }
        if !self.by_key.contains_key(key) {
            self.make_room(now);
        }
        self.by_key.insert(key.into(), Hold { until, phase });
        Some(Opened { length, capped, is_new })
    }

    /// Asks for passage. Whoever may go though a hold stood here is the probe.
    pub(super) fn ask(&mut self, key: &str, now: Nanos) -> Passage {
        let key = cut(key);
        if let Some(left) = self.remaining(key, now) {
            return Passage::Held(left);
        }
        for key in [ALL, key] {
            let Some(hold) = self.by_key.get_mut(key) else { continue };
            if hold.phase == Phase::Told {
                self.by_key.remove(key);
            } else {
                let probe = (self.cap / 6).clamp(Duration::from_secs(1), Duration::from_secs(10));
                *hold = Hold { until: now + probe, phase: Phase::Probing };
            }
        }
        Passage::Free
    }

    /// A good answer came. Whether that ended a hold: only a probe's does, others were under way before.
    pub(super) fn answered_well(&mut self, key: &str) -> bool {
        let mut ended = false;
        for key in [ALL, cut(key)] {
            if self.by_key.get(key).is_some_and(|hold| hold.phase == Phase::Probing) {
                self.by_key.remove(key);
                ended = true;
            }
        }
        ended
    }

    /// Ends all holds.
    pub(super) fn clear(&mut self) {
        self.by_key.clear();
    }

    /// How long this key is still held, by a hold of its own or of the whole destination.
    pub(super) fn remaining(&self, key: &str, now: Nanos) -> Option<Duration> {
        let left = [ALL, cut(key)].into_iter().filter_map(|key| self.by_key.get(key)).map(|hold| hold.until.since(now));
        left.max().filter(|left| !left.is_zero())
    }

    /// How many keys are held, and how long the longest still is.
    pub(super) fn open_now(&self, now: Nanos) -> (usize, Duration) {
        let open = self.by_key.values().filter(|hold| hold.until > now);
        open.fold((0, Duration::ZERO), |(n, longest), hold| (n + 1, longest.max(hold.until.since(now))))
    }

    /// Whether nothing is held or being probed.
    pub(super) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    fn make_room(&mut self, now: Nanos) {
        if self.by_key.len() < self.most {
            return;
        }
        self.by_key.retain(|_, hold| hold.is_open(now));
        if self.by_key.len() >= self.most
            && let Some(first) = self.by_key.iter().min_by_key(|(_, hold)| hold.until).map(|(key, _)| key.clone())
        {
            self.by_key.remove(&first);
        }
    }
}

impl Hold {
    /// A capped hold stays until a probe has come back.
    fn is_open(&self, now: Nanos) -> bool {
        self.until > now || self.phase != Phase::Told
    }
}

fn cut(key: &str) -> &str {
    let mut end = key.len().min(LONGEST_KEY);
    while !key.is_char_boundary(end) {
        end -= 1;
    }
    &key[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAP: Duration = Duration::from_secs(60);

    fn secs(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn at(ms: u64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn a_wait_is_never_cut_below_what_was_asked_and_never_above_the_cap() {
        for roll in [0.0, 0.5, 0.999] {
            for asked in [503, 30_000, 59_999] {
                let mut holds = Holds::new(CAP, 0.1, 8);
                let asked = Duration::from_millis(asked);
                let opened = holds.open("a", asked, at(0), roll).expect("opened");
                assert!(opened.length >= asked && opened.length <= CAP && !opened.capped, "{opened:?}");
            }
            let day = Holds::new(CAP, 0.1, 8).open("a", secs(86_400), at(0), roll).expect("opened");
            assert!(day.capped && day.length <= CAP && day.length >= CAP.mul_f64(0.9), "{day:?}");
        }
    }

    #[test]
    fn a_key_waits_for_its_own_hold_and_for_the_destinations() {
        let mut holds = Holds::new(CAP, 0.0, 8);
        holds.open("acme", secs(2), at(0), 0.0).expect("opened");
        assert_eq!(holds.ask("acme", at(500)), Passage::Held(Duration::from_millis(1500)));
        assert_eq!(holds.ask("other", at(500)), Passage::Free);
        holds.open(ALL, secs(5), at(1000), 0.0).expect("opened");
        assert_eq!(holds.ask("other", at(1000)), Passage::Held(secs(5)));
        assert_eq!(holds.ask("acme", at(5999)), Passage::Held(Duration::from_millis(1)));
        assert_eq!(holds.ask("acme", at(6000)), Passage::Free);
        assert!(holds.is_empty(), "nothing is kept of what is over");
    }

    #[test]
    fn the_longest_of_several_waits_counts_and_only_the_first_is_new() {
        let mut holds = Holds::new(CAP, 0.0, 8);
        assert!(holds.open("a", secs(5), at(0), 0.0).expect("opened").is_new);
        assert_eq!(holds.open("a", secs(2), at(1000), 0.0), None);
        assert!(!holds.open("a", secs(9), at(1000), 0.0).expect("longer").is_new);
        assert_eq!(holds.remaining("a", at(1000)), Some(secs(9)));
    }

    #[test]
    fn after_a_capped_hold_one_at_a_time_goes_until_one_is_answered_well() {
        let mut holds = Holds::new(CAP, 0.0, 8);
        holds.open("a", secs(86_400), at(0), 0.0).expect("opened");
        assert_eq!(holds.ask("a", at(59_999)), Passage::Held(Duration::from_millis(1)));
        assert!(!holds.answered_well("a"), "an older request's answer tells nothing");
        assert_eq!(holds.ask("a", at(60_000)), Passage::Free, "the probe");
        assert_eq!(holds.ask("a", at(60_001)), Passage::Held(Duration::from_millis(9_999)));
        assert_eq!(holds.ask("a", at(70_000)), Passage::Free, "the first probe never came back");
        let again = holds.open("a", secs(86_400), at(70_500), 0.0).expect("refused again");
        assert!(again.capped && !again.is_new);
        assert_eq!(holds.remaining("a", at(70_500)), Some(CAP));
        assert_eq!(holds.ask("a", at(130_500)), Passage::Free);
        assert!(holds.answered_well("a"));
        assert_eq!(holds.ask("a", at(130_501)), Passage::Free);
        assert_eq!(holds.ask("a", at(130_501)), Passage::Free);
    }

    #[test]
    fn the_number_of_holds_is_bounded_and_the_first_to_end_makes_room() {
        let mut holds = Holds::new(CAP, 0.0, 3);
        for (key, length) in [("a", 9), ("b", 3), ("c", 9), ("d", 9)] {
            holds.open(key, secs(length), at(0), 0.0).expect("opened");
        }
        assert_eq!(holds.open_now(at(0)), (3, secs(9)));
        assert_eq!(holds.remaining("b", at(0)), None);
        assert_eq!(holds.remaining("d", at(0)), Some(secs(9)));
    }

    #[test]
    fn a_lower_cap_shortens_what_is_open() {
        let mut holds = Holds::new(CAP, 0.0, 3);
        holds.open("a", secs(40), at(0), 0.0).expect("opened");
        holds.set_cap(secs(5), at(0));
        assert_eq!(holds.remaining("a", at(0)), Some(secs(5)));
    }

    #[test]
    fn long_keys_are_cut_on_a_character() {
        let mut holds = Holds::new(CAP, 0.0, 3);
        let key = "é".repeat(200);
        holds.open(&key, secs(4), at(0), 0.0).expect("opened");
        assert_eq!(holds.remaining(&key, at(0)), Some(secs(4)));
    }
}
