//! How many were in flight during a request's life.
//!
//! Where a service is shared, a request takes as long as those beside it make it: what counts is not
//! the number in flight that it met, but their mean until its end. The windows' ends tell it well
//! enough: between them the number in flight is taken to run in a straight line. It keeps the last
//! windows and decides nothing.

use crate::time::Nanos;
use crate::window::Window;

/// So many window ends are kept; who lived longer is judged by these.
const KEPT: usize = 64;

/// The end of a window.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Nanos,
    in_flight: f64,
    /// In flight, integrated since the first mark: units times seconds.
    integral: f64,
}

#[derive(Clone, Debug)]
pub(super) struct Life {
    marks: [Mark; KEPT],
    /// Where the newest is.
    newest: usize,
    kept: usize,
}

impl Life {
    pub(super) fn new() -> Self {
        Self { marks: [Mark::default(); KEPT], newest: 0, kept: 0 }
    }

    /// A window has closed.
    pub(super) fn observe(&mut self, window: &Window<'_>) {
        if self.kept == 0 {
            self.push(Mark { at: window.opened, in_flight: f64::from(window.in_flight_open), integral: 0.0 });
        }
        let last = self.marks[self.newest];
        let in_flight = f64::from(window.in_flight_close);
        let more = window.closed.since(last.at).as_secs_f64() * 0.5 * (last.in_flight + in_flight);
        self.push(Mark { at: window.closed, in_flight, integral: last.integral + more });
    }

    fn push(&mut self, mark: Mark) {
        self.newest = (self.newest + 1) % KEPT;
        self.marks[self.newest] = mark;
        self.kept = (self.kept + 1).min(KEPT);
    }

    /// Mean in flight from `start` to `end`, for a request that met `admitted`. Ends of windows
    /// tell little about a life that is short against a window: then what it met counts more.
    pub(super) fn mean(&self, admitted: f64, start: Nanos, end: Nanos) -> f64 {
        let life = end.since(start).as_secs_f64();
        if self.kept < 2 || life <= 0.0 {
            return admitted;
        }
        let during = (self.integral(end) - self.integral(start)).max(0.0) / life;
        let window = self.marks[self.newest].at.since(self.mark(1).at).as_secs_f64();
        let known = life / (life + window);
        known * during + (1.0 - known) * admitted
    }

    /// Mean in flight since then.
    pub(super) fn mean_since(&self, start: Nanos) -> f64 {
        let last = self.mark(0);
        let lasted = last.at.since(start).as_secs_f64();
        if lasted > 0.0 { (last.integral - self.integral(start)).max(0.0) / lasted } else { last.in_flight }
    }

    /// The mark `back` before the newest.
    fn mark(&self, back: usize) -> Mark {
        self.marks[(self.newest + KEPT - back) % KEPT]
    }

    fn integral(&self, at: Nanos) -> f64 {
        let mut later = self.mark(0);
        for back in 1..self.kept {
            let earlier = self.mark(back);
            if earlier.at <= at || back + 1 == self.kept {
                let span = later.at.since(earlier.at).as_secs_f64();
                if earlier.at > at {
                    return earlier.integral - earlier.at.since(at).as_secs_f64() * earlier.in_flight;
                }
                let into = at.since(earlier.at).as_secs_f64();
                let share = if span > 0.0 { (into / span).min(1.0) } else { 0.0 };
                let there = earlier.in_flight + share * (later.in_flight - earlier.in_flight);
                return earlier.integral + into * 0.5 * (earlier.in_flight + there);
            }
            later = earlier;
        }
        later.integral
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// In flight 0 at the start, 10 more each second.
    fn rising() -> Life {
        let mut life = Life::new();
        for i in 0..100_u64 {
            let mark =
                |at: u64| Mark { at: Nanos(at * S), in_flight: 10.0 * at as f64, integral: 5.0 * (at * at) as f64 };
            life.push(mark(i));
        }
        life
    }

    #[test]
    fn the_mean_is_that_of_the_life() {
        let mean = rising().mean_since(Nanos(89 * S));
        assert!((mean - 940.0).abs() < 1e-9, "{mean}");
        // One window of a second against a life of four.
        let mean = rising().mean(100.0, Nanos(90 * S), Nanos(94 * S));
        assert!((mean - (0.8 * 920.0 + 0.2 * 100.0)).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn a_life_longer_than_what_is_kept_gives_a_number_all_the_same() {
        let mean = rising().mean(3.0, Nanos(0), Nanos(99 * S));
        assert!(mean.is_finite() && mean > 3.0, "{mean}");
        assert_eq!(Life::new().mean(3.0, Nanos(0), Nanos(S)), 3.0);
    }
}
