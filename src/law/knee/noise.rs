//! How much latency varies at one in-flight level, relative to its mean.
//!
//! The variance is learned from residuals against the level's own mean, so that a difference
//! between levels is not noise; while a change is suspected nothing is learned, so that a jump is
//! not noise either.

/// Forgets over so many samples.
const MEMORY: f64 = 200.0;
/// The first guess (exponential work: 1) counts as so many samples.
const GUESS: f64 = 10.0;
/// Work is never quite constant.
const LEAST: f64 = 0.01;
/// Tails are heavy when the variance exceeds that of the logs so many times.
const HEAVY: f64 = 4.0;

#[derive(Clone, Debug)]
pub(super) struct Noise {
    /// Mean squared residual, and mean of latency times expected latency: the same scale, so that
    /// their ratio keeps through a jump.
    squares: f64,
    products: f64,
    variance_ln: f64,
    seen: f64,
}

impl Noise {
    pub(super) fn new() -> Self {
        Self { squares: 0.0, products: 0.0, variance_ln: 1.0, seen: GUESS }
    }

    /// Learns from a latency and its log, where so much was expected from `behind` samples.
    pub(super) fn learn(&mut self, (x, ln): (f64, f64), (mean, mean_ln): (f64, f64), behind: f64, weight: f64) {
        if self.products == 0.0 {
            (self.squares, self.products) = (x * mean, x * mean);
        }
        self.seen = (self.seen + weight).min(MEMORY);
        let share = weight / self.seen;
        // A mean of few samples adds its own error to the residual.
        let true_share = behind / (behind + 1.0);
        self.squares += share * ((x - mean).powi(2) * true_share - self.squares);
        self.products += share * (x * mean - self.products);
        self.variance_ln += share * ((ln - mean_ln).powi(2) * true_share - self.variance_ln);
    }

    /// Relative variance of the latency.
    pub(super) fn relative(&self) -> f64 {
        if self.products > 0.0 { (self.squares / self.products).max(LEAST) } else { 1.0 }
    }

    /// Whether means are ruled by rare long requests, so that logs tell more.
    pub(super) fn is_heavy(&self) -> bool {
        self.relative() > HEAVY * self.variance_ln.max(LEAST)
    }

    /// Variance of what the fit uses: latency, or its log when tails are heavy.
    pub(super) fn of_fit(&self) -> f64 {
        if self.is_heavy() { self.variance_ln.max(LEAST) } else { self.relative() }
    }
}
