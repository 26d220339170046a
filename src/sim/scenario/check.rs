//! What a scenario's values may be.

use super::{Demand, Downstream, InvalidScenario, PhaseSpec, Scenario};

impl Scenario {
    /// Checks every value.
    ///
    /// # Errors
    /// [`InvalidScenario`] with the key, the value and what is allowed.
    pub fn check(&self) -> Result<(), InvalidScenario> {
        self.check_values().map_err(|what| InvalidScenario(format!("scenario \"{}\": {what}", self.name)))
    }

    fn check_values(&self) -> Result<(), String> {
        positive("service_s", self.service_s)?;
        positive("slo_s", self.slo())?;
        positive("timeout_s", self.timeout())?;
        positive("fast_s", self.fast())?;
        match self.demand {
            Demand::Lognormal { cv } => positive("demand.cv", cv)?,
            Demand::Bimodal { long_share, ratio } => {
                share("demand.long_share", long_share)?;
                positive("demand.ratio", ratio)?;
            }
            Demand::Constant | Demand::Exponential => {}
        }
        self.check_limiter()?;
        share("clients.cancel_share", self.clients.cancel_share)?;
        if let Some(closed) = self.clients.closed {
            positive("clients.closed.clients", f64::from(closed.clients))?;
            positive("clients.closed.think_s", closed.think_s)?;
        }
        if self.phases.is_empty() {
            return Err("there is no [[phase]]: need at least one".to_owned());
        }
        for (i, phase) in self.phases.iter().enumerate() {
            self.check_phase(phase).map_err(|what| format!("phase {}: {what}", i + 1))?;
        }
        Ok(())
    }

    fn check_limiter(&self) -> Result<(), String> {
        let limiter = &self.limiter;
        crate::Bounds::new(limiter.min, limiter.max).map_err(|e| format!("limiter: {e}"))?;
        if limiter.initial.is_empty() {
            return Err("limiter.initial = [] is not allowed: need at least one initial limit".to_owned());
        }
        for initial in &limiter.initial {
            positive("limiter.initial", *initial)?;
        }
        if !(1..=16).contains(&limiter.count) {
            return Err(format!("limiter.count = {} is not allowed: need 1..=16", limiter.count));
        }
        Ok(())
    }

    fn check_phase(&self, phase: &PhaseSpec) -> Result<(), String> {
        positive("seconds", phase.seconds)?;
        if self.clients.closed.is_none() && self.trace.is_none() {
            positive("rate", phase.rate.ok_or("rate is missing: need arrivals a second")?)?;
        }
        if let Some(rate) = phase.rate_end {
            positive("rate_end", rate)?;
        }
        match (self.downstream, phase.workers) {
            (Downstream::Delay | Downstream::Usl { .. }, _) => {}
            (_, None) => return Err("workers is missing: need a number above 0".to_owned()),
            (_, Some(workers)) => positive("workers", workers)?,
        }
        if let Some(quota) = phase.quota {
            positive("quota", quota)?;
        }
        positive("work", phase.work)?;
        share("errors", phase.errors)?;
        if let Some(burst) = phase.burst {
            positive("burst.every_s", burst.every_s)?;
            share("burst.share", burst.share)?;
            positive("burst.factor", burst.factor)?;
        }
        if let Some(stop) = phase.stop {
            positive("stop.every_s", stop.every_s)?;
            if !(stop.for_s > 0.0 && stop.for_s < stop.every_s) {
                return Err(format!(
                    "stop.for_s = {} is not allowed: need more than 0 and less than every_s",
                    stop.for_s
                ));
            }
        }
        Ok(())
    }
}

fn positive(key: &str, value: f64) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        Ok(())
    } else {
        Err(format!("{key} = {value} is not allowed: need a finite number above 0"))
    }
}

fn share(key: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{key} = {value} is not allowed: need 0 to 1")) }
}
