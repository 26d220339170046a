//! The routing table: what a checked config becomes so that each request finds its way fast.
//!
//! A table never changes; a reload puts another one in its place. Requests under way keep theirs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, Request};
use tidegate::alerts::Tally;
use tidegate::config::{Config, Forwarded, LimiterConfig, PermitEnd, RouteConfig, RouteDeadline};
use tidegate::tower::{DeadlineSource, RefusalStatus};
use tidegate::{Ceiling, ClassId, Classifier, HoldOff, Limiter, Mode};

use crate::proxy::Answers;
use crate::upstream::Upstream;

/// Everything a request needs to know.
pub(crate) struct Table {
    routes: Vec<Arc<Route>>,
    exempt: Box<[String]>,
    pub(crate) peek: usize,
    pub(crate) body_limit: Option<u64>,
    pub(crate) client_idle: Duration,
    pub(crate) forwarded: Forwarded,
}

/// One way: from a kind of request to an upstream.
pub(crate) struct Route {
    pub(crate) prefix: Box<str>,
    methods: Box<[Method]>,
    header: Option<(HeaderName, Option<HeaderValue>)>,
    pub(crate) upstream_name: Box<str>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) guard: Option<Arc<Guard>>,
    /// The class of its requests, when it says so.
    pub(crate) class: Option<ClassId>,
    /// Where requests tell their deadlines, and the upstream is told them.
    pub(crate) deadlines: DeadlineSource,
    /// What the upstream's answers mean.
    pub(crate) classifier: Classifier,
    pub(crate) holding: Holding,
    /// The rate that the route's requests contend for.
    pub(crate) pacing: Option<Pacing>,
}

/// An upstream's hold-off, what tells apart who is held off together, and where answers are counted.
pub(crate) struct Holding {
    pub(crate) hold_off: HoldOff,
    /// Whether its wishes to be left alone are heeded.
    pub(crate) on: bool,
    pub(crate) answers: Arc<Answers>,
    pub(crate) by_header: Option<HeaderName>,
}

/// A ceiling, and how long a request may wait for it.
pub(crate) struct Pacing {
    pub(crate) ceiling: Ceiling,
    pub(crate) wait: Duration,
}

/// A limiter, and how the gateway uses it.
pub(crate) struct Guard {
    pub(crate) limiter: Limiter,
    pub(crate) waits: bool,
    pub(crate) reject_status: RefusalStatus,
    pub(crate) permit_end: PermitEnd,
    /// Where requests name their class, when the route does not, and their tenant.
    pub(crate) class_header: Option<HeaderName>,
    pub(crate) tenant_header: Option<HeaderName>,
    /// Whether it refuses anybody: not in shadow, and not when it is off.
    pub(crate) enforces: bool,
    /// Where refusals are counted for alerts.
    pub(crate) tally: Arc<Tally>,
}

impl Guard {
    pub(crate) fn new(limiter: Limiter, config: &LimiterConfig, tally: Arc<Tally>) -> Self {
        let reject_status = match config.reject_status() {
            429 => RefusalStatus::TooManyRequests,
            _ => RefusalStatus::ServiceUnavailable,
        };
        let enforces = config.mode() == Mode::Enforce;
        let (waits, permit_end) = (config.queue().length() > 0, config.permit_end());
        let header = |name: Option<&str>| name.and_then(|name| name.parse().ok());
        let class_header = header(config.shares().class_header());
        let tenant_header = header(config.shares().tenant_header());
        Self { limiter, waits, reject_status, permit_end, class_header, tenant_header, enforces, tally }
    }
}

impl Table {
    /// The names in a checked config all point to something; `upstream` finds it by its
    /// name, `hold_off` too, `guard` by those of limiter and route.
    pub(crate) fn new(
        config: &Config,
        upstream: impl Fn(&str) -> Option<Arc<Upstream>>,
        hold_off: impl Fn(&str) -> Option<(HoldOff, Arc<Answers>)>,
        ceiling: impl Fn(&str) -> Option<Ceiling>,
        guard: impl Fn(&str, &str) -> Option<Arc<Guard>>,
    ) -> Self {
        let classifiers: BTreeMap<&str, Classifier> =
            config.upstreams().keys().map(|name| (name.as_str(), classifier(config, name))).collect();
        let way = |route: &RouteConfig| {
            let name = route.upstream();
            let how = config.hold_offs().get(name)?;
            let by_header = how.by_header().and_then(|header| header.parse().ok());
            let (hold_off, answers) = hold_off(name)?;
            let holding = Holding { hold_off, on: how.on(), answers, by_header };
            let leaves = (upstream(name)?, classifiers.get(name)?.clone());
            Some(Arc::new(Route::new(route, leaves, (holding, pacing(config, route, &ceiling)), &guard)))
        };
        let mut routes: Vec<_> = config.routes().iter().filter_map(way).collect();
        // Stable: of equal prefixes the first in the file stays first.
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        Self {
            routes,
            exempt: config.exempt().into(),
            peek: config.server().peek() as usize,
            body_limit: config.server().body_limit(),
            client_idle: config.server().idle_timeout(),
            forwarded: config.server().forwarded(),
        }
    }

    /// The longest prefix that fits, with method and header.
    pub(crate) fn find<B>(&self, request: &Request<B>) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| route.fits(request))
    }

    /// Whether a path passes every limiter.
    pub(crate) fn is_exempt(&self, path: &str) -> bool {
        self.exempt.iter().any(|exempt| path == exempt || exempt.ends_with('/') && path.starts_with(exempt.as_str()))
    }
}

impl Route {
    fn new(
        config: &RouteConfig,
        (upstream, classifier): (Arc<Upstream>, Classifier),
        (holding, pacing): (Holding, Option<Pacing>),
        guard: impl Fn(&str, &str) -> Option<Arc<Guard>>,
    ) -> Self {
        let guard = config.limiter().and_then(|limiter| guard(limiter, config.prefix()));
        Self {
            class: guard.as_ref().and_then(|guard| guard.limiter.class_id(config.class()?)),
            prefix: config.prefix().into(),
            methods: config.methods().iter().filter_map(|method| method.parse().ok()).collect(),
            header: config.header().and_then(|(name, value)| {
                Some((name.parse().ok()?, value.and_then(|value| HeaderValue::from_str(value).ok())))
            }),
            upstream_name: config.upstream().into(),
            upstream,
            guard,
            deadlines: deadlines(config.deadline()),
            classifier,
            holding,
            pacing,
        }
    }

    fn fits<B>(&self, request: &Request<B>) -> bool {
        self.fits_path(request.uri().path())
            && (self.methods.is_empty() || self.methods.contains(request.method()))
            && self.header.as_ref().is_none_or(|(name, value)| match value {
                Some(value) => request.headers().get_all(name).iter().any(|v| v == value),
                None => request.headers().contains_key(name),
            })
    }

    /// Whole segments only: `/api` fits `/api` and `/api/x`, not `/apix`.
    fn fits_path(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(&*self.prefix) else { return false };
        rest.is_empty() || self.prefix.ends_with('/') || rest.starts_with('/')
    }
}

/// The route's own ceiling, or its limiter's.
fn pacing(config: &Config, route: &RouteConfig, ceiling: impl Fn(&str) -> Option<Ceiling>) -> Option<Pacing> {
    let of_limiter = || config.limiters().get(route.limiter()?)?.ceiling();
    let name = route.ceiling().or_else(of_limiter)?;
    Some(Pacing { ceiling: ceiling(name)?, wait: config.ceilings().get(name)?.wait() })
}

fn deadlines(config: &RouteDeadline) -> DeadlineSource {
    let mut source = DeadlineSource::default();
    if let Some((name, unit)) = config.header().and_then(|(name, unit)| Some((name.parse().ok()?, unit))) {
        source = source.header(name, unit);
    }
    match config.budget() {
        Some(budget) => source.budget(budget),
        None => source,
    }
}

/// The built-in table with the operator's rules for this upstream in front.
fn classifier(config: &Config, upstream: &str) -> Classifier {
    let own = config.classify().iter().filter(|rule| rule.is_for(upstream)).map(|rule| rule.rule().clone());
    Classifier::default().extended(own)
}
