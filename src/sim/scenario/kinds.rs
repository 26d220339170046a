//! The parts of a scenario.

use serde::Deserialize;

/// What becomes of work whose client gave up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Abandoned {
    /// It is cancelled at once and costs nothing more.
    #[default]
    Cancelled,
    /// The downstream goes on with it, though nobody waits.
    GoesOn,
}

/// How the work of a request is distributed about its mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Demand {
    /// Always the mean.
    Constant,
    /// Exponential.
    #[default]
    Exponential,
    /// Lognormal.
    Lognormal {
        /// Standard deviation over mean.
        cv: f64,
    },
    /// Short or long, in a ratio.
    Bimodal {
        /// Share of the long ones, within 0 and 1.
        long_share: f64,
        /// How much longer than the short ones.
        ratio: f64,
    },
}

/// What the requests meet. `workers` is a phase's; n is the number of requests being served.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Downstream {
    /// A queue in front of `workers` servers of speed 1.
    Fifo {
        /// The most that wait; more are answered by a quick 503. Default: no end.
        backlog: Option<u32>,
    },
    /// Processor sharing: everybody is served at speed `min(1, workers / n)`.
    Ps,
    /// Processor sharing whose speed falls past a knee by `1 + steep ((n - k) / k)^2`, k = `knee` workers.
    Thrash {
        /// The knee, in workers.
        knee: f64,
        /// How steeply it falls.
        steep: f64,
    },
    /// Gunther's universal scalability law: speed `1 / (1 + contention (n - 1) + coherence n (n - 1))`.
    Usl {
        /// Share of serial work.
        contention: f64,
        /// Cost of agreement between pairs.
        coherence: f64,
    },
    /// A batch server: speed `1 / (1 + slow n)`, past `workers` also divided by `1 + past (n - workers) / workers`.
    Batch {
        /// How much each request slows the batch.
        slow: f64,
        /// How much more past its size.
        past: f64,
    },
    /// No queue at all: speed 1. With a phase's `quota`: more than that a second get a quick 429.
    Delay,
}

impl Downstream {
    /// Speed at which each of `n` requests is served; `workers` is the capacity in force.
    pub fn speed(&self, n: f64, workers: f64) -> f64 {
        let shared = (workers / n.max(1.0)).min(1.0);
        match *self {
            Downstream::Fifo { .. } | Downstream::Delay => 1.0,
            Downstream::Ps => shared,
            Downstream::Thrash { knee, steep } => {
                let knee = knee * workers;
                let past = ((n - knee) / knee).max(0.0);
                shared / (1.0 + steep * past * past)
            }
            Downstream::Usl { contention, coherence } => {
                let others = (n - 1.0).max(0.0);
                1.0 / (1.0 + contention * others + coherence * n * others)
            }
            Downstream::Batch { slow, past } => {
                let over = ((n - workers) / workers).max(0.0);
                1.0 / ((1.0 + slow * n) * (1.0 + past * over))
            }
        }
    }

    /// Whether requests wait for one of `workers` servers.
    pub fn queues(&self) -> bool {
        matches!(self, Downstream::Fifo { .. })
    }

    /// The best `n speed(n)` over n: capacity in units of 1 / work.
    pub fn peak(&self, workers: f64) -> f64 {
        match self {
            Downstream::Fifo { .. } => workers,
            Downstream::Delay => f64::INFINITY,
            _ => (1..=4000).map(|n| f64::from(n) * self.speed(f64::from(n), workers)).fold(0.0, f64::max),
        }
    }
}

/// The limiter in front of the downstream.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimiterSpec {
    /// Initial limits: the scenario is run once from each; with `count` above 1, one for each limiter.
    pub initial: Vec<f64>,
    /// The smallest limit.
    pub min: u32,
    /// The largest limit.
    pub max: u32,
    /// The most that wait in front.
    pub queue: u32,
    /// The longest that one waits in front, in seconds.
    pub queue_s: f64,
    /// How many limiters share the downstream, each with its share of the arrivals.
    pub count: u32,
}

impl Default for LimiterSpec {
    fn default() -> Self {
        Self { initial: vec![20.0], min: 1, max: 2000, queue: 0, queue_s: 0.0, count: 1 }
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clients {
    /// How often a failed request is tried again: refused, timed out, or answered by an error.
    pub retries: u32,
    /// Mean pause before the first retry, doubled for each further one. Default: `service_s`.
    pub backoff_s: Option<f64>,
    /// Share of the requests whose client goes away before the answer.
    pub cancel_share: f64,
    /// Mean time after which they go away. Default: `service_s`.
    pub cancel_after_s: Option<f64>,
    /// A closed loop in place of arrivals at a rate.
    pub closed: Option<Closed>,
}

/// So many clients, each asking, waiting for its answer, thinking, asking again.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// How many.
    pub clients: u32,
    /// Mean pause between an answer (or a refusal) and the next request; exponential.
    pub think_s: f64,
}

/// A recorded trace: see [`crate::sim::replay`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The recorded requests: arrival and work, in seconds, by arrival.
    pub requests: Vec<(f64, f64)>,
}

/// A stretch of time. What is left out of `rate`, `workers` and `quota` is as in the phase before.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PhaseSpec {
    /// How long it lasts.
    pub seconds: f64,
    /// Arrivals a second (Poisson).
    pub rate: Option<f64>,
    /// With it, the rate moves in a straight line to this.
    pub rate_end: Option<f64>,
    /// Capacity: servers, or the size of a batch.
    pub workers: Option<f64>,
    /// Most requests a second that a `delay` downstream takes.
    pub quota: Option<f64>,
    /// The work of each request is multiplied by this.
    pub work: f64,
    /// By which the work grows each second: 0.01 is one per cent of its first value.
    pub work_growth: f64,
    /// Share of the requests answered by a quick fault.
    pub errors: f64,
    /// Within each period, a part at another rate.
    pub burst: Option<Burst>,
    /// Full stops of the downstream.
    pub stop: Option<Stop>,
}

impl Default for PhaseSpec {
    fn default() -> Self {
        Self {
            seconds: 0.0,
            rate: None,
            rate_end: None,
            workers: None,
            quota: None,
            work: 1.0,
            work_growth: 0.0,
            errors: 0.0,
            burst: None,
            stop: None,
        }
    }
}

/// On and off: the last `share` of every period comes at `factor` times the rate.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// Length of a period.
    pub every_s: f64,
    /// Share of the period with the other rate.
    pub share: f64,
    /// What the rate is multiplied by there.
    pub factor: f64,
}

/// Full stops, as of a garbage collector: nothing is served, nothing is lost.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    /// From one stop's beginning to the next; the first comes after this time.
    pub every_s: f64,
    /// How long a stop lasts.
    pub for_s: f64,
}

/// Accepted ranges of a law's mean scores over the seeds; what is left out is not checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Accept {
    /// Goodput, share of the oracle's: lowest and highest.
    pub goodput: Option<[f64; 2]>,
    /// Highest p99, share of the oracle's.
    pub p99: Option<f64>,
    /// Longest mean settling time, in seconds.
    pub settle_s: Option<f64>,
    /// Highest share of needless rejections.
    pub needless: Option<f64>,
    /// Highest share of arrivals shed in calm phases.
    pub calm_shed: Option<f64>,
}
