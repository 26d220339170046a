//! Which number in flight does latency depend on?
//!
//! Where requests queue for workers, the number that a request met says how long it waits. Where all
//! share a service, it is the mean number beside it during its life. Both are tried as an explanation
//! of latency, by linear regression of the logs, and the second is believed when it leaves clearly
//! less unexplained. Not where latency varies much by itself: there long requests are those that see
//! a change of the number in flight, and length explains the number instead of the other way round.

/// Forgets over so many samples.
const MEMORY: f64 = 200.0;
/// Log likelihood ratio that is needed.
const ENOUGH: f64 = 3.0;
/// At least so many samples, and at most this share left unexplained.
const FEWEST: f64 = 4.0;
const UNEXPLAINED: f64 = 0.5;
/// Relative variance of latency above which nothing is believed, and above which a belief is given up.
const NOISY: (f64, f64) = (1.0, 1.5);
/// Variance that nothing explains: the number of a request is only known so well.
const LEAST: f64 = 0.01;
/// The same for the spread of the numbers: equal ones explain nothing.
const LEAST_SPREAD: f64 = 1e-3;

/// Sums of a regression of `y` on `x`.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

impl Line {
    fn add(&mut self, x: f64, y: f64, weight: f64) {
        let kept = 1.0 - weight / MEMORY;
        let Self { n, x: sx, y: sy, xx, xy, yy } = self;
        for (sum, new) in [(n, 1.0), (sx, x), (sy, y), (xx, x * x), (xy, x * y), (yy, y * y)] {
            *sum = kept * *sum + weight * new;
        }
    }

    /// Variance of `y`, and what of it `x` does not explain. Latency never falls with the number.
    fn variances(&self) -> (f64, f64) {
        let (x, y) = (self.x / self.n, self.y / self.n);
        let (xx, yy, xy) = (self.xx / self.n - x * x, self.yy / self.n - y * y, self.xy / self.n - x * y);
        let explained = if xy > 0.0 { xy * xy / (xx + LEAST_SPREAD) } else { 0.0 };
        (yy, (yy - explained).max(0.0) + LEAST)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sharing {
    met: Line,
    life: Line,
    shared: bool,
}

impl Sharing {
    /// A served request: ln of the number it met, ln of the mean number during its life, ln latency.
    pub(super) fn add(&mut self, met: f64, life: f64, ln: f64, weight: f64) {
        self.met.add(met, ln, weight);
        self.life.add(life, ln, weight);
    }

    /// Whether latency depends on the mean number during a request's life.
    pub(super) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Judges anew after a window. `noise` is the relative variance of latency.
    pub(super) fn judge(&mut self, noise: f64) {
        if self.met.n < FEWEST {
            return;
        }
        let ((_, by_met), (all, by_life)) = (self.met.variances(), self.life.variances());
        let ratio = 0.5 * self.met.n * (by_met / by_life).ln();
        self.shared = if self.shared {
            noise < NOISY.1 && ratio > 0.0
        } else {
            noise < NOISY.0 && by_life < UNEXPLAINED * all + LEAST && ratio > ENOUGH
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that met 4 to 19 and saw another mean number; latency in proportion to one of them.
    fn judged(noise: f64, by_life: bool) -> bool {
        let mut sharing = Sharing::default();
        for i in 0..60_u32 {
            let (met, life) = (f64::from(4 + i % 16), f64::from(4 + i * 7 % 16));
            sharing.add(met.ln(), life.ln(), if by_life { life.ln() } else { met.ln() }, 1.0);
            sharing.judge(noise);
        }
        sharing.is_shared()
    }

    #[test]
    fn the_number_that_explains_latency_is_believed() {
        assert!(judged(0.1, true));
        assert!(!judged(0.1, false));
    }

    #[test]
    fn long_and_short_work_is_no_sharing() {
        assert!(!judged(2.0, true));
    }
}
