//! Who is told what is wrong, and how often.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::Check;
use super::file::{Text, Whole};
use super::placed::Spanned;

/// Alerts: the first event at once, one summary a period, one word at the end.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AlertsSection {
    /// One summary for each group (limiter, route, reason) in this time. Default `1m`, from `1s` to
    /// `1h`. Too short a time makes many messages.
    #[schemars(extend("format" = "duration"))]
    period: Text,
    /// Resolved after this long without an event. Default `1m`, from `1s` to `24h`. Too short a time
    /// makes alerts that come and go.
    #[schemars(extend("format" = "duration"))]
    quiet: Text,
    /// Groups that are told apart; the rest shares one. Default 200.
    #[schemars(range(min = 1, max = 1000))]
    max_groups: Whole,
    /// Heaviest tenants that a message names. Default 5.
    #[schemars(range(min = 0, max = 20))]
    tenants: Whole,
    /// Whether alerts go into the gateway's log too. Default `true`.
    log: Option<Spanned<bool>>,
    /// What this process is called in messages. Default: the host's name. Counts at the next start.
    instance: Text,
    /// Webhooks, by name.
    webhooks: BTreeMap<Spanned<String>, WebhookSection>,
    /// Alertmanagers, by name. Of several that know each other, each is to be named.
    alertmanagers: BTreeMap<Spanned<String>, AlertmanagerSection>,
}

/// A webhook that gets JSON by POST.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct WebhookSection {
    /// Where it is. Needed, or `url_file`.
    url: Text,
    /// Path of a file with the URL in its first line, for URLs that are secrets. Read at each use.
    url_file: Text,
    /// `json` with all numbers, or `chat` with one `text`. Default `json`.
    #[schemars(extend("enum" = ["json", "chat"]))]
    form: Text,
    /// Path of a file with a secret in its first line: each message is signed with it (HMAC-SHA256, in
    /// the header `x-tidegate-signature`). Read at each use. Default: not signed.
    secret_file: Text,
    /// The largest body that it takes; the smallest groups are summed up beyond. Default `64KiB`, from
    /// `2KiB` to `4MiB`.
    #[schemars(extend("format" = "size"))]
    max_body: Text,
    /// The longest that one attempt may take. Default `5s`, from `100ms` to `1m`.
    #[schemars(extend("format" = "duration"))]
    timeout: Text,
}

/// An Alertmanager, told through its v2 API.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct AlertmanagerSection {
    /// Its address, without `/api/v2/alerts`. Needed, or `url_file`.
    url: Text,
    /// Path of a file with the address in its first line. Read at each use.
    url_file: Text,
    /// Path of a file with a bearer token in its first line. Read at each use. Default: none.
    token_file: Text,
    /// Labels that every alert gets, beside `alertname`, `severity`, `limiter`, `route`, `reason` and
    /// `instance`.
    labels: BTreeMap<String, String>,
    /// What fires is sent again after this time, and expires after four times that. Default `1m`, from
    /// `1s` to `1h`.
    #[schemars(extend("format" = "duration"))]
    resend: Text,
    /// The longest that one attempt may take. Default `5s`, from `100ms` to `1m`.
    #[schemars(extend("format" = "duration"))]
    timeout: Text,
}

/// Who is told, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertsConfig {
    pub(super) period: Duration,
    pub(super) quiet: Duration,
    pub(super) max_groups: usize,
    pub(super) tenants: usize,
    pub(super) log: bool,
    pub(super) instance: Option<String>,
    pub(super) webhooks: BTreeMap<String, WebhookConfig>,
    pub(super) alertmanagers: BTreeMap<String, AlertmanagerConfig>,
}

/// Where a receiver is: said here, or in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The URL.
    Url(String),
    /// The file that holds it.
    File(PathBuf),
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Where it is.
    pub place: Place,
    /// Whether it gets one text instead of all numbers.
    pub chat: bool,
    /// The file with the secret that signs.
    pub secret_file: Option<PathBuf>,
    /// The largest body, in bytes. Default 64 KiB.
    pub max_body: u64,
    /// The longest attempt. Default 5 s.
    pub timeout: Duration,
}

/// An Alertmanager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertmanagerConfig {
    /// Where it is.
    pub place: Place,
    /// The file with the bearer token.
    pub token_file: Option<PathBuf>,
    /// Labels that every alert gets.
    pub labels: BTreeMap<String, String>,
    /// When what fires is sent again. Default 1 min.
    pub resend: Duration,
    /// The longest attempt. Default 5 s.
    pub timeout: Duration,
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

impl AlertsConfig {
    pub(super) fn check(raw: &AlertsSection, check: &mut Check) -> Self {
        let webhooks = raw.webhooks.iter().map(|(name, raw)| {
            check.name(&format!("alerts.webhooks.{}", name.get_ref()), name);
            (name.get_ref().clone(), WebhookConfig::check(name, raw, check))
        });
        let webhooks = webhooks.collect();
        let alertmanagers = raw.alertmanagers.iter().map(|(name, raw)| {
            check.name(&format!("alerts.alertmanagers.{}", name.get_ref()), name);
            (name.get_ref().clone(), AlertmanagerConfig::check(name, raw, check))
        });
        let alertmanagers = alertmanagers.collect();
        Self {
            period: check.duration("alerts.period", &raw.period, MINUTE, SECOND..=HOUR),
            quiet: check.duration("alerts.quiet", &raw.quiet, MINUTE, SECOND..=24 * HOUR),
            max_groups: check.whole("alerts.max_groups", &raw.max_groups, 200, 1..=1000) as usize,
            tenants: check.whole("alerts.tenants", &raw.tenants, 5, 0..=20) as usize,
            log: raw.log.as_ref().is_none_or(|log| *log.get_ref()),
            instance: raw.instance.as_ref().map(|instance| instance.get_ref().clone()),
            webhooks,
            alertmanagers,
        }
    }

    /// One summary for each group in this time. Default 1 min.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Resolved after this long without an event. Default 1 min.
    pub fn quiet(&self) -> Duration {
        self.quiet
    }

    /// Groups that are told apart. Default 200.
    pub fn max_groups(&self) -> usize {
        self.max_groups
    }

    /// Heaviest tenants that a message names. Default 5.
    pub fn tenants(&self) -> usize {
        self.tenants
    }

    /// Whether alerts go into the log. Default: they do.
    pub fn log(&self) -> bool {
        self.log
    }

    /// What this process is called in messages.
    pub fn instance(&self) -> Option<&str> {
        self.instance.as_deref()
    }

    /// The webhooks by name.
    pub fn webhooks(&self) -> &BTreeMap<String, WebhookConfig> {
        &self.webhooks
    }

    /// The Alertmanagers by name.
    pub fn alertmanagers(&self) -> &BTreeMap<String, AlertmanagerConfig> {
        &self.alertmanagers
    }
}

impl WebhookConfig {
    fn check(name: &Spanned<String>, raw: &WebhookSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("alerts.webhooks.{}.{field}", name.get_ref());
        Self {
            place: Place::check(&key("url"), name, (&raw.url, &raw.url_file), check),
            chat: check.word(&key("form"), &raw.form, &[("json", false), ("chat", true)]),
            secret_file: path(&raw.secret_file),
            max_body: check.size(&key("max_body"), &raw.max_body, 2 << 10..=4 << 20).unwrap_or(64 << 10),
            timeout: timeout(&key("timeout"), &raw.timeout, check),
        }
    }
}

impl AlertmanagerConfig {
    fn check(name: &Spanned<String>, raw: &AlertmanagerSection, check: &mut Check) -> Self {
        let key = |field: &str| format!("alerts.alertmanagers.{}.{field}", name.get_ref());
        let fits = |label: &str| {
            let mut chars = label.chars();
            chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
                && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        if let Some(label) = raw.labels.keys().find(|label| !fits(label)) {
            let message = format_args!("\"{label}\" is no label: allowed are a-z, A-Z, 0-9 and _, no digit in front");
            check.wrong_at(&key("labels"), name.span(), message);
        }
        Self {
            place: Place::check(&key("url"), name, (&raw.url, &raw.url_file), check),
            token_file: path(&raw.token_file),
            labels: raw.labels.clone(),
            resend: check.duration(&key("resend"), &raw.resend, MINUTE, SECOND..=HOUR),
            timeout: timeout(&key("timeout"), &raw.timeout, check),
        }
    }
}

impl Place {
    /// The value is not shown: it may be a secret.
    fn check(key: &str, name: &Spanned<String>, (url, file): (&Text, &Text), check: &mut Check) -> Self {
        match (url, file) {
            (Some(url), None) => {
                let text = url.get_ref();
                if !text.starts_with("http://") && !text.starts_with("https://") {
                    check.wrong_at(key, url.span(), "must begin with http:// or https://");
                }
                Self::Url(text.clone())
            }
            (None, Some(file)) => Self::File(file.get_ref().into()),
            (Some(_), Some(file)) => {
                check.wrong_at(key, file.span(), "url and url_file exclude each other");
                Self::File(PathBuf::new())
            }
            (None, None) => {
                check.wrong_at(key, name.span(), "is missing; needed: url, or url_file with the path of a file");
                Self::File(PathBuf::new())
            }
        }
    }

    /// The file, if it is in one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Url(_) => None,
            Self::File(path) => Some(path),
        }
    }
}

fn path(raw: &Text) -> Option<PathBuf> {
    raw.as_ref().map(|path| path.get_ref().into())
}

fn timeout(key: &str, raw: &Text, check: &mut Check) -> Duration {
    check.duration(key, raw, Duration::from_secs(5), Duration::from_millis(100)..=MINUTE)
}
