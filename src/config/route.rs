//! Which requests go where, and through which limiter.

mod deadline;

use std::collections::BTreeMap;

pub use deadline::RouteDeadline;

use super::ceiling::CeilingConfig;
use super::check::Check;
use super::file::{RouteSection, Text};
use super::limiter::LimiterConfig;
use super::placed::Spanned;
use super::read::nearest;
use super::upstream::UpstreamConfig;

/// One rule. The longest prefix that fits wins; of equal ones the first in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteConfig {
    prefix: String,
    methods: Vec<String>,
    header: Option<(String, Option<String>)>,
    upstream: String,
    limiter: Option<String>,
    ceiling: Option<String>,
    class: Option<String>,
    deadline: RouteDeadline,
}

/// What a route may name: upstreams, limiters, ceilings.
type Named<'a> =
    (&'a BTreeMap<String, UpstreamConfig>, &'a BTreeMap<String, LimiterConfig>, &'a BTreeMap<String, CeilingConfig>);

impl RouteConfig {
    /// Every path, to `upstream`, through `limiter`.
    pub(super) fn everything(upstream: &str, limiter: &str) -> Self {
        Self {
            prefix: "/".into(),
            methods: Vec::new(),
            header: None,
            upstream: upstream.into(),
            limiter: Some(limiter.into()),
            ceiling: None,
            class: None,
            deadline: RouteDeadline::default(),
        }
    }

    pub(super) fn check(
        at: usize,
        raw: &Spanned<RouteSection>,
        (upstreams, limiters, ceilings): Named<'_>,
        check: &mut Check,
    ) -> Self {
        let key = |field: &str| format!("routes[{at}].{field}");
        let (place, raw) = (raw.span(), raw.get_ref());
        let prefix = raw.prefix.as_ref().map_or("/", |prefix| prefix.get_ref().as_str());
        if let Some(raw) = raw.prefix.as_ref().filter(|p| !p.get_ref().starts_with('/')) {
            check.wrong_text(&key("prefix"), raw, "must begin with /");
        }
        for method in &raw.methods {
            let text = method.get_ref();
            if text.is_empty() || !text.chars().all(|c| c.is_ascii_uppercase() || c == '-') {
                check.wrong_text(&key("methods"), method, "must be a method in capitals, such as GET");
            }
        }
        let header = raw.header.as_ref().and_then(|header| {
            let (place, header) = (header.span(), header.get_ref());
            let name = header.name.as_ref().map(|name| name.get_ref().to_ascii_lowercase());
            let Some(name) = name.filter(|name| is_header_name(name)) else {
                check.wrong_at(&key("header.name"), place, "must be the name of a header");
                return None;
            };
            Some((name, header.value.as_ref().map(|value| value.get_ref().clone())))
        });
        let upstream = pointed_at(&key("upstream"), &raw.upstream, upstreams, check);
        if raw.upstream.is_none() {
            check.wrong_at(&key("upstream"), place, "is missing; needed: the name of an upstream");
        }
        let limiter = pointed_at(&key("limiter"), &raw.limiter, limiters, check);
        let guard = limiter.as_ref().and_then(|name| limiters.get(name));
        let worker = (upstream.as_ref().and_then(|name| upstreams.get(name)), guard);
        Self {
            ceiling: pointed_at(&key("ceiling"), &raw.ceiling, ceilings, check),
            deadline: RouteDeadline::check(&key, &raw.deadline, worker, check),
            prefix: prefix.to_owned(),
            methods: raw.methods.iter().map(|m| m.get_ref().clone()).collect(),
            header,
            upstream: upstream.unwrap_or_default(),
            class: class(&key("class"), &raw.class, guard, check),
            limiter,
        }
    }

    /// What the path begins with, whole segments only: `/api` fits `/api` and `/api/x`, not `/apix`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The methods it is for; all when empty.
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// A header that must be there (name in lower case), with this value when one is given.
    pub fn header(&self) -> Option<(&str, Option<&str>)> {
        self.header.as_ref().map(|(name, value)| (name.as_str(), value.as_deref()))
    }

    /// The name of the upstream.
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    /// The name of the ceiling; the limiter's own without one.
    pub fn ceiling(&self) -> Option<&str> {
        self.ceiling.as_deref()
    }

    /// The name of the limiter; without one, requests pass unlimited.
    pub fn limiter(&self) -> Option<&str> {
        self.limiter.as_deref()
    }

    /// The class of its requests in the limiter, when it says so.
    pub fn class(&self) -> Option<&str> {
        self.class.as_deref()
    }

    /// How long a request's answer is of use.
    pub fn deadline(&self) -> &RouteDeadline {
        &self.deadline
    }
}

/// The name of a class, which must be one of the route's limiter.
fn class(key: &str, raw: &Text, limiter: Option<&LimiterConfig>, check: &mut Check) -> Option<String> {
    let raw = raw.as_ref()?;
    match limiter.map(LimiterConfig::shares) {
        Some(shares) if shares.has_class(raw.get_ref()) => {}
        Some(shares) => {
            let names: Vec<&str> = shares.classes().iter().map(|class| &**class.name()).collect();
            let hint = nearest(raw.get_ref(), &names).map(|n| format!("; did you mean \"{n}\"?")).unwrap_or_default();
            let known = [&names[..], &["default"]].concat().join(", ");
            check.wrong_text(key, raw, format_args!("is no class of the limiter{hint} there are: {known}"));
        }
        None => check.wrong_text(key, raw, "the class of a limiter, but the route names no limiter"),
    }
    Some(raw.get_ref().clone())
}

pub(super) fn is_header_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// The name in `raw`, which must be one that exists.
pub(super) fn pointed_at<T>(key: &str, raw: &Text, known: &BTreeMap<String, T>, check: &mut Check) -> Option<String> {
    let raw = raw.as_ref()?;
    if !known.contains_key(raw.get_ref()) {
        let names: Vec<&str> = known.keys().map(String::as_str).collect();
        let hint = nearest(raw.get_ref(), &names).map(|n| format!(" did you mean \"{n}\"?")).unwrap_or_default();
        let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        check.wrong_text(key, raw, format_args!("points to nothing;{hint} there are: {known}"));
    }
    Some(raw.get_ref().clone())
}
