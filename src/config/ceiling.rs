//! A ceiling's settings: the rate, and how it is shared.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ceiling_file::{CeilingSection, SharedSection};
use super::check::Check;
use super::placed::Spanned;
use crate::ceiling::{MAX_RATE, MAX_UNITS, MIN_RATE, MOST_WAITING};

/// One ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct CeilingConfig {
    rate: f64,
    burst: u32,
    bounds: (f64, f64),
    wait: Duration,
    waiting: u32,
    shared: Option<SharedConfig>,
}

/// The store of a shared ceiling.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedConfig {
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    prefix: String,
    timeout: Duration,
    members: u32,
    refuse: bool,
    fallback_rate: Option<f64>,
}

impl CeilingConfig {
    pub(super) fn check(name: &Spanned<String>, raw: &CeilingSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("ceilings.{}.{field}", name.get_ref());
        check.name(&format!("ceilings.{}", name.get_ref()), name);
        if raw.rate.is_none() {
            check.wrong_at(&key("rate"), name.span(), "is missing; needed: requests a second");
        }
        let rate = check.number(&key("rate"), &raw.rate, 1.0, MIN_RATE..=MAX_RATE);
        let min = check.number(&key("min"), &raw.min, rate, MIN_RATE..=MAX_RATE);
        let max = check.number(&key("max"), &raw.max, rate, MIN_RATE..=MAX_RATE);
        if let Some(place) = raw.min.as_ref().filter(|_| min > rate && raw.rate.is_some()) {
            check.wrong(&key("min"), place, format_args!("is above rate {rate}; needed: min <= rate <= max"));
        }
        if let Some(place) = raw.max.as_ref().filter(|_| max < rate && raw.rate.is_some()) {
            check.wrong(&key("max"), place, format_args!("is below rate {rate}; needed: min <= rate <= max"));
        }
        let usual = (rate / 10.0).clamp(1.0, f64::from(MAX_UNITS)) as u32;
        let longest = Duration::from_secs(600);
        Self {
            rate,
            burst: check.whole(&key("burst"), &raw.burst, usual, 1..=MAX_UNITS),
            bounds: (min.min(rate), max.max(rate)),
            wait: check.duration(&key("wait"), &raw.wait, Duration::from_millis(100), Duration::ZERO..=longest),
            waiting: check.whole(&key("waiting"), &raw.waiting, 1000, 0..=MOST_WAITING),
            shared: raw.shared.as_ref().map(|raw| SharedConfig::check(&key("shared"), raw, check)),
        }
    }

    /// Requests a second, to start with.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Requests that may come at once. Default: a tenth of the rate.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    /// The smallest and the largest rate. Default: the rate.
    pub fn bounds(&self) -> (f64, f64) {
        self.bounds
    }

    /// How long a request may wait for its turn. Default 100 ms.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The most requests that wait. Default 1000.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The store, when the ceiling is shared.
    pub fn shared(&self) -> Option<&SharedConfig> {
        self.shared.as_ref()
    }
}

impl SharedConfig {
    fn check(section: &str, raw: &Spanned<SharedSection>, check: &mut Check) -> Self {
        let key = |field: &str| format!("{section}.{field}");
        let (place, raw) = (raw.span(), raw.get_ref());
        let text = |raw: &super::file::Text| raw.as_ref().map(|text| text.get_ref().clone());
        match &raw.url {
            None => check.wrong_at(&key("url"), place, "is missing; needed: redis://HOST[:PORT][/DB]"),
            Some(url) => check_url(&key("url"), url, check),
        }
        if let Some(user) = raw.user.as_ref().filter(|_| raw.password_file.is_none()) {
            check.wrong_text(&key("user"), user, "needs password_file");
        }
        let refuse = check.word(&key("on_loss"), &raw.on_loss, &[("share", false), ("refuse", true)]);
        let fallback_rate = raw.fallback_rate.as_ref().map(|given| {
            if refuse {
                check.wrong(&key("fallback_rate"), given, "nothing stands in with on_loss = \"refuse\"");
            }
            check.number(&key("fallback_rate"), &raw.fallback_rate, MIN_RATE, MIN_RATE..=MAX_RATE)
        });
        let allowed = Duration::from_millis(1)..=Duration::from_secs(1);
        Self {
            url: text(&raw.url).unwrap_or_default(),
            user: text(&raw.user),
            password_file: text(&raw.password_file).map(Into::into),
            ca_file: text(&raw.ca_file).map(Into::into),
            prefix: text(&raw.prefix).unwrap_or_else(|| "tidegate:ceiling:".into()),
            timeout: check.duration(&key("timeout"), &raw.timeout, Duration::from_millis(20), allowed),
            members: check.whole(&key("members"), &raw.members, 10, 1..=100_000),
            refuse,
            fallback_rate,
        }
    }

    /// Where the store is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The user; the store's default without.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The file with the password.
    pub fn password_file(&self) -> Option<&Path> {
        self.password_file.as_deref()
    }

    /// Certificates to trust instead of the system's.
    pub fn ca_file(&self) -> Option<&Path> {
        self.ca_file.as_deref()
    }

    /// What the key begins with.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// How long a call may take. Default 20 ms.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// How many processes share it, before the store has counted them. Default 10.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// Whether everything is refused while the store is lost. Default: no.
    pub fn refuse(&self) -> bool {
        self.refuse
    }

    /// The rate of this process while the store is lost; its share of the rate without.
    pub fn fallback_rate(&self) -> Option<f64> {
        self.fallback_rate
    }
}

/// What is wrong with a URL is said without the URL when it may hold a password.
fn check_url(key: &str, url: &Spanned<String>, check: &mut Check) {
    let rest = ["redis://", "rediss://", "valkey://", "valkeys://"].iter().find_map(|s| url.get_ref().strip_prefix(s));
    match rest {
        Some(rest) if rest.contains('@') => {
            check.wrong_at(
                key,
                url.span(),
                "holds a user or a password; needed: user apart, the password in password_file",
            );
        }
        Some(rest) if !rest.is_empty() && !rest.starts_with([':', '/']) => {}
        _ => check.wrong_text(key, url, "must be redis://HOST[:PORT][/DB], or rediss:// with TLS"),
    }
}
