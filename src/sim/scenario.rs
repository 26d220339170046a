//! A scenario: what comes in, what it meets, and what a law may make of it.
//!
//! A plain value, read from TOML ([`Scenario::parse`]) or built by the random generator. Times are
//! in seconds, rates in requests a second. Unknown keys and values out of range are refused.

mod check;
mod kinds;

pub use kinds::{Abandoned, Accept, Burst, Clients, Closed, Demand, Downstream, LimiterSpec, PhaseSpec, Stop, Trace};

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

/// One situation. See the [module](self).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name in tables; the file's name without its ending when it is read from a file.
    #[serde(default)]
    pub name: String,
    /// The set it belongs to: the directory of its file, or the kind of a random one. Laws are
    /// compared set by set.
    #[serde(skip)]
    pub set: String,
    /// What it shows, in words.
    #[serde(default)]
    pub about: String,
    /// Mean work of one request: seconds at full speed.
    pub service_s: f64,
    /// An answer counts as good when the client has it within this time. Default 3 `service_s`.
    slo_s: Option<f64>,
    /// When the client gives up. Default 10 `service_s`.
    timeout_s: Option<f64>,
    /// How long a refusal by the downstream (429, 503, fault) takes. Default `service_s / 20`.
    fast_s: Option<f64>,
    /// What becomes of work whose client gave up.
    #[serde(default)]
    pub abandoned: Abandoned,
    /// How work is distributed.
    #[serde(default)]
    pub demand: Demand,
    /// What the requests meet.
    pub downstream: Downstream,
    /// The limiter in front.
    #[serde(default)]
    pub limiter: LimiterSpec,
    /// Who asks, and how they take a failure.
    #[serde(default)]
    pub clients: Clients,
    /// Recorded arrivals in place of random ones.
    #[serde(default)]
    pub trace: Option<Trace>,
    /// What happens, one after the other.
    #[serde(default, rename = "phase")]
    pub phases: Vec<PhaseSpec>,
    /// Accepted ranges, by the law's name.
    #[serde(default)]
    pub accept: BTreeMap<String, Accept>,
}

/// A scenario that cannot be run: says where, the key, the value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidScenario(pub(crate) String);

impl fmt::Display for InvalidScenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidScenario {}

impl Scenario {
    /// Reads a scenario; `name` is used when the text gives none.
    ///
    /// # Errors
    /// [`InvalidScenario`] for wrong TOML, unknown keys (with line) and values out of range.
    pub fn parse(name: &str, text: &str) -> Result<Self, InvalidScenario> {
        let mut scenario: Scenario =
            toml::from_str(text).map_err(|e| InvalidScenario(format!("scenario \"{name}\": {e}")))?;
        if scenario.name.is_empty() {
            name.clone_into(&mut scenario.name);
        }
        scenario.inherit();
        scenario.check()?;
        Ok(scenario)
    }

    /// What a phase leaves out is as in the phase before.
    fn inherit(&mut self) {
        let mut before = PhaseSpec::default();
        for phase in &mut self.phases {
            phase.rate = phase.rate.or(before.rate_end).or(before.rate);
            phase.workers = phase.workers.or(before.workers);
            phase.quota = phase.quota.or(before.quota);
            before = phase.clone();
        }
    }

    /// An answer counts as good within this many seconds.
    pub fn slo(&self) -> f64 {
        self.slo_s.unwrap_or(3.0 * self.service_s)
    }

    /// A client gives up after this many seconds.
    pub fn timeout(&self) -> f64 {
        self.timeout_s.unwrap_or(10.0 * self.service_s)
    }

    /// A quick refusal by the downstream takes this many seconds.
    pub fn fast(&self) -> f64 {
        self.fast_s.unwrap_or(self.service_s / 20.0)
    }

    /// Sets SLO and time-out, in seconds; `None` keeps the default.
    #[must_use]
    pub fn within(mut self, slo_s: Option<f64>, timeout_s: Option<f64>) -> Self {
        self.slo_s = slo_s;
        self.timeout_s = timeout_s;
        self
    }

    /// A scenario with defaults everywhere: exponential work, one limiter, no phases yet.
    pub fn bare(name: &str, service_s: f64, demand: Demand, downstream: Downstream) -> Self {
        Self {
            name: name.to_owned(),
            set: String::new(),
            about: String::new(),
            service_s,
            slo_s: None,
            timeout_s: None,
            fast_s: None,
            abandoned: Abandoned::default(),
            demand,
            downstream,
            limiter: LimiterSpec::default(),
            clients: Clients::default(),
            trace: None,
            phases: Vec::new(),
            accept: BTreeMap::new(),
        }
    }

    /// How long it lasts, in simulated seconds.
    pub fn seconds(&self) -> f64 {
        self.phases.iter().map(|p| p.seconds).sum()
    }

    /// What can be served in a phase, requests a second: the best over all in-flight levels.
    pub fn capacity(&self, phase: usize) -> f64 {
        let phase = &self.phases[phase];
        let workers = phase.workers.unwrap_or(f64::INFINITY);
        let work = self.service_s * phase.work;
        let served = self.downstream.peak(workers) / work;
        served.min(phase.quota.unwrap_or(f64::INFINITY))
    }

    /// A text in which two scenarios differ when their inputs do; names and accepted ranges left out.
    pub fn fingerprint(&self) -> String {
        let mut inputs = self.clone();
        inputs.name.clear();
        inputs.set.clear();
        inputs.about.clear();
        inputs.accept.clear();
        inputs.limiter.initial.clear();
        inputs.limiter.count = 1;
        format!("{inputs:?}")
    }
}
