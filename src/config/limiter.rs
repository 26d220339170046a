//! A limiter's settings: the bounds an operator gives, and what rarely needs to be said.

use std::time::Duration;

use crate::admission::Mode;
use crate::bounds::{Bounds, MAX_LIMIT};
use crate::law::{self, Aimd, Fixed, Gradient, Knee, Law, Vegas};

use super::check::Check;
use super::classes::SharesConfig;
use super::file::LimiterSection;
use super::placed::Spanned;

/// One limiter.
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterConfig {
    bounds: Bounds,
    initial: u32,
    law: LawConfig,
    mode: Mode,
    queue: QueueConfig,
    ceiling: Option<String>,
    reject_status: u16,
    permit_end: PermitEnd,
    shares: SharesConfig,
}

/// The law and its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum LawConfig {
    /// Finds the knee of the latency curve.
    Knee {
        /// Latency to stay below, when there is one.
        latency_target: Option<Duration>,
    },
    /// Additive increase, multiplicative decrease.
    Aimd {
        /// What a decrease multiplies the limit by.
        backoff: f64,
        /// Served requests that take longer count as overload.
        latency_target: Option<Duration>,
    },
    /// Netflix's Gradient2.
    Gradient,
    /// TCP Vegas.
    Vegas,
    /// The limit stays where it is.
    Fixed,
}

/// The waiting room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    length: u32,
    wait: Duration,
}

/// When a request stops being in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermitEnd {
    /// When the response body has ended: a stream counts while it lives.
    #[default]
    BodyEnd,
    /// When the response head has come.
    Head,
}

impl LimiterConfig {
    pub(super) fn check(name: &Spanned<String>, raw: &LimiterSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("limiters.{}.{field}", name.get_ref());
        check.name(&format!("limiters.{}", name.get_ref()), name);
        let min = check.whole(&key("min"), &raw.min, 1, 1..=MAX_LIMIT);
        let max = check.whole(&key("max"), &raw.max, min.max(1000), 1..=MAX_LIMIT);
        let bounds = Bounds::new(min, max).unwrap_or_else(|_| {
            let place = raw.max.as_ref().or(raw.min.as_ref()).map_or(name.span(), Spanned::span);
            check.wrong_at(&key("max"), place, format_args!("max {max} is below min {min}; needed: min <= max"));
            Bounds::new(1, MAX_LIMIT).expect("1 is not above the largest limit")
        });
        let usual = 20.clamp(bounds.min(), bounds.max());
        let initial = check.whole(&key("initial"), &raw.initial, usual, bounds.min()..=bounds.max());
        Self {
            bounds,
            initial,
            law: LawConfig::check(&key, raw, check),
            mode: check.word(
                &key("mode"),
                &raw.mode,
                &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow), ("off", Mode::Off)],
            ),
            queue: QueueConfig {
                length: check.whole(&key("queue.length"), &raw.queue.length, 0, 0..=1_000_000),
                wait: check.duration(
                    &key("queue.wait"),
                    &raw.queue.wait,
                    Duration::from_secs(1),
                    Duration::from_millis(1)..=Duration::from_secs(600),
                ),
            },
            ceiling: raw.ceiling.as_ref().map(|name| name.get_ref().clone()),
            reject_status: reject_status(&key("reject_status"), raw, check),
            permit_end: check.word(
                &key("permit_end"),
                &raw.permit_end,
                &[("body_end", PermitEnd::BodyEnd), ("head", PermitEnd::Head)],
            ),
            shares: SharesConfig::check(&key, &raw.classes, (&raw.class_header, &raw.tenants), check),
        }
    }

    /// The smallest and largest limit. Default 1 to 1000.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The limit to start with. Default 20, within the bounds. A reload does not apply it again.
    pub fn initial(&self) -> u32 {
        self.initial
    }

    /// The law. Default: the library's.
    pub fn law(&self) -> LawConfig {
        self.law
    }

    /// Whether it enforces, only counts, or stands aside.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The waiting room.
    pub fn queue(&self) -> QueueConfig {
        self.queue
    }

    /// The ceiling of its routes that name none.
    pub fn ceiling(&self) -> Option<&str> {
        self.ceiling.as_deref()
    }

    /// The HTTP status of a refusal: 503 (the default) or 429.
    pub fn reject_status(&self) -> u16 {
        self.reject_status
    }

    /// How it is shared between classes and tenants.
    pub fn shares(&self) -> &SharesConfig {
        &self.shares
    }

    /// When a request stops being in flight.
    pub fn permit_end(&self) -> PermitEnd {
        self.permit_end
    }
}

impl QueueConfig {
    /// The most requests that wait; 0 (the default) lets nobody wait.
    pub fn length(self) -> u32 {
        self.length
    }

    /// The longest a request waits. Default 1 s.
    pub fn wait(self) -> Duration {
        self.wait
    }
}

impl LawConfig {
    fn check(key: &impl Fn(&str) -> String, raw: &LimiterSection, check: &mut Check) -> Self {
        let latency_target = raw.latency_target.as_ref().map(|_| {
            let (least, most) = (Duration::from_millis(1), Duration::from_secs(3600));
            check.duration(&key("latency_target"), &raw.latency_target, most, least..=most)
        });
        let backoff = raw.aimd.as_ref().and_then(|aimd| aimd.get_ref().backoff.as_ref());
        if let Some(backoff) = backoff.filter(|b| !(0.1..=0.99).contains(b.get_ref())) {
            check.wrong(&key("aimd.backoff"), backoff, "must be within 0.1 and 0.99");
        }
        let mut words = [
            ("knee", Self::Knee { latency_target }),
            ("aimd", Self::Aimd { backoff: backoff.map_or(0.9, |b| *b.get_ref()), latency_target }),
            ("gradient", Self::Gradient),
            ("vegas", Self::Vegas),
            ("fixed", Self::Fixed),
        ];
        let usual = law::default_law().name();
        words.sort_by_key(|(word, _)| *word != usual);
        let law = check.word(&key("law"), &raw.law, &words);
        if let Some(settings) = raw.aimd.as_ref().filter(|_| !matches!(law, Self::Aimd { .. })) {
            check.wrong_at(&key("aimd"), settings.span(), "settings for the law aimd, but another law is chosen");
        }
        let uses_target = matches!(law, Self::Knee { .. } | Self::Aimd { .. });
        if let Some(target) = raw.latency_target.as_ref().filter(|_| !uses_target) {
            check.wrong_text(&key("latency_target"), target, "only the laws knee and aimd take one");
        }
        law
    }

    /// A law that has learned nothing yet.
    pub fn build(self) -> Box<dyn Law> {
        match self {
            Self::Knee { latency_target } => {
                let law = Knee::default();
                Box::new(match latency_target {
                    Some(target) => law.latency_target(target),
                    None => law,
                })
            }
            Self::Aimd { backoff, latency_target } => {
                let law = Aimd::default().backoff(backoff);
                Box::new(match latency_target {
                    Some(target) => law.latency_target(target),
                    None => law,
                })
            }
            Self::Gradient => Box::new(Gradient::default()),
            Self::Vegas => Box::new(Vegas::default()),
            Self::Fixed => Box::new(Fixed),
        }
    }
}

fn reject_status(key: &str, raw: &LimiterSection, check: &mut Check) -> u16 {
    let Some(status) = &raw.reject_status else { return 503 };
    match status.get_ref() {
        429 => 429,
        503 => 503,
        _ => {
            check.wrong(key, status, "must be 429 or 503");
            503
        }
    }
}
