//! How a change is to be applied: why, how carefully, on which instances. Pure.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::check::Check;
use super::file::{ChangeSection, Number, RolloutSection};
use super::placed::Spanned;

/// What the file says about its last change.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeConfig {
    reason: Option<String>,
    bake: Option<Duration>,
    max_rise: MaxRise,
    confidence: f64,
    rollout: Option<f64>,
}

/// How much worse is allowed while a change bakes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaxRise {
    /// Of the 99th percentile of latency, as a share of what it was.
    pub p99: f64,
    /// Of the share of requests that end in a fault.
    pub faults: f64,
    /// Of the share of requests that the downstream throttles.
    pub throttles: f64,
    /// Of the share of requests that are refused here.
    pub rejections: f64,
}

impl ChangeConfig {
    pub(super) fn check(raw: &ChangeSection, check: &mut Check) -> Self {
        let bake = raw.bake.as_ref().map(|_| {
            let (least, most) = (Duration::from_secs(1), Duration::from_secs(86_400));
            check.duration("change.bake", &raw.bake, least, least..=most)
        });
        let mut number = |key, raw, default, most| check.number(key, raw, default, 0.0..=most);
        let rise = &raw.max_rise;
        let max_rise = MaxRise {
            p99: number("change.max_rise.p99", &rise.p99, 0.5, 100.0),
            faults: number("change.max_rise.faults", &rise.faults, 0.01, 1.0),
            throttles: number("change.max_rise.throttles", &rise.throttles, 0.01, 1.0),
            rejections: number("change.max_rise.rejections", &rise.rejections, 0.05, 1.0),
        };
        Self {
            reason: raw.reason.as_ref().map(|reason| reason.get_ref().clone()),
            bake,
            max_rise,
            confidence: check.number("change.confidence", &raw.confidence, 0.99, 0.5..=0.999_999),
            rollout: raw.rollout.as_ref().map(|rollout| percent(rollout, check)),
        }
    }

    /// Why.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// How long the change is watched; `None` when it is not.
    pub fn bake(&self) -> Option<Duration> {
        self.bake
    }

    /// How much worse is allowed meanwhile.
    pub fn max_rise(&self) -> MaxRise {
        self.max_rise
    }

    /// How sure it must be that something got worse.
    pub fn confidence(&self) -> f64 {
        self.confidence
    }

    /// The percentage of instances that take the change; `None` when all do.
    pub fn rollout(&self) -> Option<f64> {
        self.rollout
    }

    /// Whether the instance of this name takes the change. Its place depends on nothing but the name,
    /// so a larger share holds all of a smaller one.
    pub fn takes(&self, instance: &str) -> bool {
        self.rollout.is_none_or(|percent| place(instance) < percent)
    }
}

/// A place from 0 to below 100, evenly spread over names.
fn place(instance: &str) -> f64 {
    let hash = Sha256::digest(instance.as_bytes());
    let first = hash.iter().take(8).fold(0_u64, |all, byte| (all << 8) | u64::from(*byte));
    // 53 bits, so that no place rounds up to 100.
    (first >> 11) as f64 / (1_u64 << 53) as f64 * 100.0
}

fn percent(raw: &Spanned<RolloutSection>, check: &mut Check) -> f64 {
    let percent: &Number = &raw.get_ref().percent;
    if percent.is_none() {
        check.wrong_at("change.rollout", raw.span(), "needs percent, from 0 to 100");
    }
    check.number("change.rollout.percent", percent, 100.0, 0.0..=100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(percent: f64) -> ChangeConfig {
        let raw = RolloutSection { percent: Some(Spanned::new(0..0, percent)) };
        let section = ChangeSection { rollout: Some(Spanned::new(0..0, raw)), ..ChangeSection::default() };
        let mut check = Check::new(Vec::new());
        let config = ChangeConfig::check(&section, &mut check);
        assert!(check.into_violations().is_empty());
        config
    }

    #[test]
    fn a_share_takes_about_so_many_and_a_larger_one_keeps_them() {
        let names: Vec<String> = (0..2000).map(|i| format!("gateway-{i}")).collect();
        let takers = |percent| -> Vec<bool> { names.iter().map(|name| rollout(percent).takes(name)).collect() };
        let (ten, fifty) = (takers(10.0), takers(50.0));
        let count = |takers: &[bool]| takers.iter().filter(|takes| **takes).count();
        assert!((150..250).contains(&count(&ten)), "{}", count(&ten));
        assert!((900..1100).contains(&count(&fifty)), "{}", count(&fifty));
        assert!(ten.iter().zip(&fifty).all(|(ten, fifty)| !ten || *fifty), "nobody falls out again");
        assert_eq!((count(&takers(0.0)), count(&takers(100.0))), (0, 2000));
    }

    #[test]
    fn the_same_name_has_the_same_place() {
        assert_eq!(place("gateway-1").to_bits(), place("gateway-1").to_bits());
        assert!((0.0..100.0).contains(&place("")));
    }
}
