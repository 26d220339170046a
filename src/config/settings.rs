//! Every key of a config with its effective value, as text. Pure. Keys that hold nothing are left out,
//! and so is the section `change`, which tells how to apply the others.

mod shares;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use super::value::{show_duration, show_size};
use super::{
    AdminConfig, AlertsConfig, AuditConfig, CeilingConfig, Config, Forwarded, HoldOffConfig, HostHeader, LawConfig,
    LimiterConfig, OnFailure, PermitEnd, Place, RouteConfig, RouteDeadline, ServerConfig, UpstreamConfig,
};
use crate::deadline::BudgetUnit;

/// Whether a key's values are never shown.
pub(super) fn is_secret(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    let words = ["secret", "password", "token", "authorization", "api_key", "webhook"];
    words.iter().any(|word| last == *word || last.ends_with(&format!("_{word}")))
        || (key.starts_with("alerts.") && last == "url")
}

/// All keys and values.
pub(super) fn settings(config: &Config) -> BTreeMap<String, String> {
    let mut all = Settings::default();
    all.server(config.server());
    all.admin(config.admin());
    all.audit(config.audit());
    all.alerts(config.alerts());
    all.list("exempt", config.exempt());
    for (name, upstream) in config.upstreams() {
        all.upstream(name, upstream);
    }
    for (name, limiter) in config.limiters() {
        all.limiter(name, limiter);
    }
    for (name, ceiling) in config.ceilings() {
        all.ceiling(name, ceiling);
    }
    all.routes(config.routes());
    for (name, hold_off) in config.hold_offs() {
        all.hold_off(name, hold_off);
    }
    for rule in config.classify() {
        for (key, value) in rule.settings() {
            all.put(&format!("classify[{}].{key}", rule.rule().name()), value);
        }
    }
    all.values
}

#[derive(Default)]
struct Settings {
    values: BTreeMap<String, String>,
}

impl Settings {
    fn put(&mut self, key: &str, value: impl Display) {
        self.values.insert(key.to_owned(), value.to_string());
    }

    fn time(&mut self, key: &str, value: Duration) {
        self.put(key, show_duration(value));
    }

    fn path(&mut self, key: &str, value: Option<&Path>) {
        if let Some(path) = value {
            self.put(key, path.display());
        }
    }

    fn list(&mut self, key: &str, values: &[String]) {
        if !values.is_empty() {
            self.put(key, values.join(", "));
        }
    }

    fn server(&mut self, server: &ServerConfig) {
        self.put("server.listen", server.listen());
        self.put("server.threads", server.threads());
        self.put("server.max_connections", server.max_connections());
        self.time("server.header_timeout", server.header_timeout());
        self.time("server.idle_timeout", server.idle_timeout());
        if let Some(limit) = server.body_limit() {
            self.put("server.body_limit", show_size(limit));
        }
        self.put("server.peek", show_size(server.peek()));
        self.time("server.drain", server.drain());
        if let Some(delay) = server.overload_delay() {
            self.time("server.overload_delay", delay);
        }
        let forwarded = match server.forwarded() {
            Forwarded::Append => "append",
            Forwarded::Replace => "replace",
        };
        self.put("server.forwarded", forwarded);
        self.path("server.tls.cert", server.tls().map(|tls| tls.cert.as_path()));
        self.path("server.tls.key", server.tls().map(|tls| tls.key.as_path()));
    }

    fn admin(&mut self, admin: &AdminConfig) {
        if let Some(listen) = admin.listen() {
            self.put("admin.listen", listen);
        }
        self.path("admin.token_file", admin.token_file());
    }

    fn audit(&mut self, audit: &AuditConfig) {
        self.path("audit.dir", audit.dir());
        let on_failure = match audit.on_failure() {
            OnFailure::Refuse => "refuse",
            OnFailure::Apply => "apply",
        };
        self.put("audit.on_failure", on_failure);
        self.put("audit.max_size", show_size(audit.max_size()));
        self.put("audit.keep_files", audit.keep_files());
        self.put("audit.keep_versions", audit.keep_versions());
    }

    fn alerts(&mut self, alerts: &AlertsConfig) {
        self.time("alerts.period", alerts.period);
        self.time("alerts.quiet", alerts.quiet);
        self.put("alerts.max_groups", alerts.max_groups);
        self.put("alerts.tenants", alerts.tenants);
        self.put("alerts.log", alerts.log);
        if let Some(instance) = &alerts.instance {
            self.put("alerts.instance", instance);
        }
        for (name, webhook) in &alerts.webhooks {
            let key = |field: &str| format!("alerts.webhooks.{name}.{field}");
            self.place(&key("url"), &webhook.place);
            self.put(&key("form"), if webhook.chat { "chat" } else { "json" });
            self.path(&key("secret_file"), webhook.secret_file.as_deref());
            self.put(&key("max_body"), show_size(webhook.max_body));
            self.time(&key("timeout"), webhook.timeout);
        }
        for (name, manager) in &alerts.alertmanagers {
            let key = |field: &str| format!("alerts.alertmanagers.{name}.{field}");
            self.place(&key("url"), &manager.place);
            self.path(&key("token_file"), manager.token_file.as_deref());
            let labels: Vec<String> = manager.labels.iter().map(|(label, value)| format!("{label}={value}")).collect();
            self.list(&key("labels"), &labels);
            self.time(&key("resend"), manager.resend);
            self.time(&key("timeout"), manager.timeout);
        }
    }

    fn place(&mut self, key: &str, place: &Place) {
        match place {
            Place::Url(url) => self.put(key, url),
            Place::File(path) => self.path(&format!("{key}_file"), Some(path)),
        }
    }

    fn upstream(&mut self, name: &str, upstream: &UpstreamConfig) {
        let key = |field: &str| format!("upstreams.{name}.{field}");
        self.put(&key("url"), upstream.url());
        self.time(&key("connect_timeout"), upstream.connect_timeout());
        self.time(&key("response_timeout"), upstream.response_timeout());
        self.time(&key("idle_timeout"), upstream.idle_timeout());
        self.time(&key("keep_alive"), upstream.keep_alive());
        self.put(&key("http2"), upstream.http2());
        let host = match upstream.host() {
            HostHeader::Client => "client",
            HostHeader::Upstream => "upstream",
        };
        self.put(&key("host"), host);
        self.path(&key("tls_ca"), upstream.tls_ca());
    }

    fn ceiling(&mut self, name: &str, ceiling: &CeilingConfig) {
        let key = |field: &str| format!("ceilings.{name}.{field}");
        self.put(&key("rate"), ceiling.rate());
        self.put(&key("burst"), ceiling.burst());
        self.put(&key("min"), ceiling.bounds().0);
        self.put(&key("max"), ceiling.bounds().1);
        self.time(&key("wait"), ceiling.wait());
        self.put(&key("waiting"), ceiling.waiting());
        let Some(shared) = ceiling.shared() else { return };
        let key = |field: &str| format!("ceilings.{name}.shared.{field}");
        self.put(&key("url"), shared.url());
        if let Some(user) = shared.user() {
            self.put(&key("user"), user);
        }
        self.path(&key("password_file"), shared.password_file());
        self.path(&key("ca_file"), shared.ca_file());
        self.put(&key("prefix"), shared.prefix());
        self.time(&key("timeout"), shared.timeout());
        self.put(&key("members"), shared.members());
        self.put(&key("on_loss"), if shared.refuse() { "refuse" } else { "share" });
        if let Some(rate) = shared.fallback_rate() {
            self.put(&key("fallback_rate"), rate);
        }
    }

    fn hold_off(&mut self, name: &str, hold_off: &HoldOffConfig) {
        let key = |field: &str| format!("upstreams.{name}.hold_off.{field}");
        self.put(&key("mode"), if hold_off.on() { "on" } else { "off" });
        self.time(&key("cap"), hold_off.cap());
        if let Some(header) = hold_off.by_header() {
            self.put(&key("by_header"), header);
        }
    }

    fn limiter(&mut self, name: &str, limiter: &LimiterConfig) {
        let key = |field: &str| format!("limiters.{name}.{field}");
        self.put(&key("min"), limiter.bounds().min());
        self.put(&key("max"), limiter.bounds().max());
        self.put(&key("initial"), limiter.initial());
        self.put(&key("law"), limiter.law().build().name());
        if let LawConfig::Aimd { backoff, .. } = limiter.law() {
            self.put(&key("aimd.backoff"), backoff);
        }
        let target = match limiter.law() {
            LawConfig::Knee { latency_target } | LawConfig::Aimd { latency_target, .. } => latency_target,
            LawConfig::Gradient | LawConfig::Vegas | LawConfig::Fixed => None,
        };
        if let Some(target) = target {
            self.time(&key("latency_target"), target);
        }
        self.put(&key("mode"), limiter.mode().as_str());
        self.put(&key("queue.length"), limiter.queue().length());
        self.time(&key("queue.wait"), limiter.queue().wait());
        if let Some(ceiling) = limiter.ceiling() {
            self.put(&key("ceiling"), ceiling);
        }
        self.put(&key("reject_status"), limiter.reject_status());
        let permit_end = match limiter.permit_end() {
            PermitEnd::BodyEnd => "body_end",
            PermitEnd::Head => "head",
        };
        self.put(&key("permit_end"), permit_end);
        self.shares(name, limiter.shares());
    }

    /// Routes have no names: they go by what they are for, so that one more in front does not look
    /// as if all were different. Their order counts only among those with the same prefix.
    fn routes(&mut self, routes: &[RouteConfig]) {
        let mut competing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for route in routes {
            let mut name = what_for(route);
            let same = competing.entry(route.prefix()).or_default();
            let twins = same.iter().filter(|other| **other == name).count();
            if twins > 0 {
                name = format!("{name} #{}", twins + 1);
            }
            self.put(&format!("routes[{name}].upstream"), route.upstream());
            if let Some(limiter) = route.limiter() {
                self.put(&format!("routes[{name}].limiter"), limiter);
            }
            if let Some(ceiling) = route.ceiling() {
                self.put(&format!("routes[{name}].ceiling"), ceiling);
            }
            if let Some(class) = route.class() {
                self.put(&format!("routes[{name}].class"), class);
            }
            self.deadline(&format!("routes[{name}].deadline"), route.deadline());
            same.push(name);
        }
        for (prefix, names) in competing {
            if names.len() > 1 {
                self.put(&format!("routes[{prefix}].order"), names.join("; "));
            }
        }
    }

    fn deadline(&mut self, key: &str, deadline: &RouteDeadline) {
        if let Some((header, unit)) = deadline.header() {
            self.put(&format!("{key}.header"), header);
            self.put(&format!("{key}.unit"), if unit == BudgetUnit::Seconds { "s" } else { "ms" });
        }
        for (field, time) in [("budget", deadline.budget()), ("client_timeout", deadline.client_timeout())] {
            if let Some(time) = time {
                self.put(&format!("{key}.{field}"), show_duration(time));
            }
        }
    }
}

fn what_for(route: &RouteConfig) -> String {
    let mut name = route.methods().join(",");
    if !name.is_empty() {
        name.push(' ');
    }
    name.push_str(route.prefix());
    match route.header() {
        Some((header, Some(value))) => name.push_str(&format!(" {header}={value}")),
        Some((header, None)) => name.push_str(&format!(" {header}")),
        None => {}
    }
    name
}
