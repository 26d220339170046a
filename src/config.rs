//! The gateway's configuration: text in, checked values out. Pure; nobody reads a file here.
//!
//! A [`Config`] cannot hold a wrong value. What is wrong with a text is listed in full, with place,
//! value and what is allowed ([`InvalidConfig`]). Values from the command line lie over those of the
//! file, at the start and at every reload in the same way.
//!
//! Reading order: `file` (as written), `read` (text to that), `server`, `upstream`, `limiter`,
//! `ceiling`, `route`, `hold_off`, `classify` (checked), `check` (how), `violation` (what is said), `value` (durations and sizes),
//! `audit` and `change` (how changes are recorded and applied), `settings` (every key with its
//! effective value), `difference` (two configs, key by key), `edit` and `replace` (the file changed in
//! place), `schema` (for editors).

mod alerts;
mod audit;
mod ceiling;
mod ceiling_file;
mod change;
mod check;
mod classes;
mod classify;
mod classify_file;
mod difference;
#[cfg(feature = "edit")]
pub mod edit;
mod file;
mod hold_off;
mod limiter;
mod placed;
mod read;
#[cfg(feature = "edit")]
pub mod replace;
mod route;
mod schema;
mod server;
mod settings;
mod upstream;
mod value;
mod violation;
#[cfg(feature = "watch")]
pub mod watch;

pub use alerts::{AlertmanagerConfig, AlertsConfig, Place, WebhookConfig};
pub use audit::{AuditConfig, OnFailure};
pub use ceiling::{CeilingConfig, SharedConfig};
pub use change::{ChangeConfig, MaxRise};
pub use classes::{SharesConfig, TenantsConfig};
pub use classify::ClassifyConfig;
pub use difference::{Changed, difference};
pub use hold_off::HoldOffConfig;
pub use limiter::{LawConfig, LimiterConfig, PermitEnd, QueueConfig};
pub use route::{RouteConfig, RouteDeadline};
pub use schema::schema;
pub use server::{AdminConfig, Forwarded, ServerConfig, TlsFiles};
pub use upstream::{HostHeader, UpstreamConfig, Url};
#[cfg(feature = "audit")]
pub(crate) use value::parse_duration;
pub use violation::{InvalidConfig, Violation};

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use check::Check;
use file::{File, LimiterSection, UpstreamSection};
use placed::Spanned;
use violation::COMMAND_LINE;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    server: ServerConfig,
    admin: AdminConfig,
    audit: AuditConfig,
    change: ChangeConfig,
    alerts: AlertsConfig,
    exempt: Vec<String>,
    upstreams: BTreeMap<String, UpstreamConfig>,
    limiters: BTreeMap<String, LimiterConfig>,
    ceilings: BTreeMap<String, CeilingConfig>,
    routes: Vec<RouteConfig>,
    hold_offs: BTreeMap<String, HoldOffConfig>,
    classify: Vec<ClassifyConfig>,
}

/// Values from the command line. Each lies over the file's, also after a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Over `server.listen`.
    pub listen: Option<String>,
    /// Over `admin.listen`.
    pub admin: Option<String>,
    /// Over `upstreams.default.url`.
    pub upstream: Option<String>,
    /// Over `limiters.default.min`.
    pub min: Option<u32>,
    /// Over `limiters.default.max`.
    pub max: Option<u32>,
    /// Over `audit.dir`.
    pub audit: Option<String>,
}

/// The name of the upstream and the limiter that need not be named.
pub const DEFAULT: &str = "default";

/// More routes than this are refused: each request looks through them.
const MOST_ROUTES: usize = 1000;

impl Config {
    /// Reads and checks `text`. `source` is the file's name, for messages.
    ///
    /// Without routes, every path goes to the only upstream through the only limiter, or through
    /// those called `default`.
    ///
    /// # Errors
    /// [`InvalidConfig`] with every violation; nothing of it is usable then.
    pub fn parse(source: &str, text: &str, overrides: &Overrides) -> Result<Self, InvalidConfig> {
        let (mut file, found) = read::read(text);
        let mut check = Check::new(found);
        overrides.lay_over(&mut file);
        let config = Self::check(file, text.len(), &mut check);
        let violations = check.into_violations();
        if violations.is_empty() { Ok(config) } else { Err(InvalidConfig::new(source, text, violations)) }
    }

    fn check(mut file: File, end: usize, check: &mut Check) -> Self {
        if file.limiters.is_empty() {
            file.limiters.insert(named(DEFAULT), LimiterSection::default());
        }
        let upstreams: BTreeMap<_, _> = file
            .upstreams
            .iter()
            .map(|(name, raw)| (name.get_ref().clone(), UpstreamConfig::check(name, raw, check)))
            .collect();
        let limiters: BTreeMap<_, _> = file
            .limiters
            .iter()
            .map(|(name, raw)| (name.get_ref().clone(), LimiterConfig::check(name, raw, check)))
            .collect();
        let ceilings: BTreeMap<_, _> = file
            .ceilings
            .iter()
            .map(|(name, raw)| (name.get_ref().clone(), CeilingConfig::check(name, raw, check)))
            .collect();
        file.limiters.iter().for_each(|(name, raw)| {
            route::pointed_at(&format!("limiters.{}.ceiling", name.get_ref()), &raw.ceiling, &ceilings, check);
        });
        if upstreams.is_empty() {
            check.wrong_at("upstreams", end..end, "there is none; needed: [upstreams.NAME] with a url, or --upstream");
        }
        if let Some(route) = file.routes.get(MOST_ROUTES) {
            check.wrong_at("routes", route.span(), format_args!("at most {MOST_ROUTES} routes are allowed"));
        }
        if let Some(rule) = file.classify.get(classify::MOST_RULES) {
            check.wrong_at("classify", rule.span(), format_args!("at most {} rules are allowed", classify::MOST_RULES));
        }
        let rules = file.classify.iter().enumerate();
        let classify = rules.map(|(i, raw)| ClassifyConfig::check(i, raw, &upstreams, check)).collect();
        let named = (&upstreams, &limiters, &ceilings);
        let mut routes: Vec<_> =
            file.routes.iter().enumerate().map(|(i, raw)| RouteConfig::check(i, raw, named, check)).collect();
        if routes.is_empty() {
            routes.extend(Self::only_route(&upstreams, &limiters, end, check));
        }
        Self {
            server: ServerConfig::check(&file.server, check),
            admin: AdminConfig::check(&file.admin, check),
            audit: AuditConfig::check(&file.audit, check),
            change: ChangeConfig::check(&file.change, check),
            alerts: AlertsConfig::check(&file.alerts, check),
            exempt: exempt(&file.exempt, check),
            hold_offs: hold_offs(&file, check),
            upstreams,
            limiters,
            ceilings,
            routes,
            classify,
        }
    }

    fn only_route(
        upstreams: &BTreeMap<String, UpstreamConfig>,
        limiters: &BTreeMap<String, LimiterConfig>,
        end: usize,
        check: &mut Check,
    ) -> Option<RouteConfig> {
        let (upstream, limiter) = (the_one(upstreams), the_one(limiters));
        if let (Some(upstream), Some(limiter)) = (upstream, limiter) {
            return Some(RouteConfig::everything(upstream, limiter));
        }
        if !upstreams.is_empty() {
            let message = "there is none, and more than one upstream or limiter to choose from; \
                           needed: [[routes]] with upstream and limiter";
            check.wrong_at("routes", end..end, message);
        }
        None
    }

    /// The listening side.
    pub fn server(&self) -> &ServerConfig {
        &self.server
    }

    /// The admin side.
    pub fn admin(&self) -> &AdminConfig {
        &self.admin
    }

    /// Where changes are recorded.
    pub fn audit(&self) -> &AuditConfig {
        &self.audit
    }

    /// How this config is to be applied.
    pub fn change(&self) -> &ChangeConfig {
        &self.change
    }

    /// Who is told what is wrong.
    pub fn alerts(&self) -> &AlertsConfig {
        &self.alerts
    }

    /// Paths that pass every limiter, neither counted nor sampled. One that ends in `/` stands for
    /// everything below it.
    pub fn exempt(&self) -> &[String] {
        &self.exempt
    }

    /// The upstreams by name.
    pub fn upstreams(&self) -> &BTreeMap<String, UpstreamConfig> {
        &self.upstreams
    }

    /// The limiters by name.
    pub fn limiters(&self) -> &BTreeMap<String, LimiterConfig> {
        &self.limiters
    }

    /// The ceilings by name.
    pub fn ceilings(&self) -> &BTreeMap<String, CeilingConfig> {
        &self.ceilings
    }

    /// What happens when an upstream asks to be left alone, by the upstream's name.
    pub fn hold_offs(&self) -> &BTreeMap<String, HoldOffConfig> {
        &self.hold_offs
    }

    /// Rules for what answers mean, in the order of the file.
    pub fn classify(&self) -> &[ClassifyConfig] {
        &self.classify
    }

    /// The routes, in the order of the file.
    pub fn routes(&self) -> &[RouteConfig] {
        &self.routes
    }
}

impl Overrides {
    fn lay_over(&self, file: &mut File) {
        let text = |value: &Option<String>| value.clone().map(|v| Spanned::new(COMMAND_LINE, v));
        let whole = |value: Option<u32>| value.map(|v| Spanned::new(COMMAND_LINE, i64::from(v)));
        file.server.listen = text(&self.listen).or(file.server.listen.take());
        file.admin.listen = text(&self.admin).or(file.admin.listen.take());
        file.audit.dir = text(&self.audit).or(file.audit.dir.take());
        if self.upstream.is_some() {
            let section: &mut UpstreamSection = file.upstreams.entry(named(DEFAULT)).or_default();
            section.url = text(&self.upstream);
        }
        if self.min.is_some() || self.max.is_some() {
            let section: &mut LimiterSection = file.limiters.entry(named(DEFAULT)).or_default();
            section.min = whole(self.min).or(section.min.take());
            section.max = whole(self.max).or(section.max.take());
        }
    }
}

/// SHA-256 of a config's text, in hex: what the audit log, the API and `sha256sum` call it.
pub fn content_hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named(name: &str) -> Spanned<String> {
    Spanned::new(COMMAND_LINE, name.to_owned())
}

/// The only name, or the one called `default`.
fn the_one<T>(of: &BTreeMap<String, T>) -> Option<&str> {
    let only = of.keys().next().filter(|_| of.len() == 1);
    only.or_else(|| of.get_key_value(DEFAULT).map(|(name, _)| name)).map(String::as_str)
}

fn hold_offs(file: &File, check: &mut Check) -> BTreeMap<String, HoldOffConfig> {
    let named = file.upstreams.iter().map(|(name, raw)| (name.get_ref(), &raw.hold_off));
    named.map(|(name, raw)| (name.clone(), HoldOffConfig::check(name, raw, check))).collect()
}

fn exempt(raw: &[Spanned<String>], check: &mut Check) -> Vec<String> {
    for path in raw.iter().filter(|path| !path.get_ref().starts_with('/')) {
        check.wrong_text("exempt", path, "must begin with /");
    }
    raw.iter().map(|path| path.get_ref().clone()).collect()
}
