//! The posterior over the knee: where latency begins to rise.
//!
//! The model is `ln W(N) = S + q max(0, ln N - kappa)`: latency `W` is `exp(S)` while the
//! downstream has room and rises with the units in flight `N` past the knee `exp(kappa)`, in
//! proportion (`q = 1`: our own queue, Little's law) or faster (`q = 2.5`: a service that thrashes).
//! For every `kappa` of a grid and both slopes, `S` is the weighted least-squares solution; its
//! squared error is the evidence. Sums from the top level down make one pass enough.

use crate::window::LEVELS;

/// Slopes past the knee, and what the log-probability of each pays.
const SLOPES: [(f64, f64); 2] = [(1.0, 0.0), (2.5, 0.7)];
/// Step of the grid: a sixth of an octave, as the levels.
const STEP: f64 = std::f64::consts::LN_2 / 6.0;
/// The grid reaches over all levels and an octave beyond on both ends.
const GRID: usize = LEVELS + 16;

/// One level's latency, as the fit sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Point {
    /// ln of units in flight.
    pub(super) x: f64,
    /// ln of latency in seconds.
    pub(super) y: f64,
    /// One over the squared error of `y`.
    pub(super) weight: f64,
}

/// What is known of `S` beside the points.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    /// ln of the unloaded latency, and one over its squared error (0: nothing known).
    pub(super) s: f64,
    pub(super) weight: f64,
    /// `S` cannot be above this.
    pub(super) most: f64,
}

/// What the points say.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Belief {
    /// ln of the unloaded latency in seconds.
    pub(super) s: f64,
    /// Expected ln of the knee, and its standard deviation.
    pub(super) kappa: f64,
    pub(super) sd: f64,
    /// Expected slope past the knee.
    pub(super) slope: f64,
    /// How much better the points fit without the cap on `s` (log odds), and that best `s`.
    pub(super) strain: f64,
    pub(super) free: f64,
}

impl Belief {
    /// The modelled ln latency at ln `x` units in flight.
    pub(super) fn ln_latency(&self, x: f64) -> f64 {
        self.s + self.slope * (x - self.kappa).max(0.0)
    }
}

/// Sums over points; with `h = q (x - kappa)` for those above the knee, all the fit needs.
#[derive(Clone, Copy, Default)]
struct Sums {
    g: f64,
    gx: f64,
    gxx: f64,
    gy: f64,
    gxy: f64,
    gyy: f64,
}

impl Sums {
    fn add(&mut self, Point { x, y, weight: g }: Point) {
        self.g += g;
        self.gx += g * x;
        self.gxx += g * x * x;
        self.gy += g * y;
        self.gxy += g * x * y;
        self.gyy += g * y * y;
    }

    /// `S` and the squared error for one knee and slope; `above` are the sums past the knee.
    fn solve(&self, above: &Sums, kappa: f64, q: f64) -> (f64, f64) {
        let h = q * (above.gx - kappa * above.g);
        let hh = q * q * (above.gxx - 2.0 * kappa * above.gx + kappa * kappa * above.g);
        let yh = q * (above.gxy - kappa * above.gy);
        let s = (self.gy - h) / self.g;
        (s, self.gyy - 2.0 * yh + hh - self.g * s * s)
    }
}

/// The posterior for `points` in ascending order of `x`, with the knee between `from` and `to`.
pub(super) fn fit(points: &[Point], anchor: Anchor, from: f64, to: f64) -> Belief {
    // Latencies relative to the first point keep the sums small.
    let origin = points.first().map_or(anchor.s, |p| p.y);
    let mut all = Sums::default();
    for &point in points {
        all.add(Point { y: point.y - origin, ..point });
    }
    let prior = anchor.s - origin;
    if anchor.weight > 0.0 {
        all.g += anchor.weight;
        all.gy += anchor.weight * prior;
        all.gyy += anchor.weight * prior * prior;
    }
    let most = anchor.most - origin;

    let steps = (((to - from) / STEP).ceil().max(1.0) as usize).min(GRID - 1);
    let step = (to - from) / steps as f64;
    let mut solved = [[(0.0, 0.0); SLOPES.len()]; GRID];
    let (mut least, mut best) = (f64::INFINITY, (f64::INFINITY, 0.0));
    let (mut above, mut next) = (Sums::default(), points.len());
    for i in (0..=steps).rev() {
        let kappa = from + step * i as f64;
        while next > 0 && points[next - 1].x > kappa {
            next -= 1;
            above.add(Point { y: points[next].y - origin, ..points[next] });
        }
        for (k, &(q, penalty)) in SLOPES.iter().enumerate() {
            let (free, error) = all.solve(&above, kappa, q);
            let error = error + 2.0 * penalty;
            if error < best.0 {
                best = (error, free);
            }
            let s = free.min(most);
            let error = error + all.g * (free - s) * (free - s);
            solved[i][k] = (s, error);
            least = least.min(error);
        }
    }
    let (mut sum, mut s, mut k1, mut k2, mut slope) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (i, row) in solved[..=steps].iter().enumerate() {
        let kappa = step * i as f64;
        for (k, &(at, error)) in row.iter().enumerate() {
            let p = (0.5 * (least - error)).exp();
            sum += p;
            s += p * at;
            k1 += p * kappa;
            k2 += p * kappa * kappa;
            slope += p * SLOPES[k].0;
        }
    }
    let mean = k1 / sum;
    Belief {
        s: origin + s / sum,
        kappa: from + mean,
        sd: (k2 / sum - mean * mean).max(0.0).sqrt(),
        slope: slope / sum,
        strain: 0.5 * (least - best.0),
        free: origin + best.1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: Anchor = Anchor { s: 0.0, weight: 0.0, most: f64::INFINITY };

    fn curve(knee: f64, q: f64, units: impl Iterator<Item = u32>) -> Vec<Point> {
        units
            .map(|n| {
                let x = f64::from(n).ln();
                Point { x, y: -3.0 + q * (x - knee.ln()).max(0.0), weight: 400.0 }
            })
            .collect()
    }

    #[test]
    fn a_clean_knee_is_found() {
        let points = curve(20.0, 1.0, (2..60).step_by(3));
        let belief = fit(&points, FREE, 1.0_f64.ln(), 100.0_f64.ln());
        assert!((belief.kappa - 20.0_f64.ln()).abs() < 0.1, "{belief:?}");
        assert!((belief.s + 3.0).abs() < 0.05, "{belief:?}");
        assert!(belief.slope < 1.1);
    }

    #[test]
    fn a_cliff_is_told_from_a_queue() {
        let points = curve(20.0, 2.5, (2..60).step_by(3));
        let belief = fit(&points, FREE, 1.0_f64.ln(), 100.0_f64.ln());
        assert!(belief.slope > 2.2, "{belief:?}");
    }

    #[test]
    fn flat_levels_put_the_knee_above_them_and_unsure() {
        let points = curve(1e9, 1.0, 10..20);
        let belief = fit(&points, FREE, 8.0_f64.ln(), 36.0_f64.ln());
        assert!(belief.kappa > 19.0_f64.ln() && belief.sd > 0.1, "{belief:?}");
    }

    #[test]
    fn a_known_unloaded_latency_finds_the_knee_below_a_saturated_band() {
        let points = curve(20.0, 1.0, 38..42);
        let known = Anchor { s: -3.0, weight: 100.0, most: f64::INFINITY };
        let belief = fit(&points, known, 10.0_f64.ln(), 70.0_f64.ln());
        assert!((belief.kappa - 20.0_f64.ln()).abs() < 0.2, "{belief:?}");
        let capped = Anchor { most: -3.0, ..FREE };
        let belief = fit(&points, capped, 10.0_f64.ln(), 70.0_f64.ln());
        assert!(belief.kappa < 24.0_f64.ln(), "{belief:?}");
    }
}
