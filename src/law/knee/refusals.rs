//! What to do when the downstream refuses or lets requests time out.
//!
//! A refusal (429, or a 503 that comes fast) says how far over we are: one cut by its share, at
//! most by half, a mean latency, but not below what was served beside it. A time-out says it late: a fixed cut. Then a pause, and slow steps
//! while near the level that was refused. A few refusals are tolerated: at a limit of 4, two of
//! them must not cost a whole unit.

use crate::outcome::Outcome;
use crate::time::Nanos;
use crate::window::Window;

/// Refusals are tolerated up to this share of the answers, or fewer than [`TOLERATED`] of them.
const TOLERATED_SHARE: f64 = 0.06;
const TOLERATED: f64 = 2.0;
/// The deepest cut for refusals.
const DEEPEST: f64 = 0.5;
/// A cut for refusals leaves so much of what the downstream took in: refusals take no room there.
const LEFT: f64 = 1.2;
/// Time-outs above this share cut by [`CUT`].
const TIMED_OUT_SHARE: f64 = 0.25;
const CUT: f64 = 0.6;
/// The pause after a cut, in mean latencies: doubles when growth meets refusals again.
const PAUSE: (f64, f64) = (2.0, 8.0);
/// The ceiling climbs by this factor a step.
const CLIMB: f64 = 1.1;
/// So many cuts in a row that change nothing say that shedding does not help.
const FUTILE_CUTS: u32 = 6;

/// Answers of a stretch, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    refused: f64,
    timed_out: f64,
    all: f64,
}

/// Why a cut is due, and to what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cut {
    Refused(f64),
    TimedOut(f64),
    /// Cuts change nothing: no more of them below this limit.
    Futile(f64),
}

#[derive(Clone, Debug)]
pub(super) struct Refusals {
    /// The limit may not pass this: infinite when nothing was refused lately.
    ceiling: f64,
    pause: f64,
    until: Nanos,
    since: Nanos,
    cut_at: Nanos,
    seen: Answers,
    /// Time in flight of those that were served and of those that were refused, in seconds.
    spent: [f64; 2],
    units: f64,
    /// Cuts in a row without effect, the limit before them and the share of failures then.
    cuts: u32,
    before: f64,
    share: f64,
    futile: bool,
}

impl Refusals {
    pub(super) fn new() -> Self {
        Self {
            ceiling: f64::INFINITY,
            pause: PAUSE.0,
            until: Nanos(0),
            since: Nanos(0),
            cut_at: Nanos(0),
            seen: Answers::default(),
            spent: [0.0; 2],
            units: 0.0,
            cuts: 0,
            before: 0.0,
            share: 0.0,
            futile: false,
        }
    }

    /// From when on answers are counted.
    pub(super) fn since(&self) -> Nanos {
        self.since
    }

    /// The limit may not pass this.
    pub(super) fn ceiling(&self) -> f64 {
        self.ceiling
    }

    /// Whether several cuts in a row changed nothing.
    pub(super) fn is_futile(&self) -> bool {
        self.futile
    }

    /// Counts the answers to requests that began after the last cut: the others tell nothing about
    /// it. An overload that took longer than `late_s` is a time-out, a faster one a refusal.
    pub(super) fn count(&mut self, window: &Window<'_>, late_s: f64) {
        let cut_at = self.cut_at;
        for sample in window.samples.iter().filter(|s| s.start >= cut_at) {
            let mut answers = Answers { all: 1.0, ..Answers::default() };
            match sample.outcome {
                Outcome::Success | Outcome::Caller => {}
                Outcome::Throttled => answers.refused = 1.0,
                Outcome::Overloaded if sample.latency().as_secs_f64() > late_s => answers.timed_out = 1.0,
                Outcome::Overloaded => answers.refused = 1.0,
                _ => continue,
            }
            if answers.timed_out == 0.0 {
                let spent = sample.latency().as_secs_f64() * f64::from(window.one_in);
                self.spent[usize::from(answers.refused > 0.0)] += spent;
            }
            self.add(answers, f64::from(sample.in_flight));
        }
    }

    fn add(&mut self, answers: Answers, units: f64) {
        self.seen.refused += answers.refused;
        self.seen.timed_out += answers.timed_out;
        self.seen.all += answers.all;
        if units > 0.0 {
            self.units += answers.all / self.seen.all * (units - self.units);
        }
    }

    /// At most one cut a mean latency (`beat`, seconds). `kept` is the share of the limit that is
    /// held when cuts for time-outs change nothing, `in_flight` the mean since [`Refusals::since`].
    pub(super) fn cut(&mut self, now: Nanos, beat: f64, limit: f64, kept: f64, in_flight: f64) -> Option<Cut> {
        if now.since(self.since).as_secs_f64() < beat || self.seen.all < 1.0 {
            return None;
        }
        let Answers { refused, timed_out, all } = self.seen;
        let (share, late) = (refused / all, timed_out / all);
        let units = self.units;
        let lasted = now.since(self.since).as_secs_f64();
        let [served, refused_units] = std::mem::take(&mut self.spent).map(|s| s / lasted.max(1e-9));
        // What the downstream took in: in flight, but not with requests that it refused. Nothing, when
        // nothing was served.
        let taken = if served > 0.0 { (in_flight - refused_units).max(0.0) } else { 0.0 };
        self.since = now;
        self.seen = Answers::default();
        self.units = 0.0;
        if refused >= TOLERATED && share > TOLERATED_SHARE {
            self.tally(limit, share);
            // Where refusals come fast, in flight stays far below the limit: start from it.
            let seen = if units > 0.0 { units + units.sqrt() } else { f64::INFINITY };
            let to = (limit * (1.0 - share).max(DEEPEST)).min(seen).max(LEFT * taken).max(1.0).min(limit);
            self.pause_until(now, beat, limit);
            self.ceiling = to;
            return Some(Cut::Refused(to));
        }
        if timed_out >= TOLERATED && late > TIMED_OUT_SHARE {
            self.tally(limit, late);
            if self.futile {
                return Some(Cut::Futile((self.before * kept).max(limit).max(1.0)));
            }
            let to = (limit * CUT).max(1.0);
            self.pause_until(now, beat, limit);
            self.ceiling = to;
            return Some(Cut::TimedOut(to));
        }
        self.cuts = 0;
        self.futile = false;
        self.climb(now, beat, limit);
        None
    }

    fn tally(&mut self, limit: f64, share: f64) {
        if self.cuts == 0 || share < 0.5 * self.share {
            (self.cuts, self.before, self.share) = (0, limit, share);
            self.futile = false;
        }
        self.cuts += 1;
        self.futile |= self.cuts > FUTILE_CUTS;
    }

    fn pause_until(&mut self, now: Nanos, beat: f64, limit: f64) {
        // Refused again on the way up: wait longer before the next try.
        let again = self.ceiling.is_finite() && limit <= self.ceiling * CLIMB && self.cuts == 1;
        self.pause = if again { (2.0 * self.pause).min(PAUSE.1) } else { PAUSE.0 };
        self.cut_at = now;
        self.until = now + std::time::Duration::from_secs_f64((self.pause * beat).min(1e6));
    }

    fn climb(&mut self, now: Nanos, beat: f64, limit: f64) {
        if now < self.until || self.ceiling.is_infinite() {
            return;
        }
        let quiet = now.since(self.until).as_secs_f64() / beat;
        if quiet > 4.0 * PAUSE.1 {
            self.ceiling = f64::INFINITY;
        } else if limit > 0.95 * self.ceiling {
            // Each step that meets no refusal makes the next one bolder.
            self.ceiling *= CLIMB.powf(1.0 + 0.25 * quiet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: f64 = 0.1;

    fn at(beats: u64) -> Nanos {
        Nanos(beats * 100_000_000)
    }

    fn run(refusals: &mut Refusals, limit: f64, answers: Answers, beats: std::ops::Range<u64>) -> (f64, Option<Cut>) {
        beats.fold((limit, None), |(limit, _), beat| {
            refusals.add(answers, 0.0);
            match refusals.cut(at(beat), BEAT, limit, 0.1, 0.0) {
                Some(cut @ (Cut::Refused(to) | Cut::TimedOut(to) | Cut::Futile(to))) => (to, Some(cut)),
                None => (limit, None),
            }
        })
    }

    #[test]
    fn a_few_refusals_are_tolerated() {
        let mut refusals = Refusals::new();
        let few = Answers { refused: 1.0, timed_out: 0.0, all: 4.0 };
        assert_eq!(run(&mut refusals, 4.0, few, 1..2).0, 4.0);
    }

    #[test]
    fn a_cut_for_refusals_leaves_room_for_what_is_served() {
        let mut refusals = Refusals::new();
        refusals.add(Answers { refused: 30.0, timed_out: 0.0, all: 40.0 }, 0.0);
        // Ten at a time were served, refusals took two places more.
        refusals.spent = [10.0 * BEAT, 2.0 * BEAT];
        let Some(Cut::Refused(to)) = refusals.cut(at(1), BEAT, 20.0, 0.1, 12.0) else { panic!("a cut") };
        assert!((to - 12.0).abs() < 1e-9, "{to}");
    }

    #[test]
    fn refusals_alone_lead_to_one_within_a_dozen_latencies() {
        let mut refusals = Refusals::new();
        let all = Answers { refused: 50.0, timed_out: 0.0, all: 50.0 };
        assert_eq!(run(&mut refusals, 1000.0, all, 1..12).0, 1.0);
        assert!(refusals.is_futile(), "and it is said that this does not help");
    }

    #[test]
    fn time_outs_that_no_cut_helps_stop_at_the_share_that_is_kept() {
        let mut refusals = Refusals::new();
        let late = Answers { refused: 0.0, timed_out: 20.0, all: 20.0 };
        let (limit, cut) = run(&mut refusals, 100.0, late, 1..40);
        assert!(matches!(cut, Some(Cut::Futile(_))), "{cut:?}");
        assert!(limit >= 4.0, "{limit}");
        run(&mut refusals, limit, Answers { all: 20.0, ..Answers::default() }, 40..42);
        assert!(!refusals.is_futile());
    }

    #[test]
    fn the_ceiling_pauses_then_climbs_ever_faster_and_is_forgotten() {
        let mut refusals = Refusals::new();
        let over = Answers { refused: 5.0, timed_out: 0.0, all: 20.0 };
        let (limit, _) = run(&mut refusals, 40.0, over, 1..2);
        assert_eq!(limit, 30.0);
        let good = Answers { all: 20.0, ..Answers::default() };
        run(&mut refusals, limit, good, 2..3);
        assert_eq!(refusals.ceiling(), 30.0, "pause");
        run(&mut refusals, limit, good, 3..7);
        assert!(refusals.ceiling() > 32.0);
        run(&mut refusals, limit, good, 7..90);
        assert!(refusals.ceiling().is_infinite());
    }
}
