//! How an upstream that asks to be left alone is left alone.

use std::time::Duration;

use super::check::Check;
use super::classify_file::HoldOffSection;

/// The hold-off of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldOffConfig {
    on: bool,
    cap: Duration,
    by_header: Option<String>,
}

impl HoldOffConfig {
    pub(super) fn check(upstream: &str, raw: &HoldOffSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("upstreams.{upstream}.hold_off.{field}");
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if let Some(name) = raw.by_header.as_ref().filter(|name| !is_name(name.get_ref())) {
            check.wrong_text(&key("by_header"), name, "must be the name of a header");
        }
        let allowed = Duration::from_secs(1)..=Duration::from_secs(3600);
        Self {
            on: check.word(&key("mode"), &raw.mode, &[("on", true), ("off", false)]),
            cap: check.duration(&key("cap"), &raw.cap, Duration::from_secs(60), allowed),
            by_header: raw.by_header.as_ref().map(|name| name.get_ref().to_ascii_lowercase()),
        }
    }

    /// Whether requests are refused while it holds. Default: yes.
    pub fn on(&self) -> bool {
        self.on
    }

    /// The longest hold-off. Default 60 s.
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// The request header that tells apart who is held off together, in lower case; by route without.
    pub fn by_header(&self) -> Option<&str> {
        self.by_header.as_deref()
    }
}
