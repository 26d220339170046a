//! A limiter's classes and how its waiting room is shared between tenants: raw sections and what they
//! are checked into.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::Check;
use super::file::{QueueSection, Text, Whole};
use super::placed::Spanned;
use crate::admission::{Class, DEFAULT_CLASS, Lend, MAX_CLASSES, Order, Share};
use crate::limiter::Tenants;

/// A class: a named share of a limiter. Requests that name none, or an unknown one, belong to `default`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClassSection {
    /// What it always gets: units such as `12`, or a part of the limit such as `20%`. Default `0`. Reserves
    /// shrink together when the limit falls to their sum. A large one leaves capacity idle.
    pub(super) reserve: Text,
    /// The most it gets, in the same forms; one unit at least. Default: everything.
    pub(super) cap: Text,
    /// Whether others may use what it has reserved and does not need just now. With `allowed` it waits for
    /// the next unit that is given back, ahead of others, or is refused when it may not wait. Default
    /// `nothing`.
    #[schemars(extend("enum" = ["nothing", "allowed"]))]
    pub(super) lend: Text,
    /// Who enters first, and is refused last: higher goes before lower. Default 100.
    #[schemars(range(min = 0, max = 255))]
    pub(super) priority: Whole,
    /// Who leaves the waiting room first: the one that came first, or, once the queue has stood for longer
    /// than `target`, the newest, while nobody waits longer than that. Default `fifo`.
    #[schemars(extend("enum" = ["fifo", "adaptive"]))]
    pub(super) order: Text,
    /// How long an adaptive queue may stand. Default `100ms`, from `1ms` to `1m`.
    #[schemars(extend("format" = "duration"))]
    pub(super) target: Text,
    /// Its part of the waiting room, within the limiter's. Default: as the limiter's.
    pub(super) queue: QueueSection,
}

/// How those who wait take turns by tenant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TenantsSection {
    /// The header that names the tenant. Default: none, and everybody is one. Clients can write what they
    /// like into it, unless something in front of the gateway sets it.
    pub(super) header: Text,
    /// How many tenants can have turns of their own; all others share the turns of one. Default 64. More
    /// cost time whenever somebody is served from the waiting room.
    #[schemars(range(min = 1, max = 1024))]
    pub(super) tracked: Whole,
    /// Units that a tenant which was idle may be ahead of its turn. Default 0.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(super) burst: Whole,
    /// How long spent burst credit takes to come back. Default `10s`, from `100ms` to `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) refill: Text,
    /// Weights by tenant, 0.01 to 100: one of weight 2 has twice the turns. Default 1.
    pub(super) weights: BTreeMap<String, Spanned<f64>>,
}

/// How a limiter is shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharesConfig {
    classes: Vec<Class>,
    class_header: Option<String>,
    tenant_header: Option<String>,
    tenants: TenantsConfig,
}

/// How turns are shared between tenants.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantsConfig {
    pub(super) tracked: u32,
    pub(super) burst: u32,
    pub(super) refill: Duration,
    pub(super) weights: BTreeMap<String, f64>,
}

impl Default for TenantsConfig {
    fn default() -> Self {
        Self { tracked: 64, burst: 0, refill: Duration::from_secs(10), weights: BTreeMap::new() }
    }
}

const MS: Duration = Duration::from_millis(1);

impl SharesConfig {
    pub(super) fn check(
        key: &impl Fn(&str) -> String,
        classes: &BTreeMap<Spanned<String>, ClassSection>,
        (class_header, tenants): (&Text, &TenantsSection),
        check: &mut Check,
    ) -> Self {
        let most = MAX_CLASSES - usize::from(!classes.keys().any(|name| name.get_ref() == DEFAULT_CLASS));
        if let Some(name) = classes.keys().nth(most) {
            let message = format_args!("at most {MAX_CLASSES} classes, the default one included");
            check.wrong_at(&key("classes"), name.span(), message);
        }
        let checked: Vec<_> = classes.iter().map(|(name, raw)| class(key, name, raw, check)).collect();
        let sum: f64 = checked.iter().filter_map(|class| fraction(class.reserve_share())).sum();
        if let Some(name) = classes.keys().next().filter(|_| sum > 1.0 + 1e-9) {
            let message = format_args!("reserves add up to {:.0} % of the limit: at most 100 %", sum * 100.0);
            check.wrong_at(&key("classes"), name.span(), message);
        }
        Self {
            classes: checked,
            class_header: header(&key("class_header"), class_header, check),
            tenant_header: header(&key("tenants.header"), &tenants.header, check),
            tenants: TenantsConfig::check(key, tenants, check),
        }
    }

    /// The classes, by name.
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The header (its name in lower case) that names the class of a request whose route names none.
    pub fn class_header(&self) -> Option<&str> {
        self.class_header.as_deref()
    }

    /// The header (its name in lower case) that names the tenant.
    pub fn tenant_header(&self) -> Option<&str> {
        self.tenant_header.as_deref()
    }

    /// How turns are shared between tenants.
    pub fn tenants(&self) -> &TenantsConfig {
        &self.tenants
    }

    /// Whether a class of this name is there; the default one always is.
    pub(super) fn has_class(&self, name: &str) -> bool {
        name == DEFAULT_CLASS || self.classes.iter().any(|class| **class.name() == *name)
    }
}

impl TenantsConfig {
    fn check(key: &impl Fn(&str) -> String, raw: &TenantsSection, check: &mut Check) -> Self {
        for (name, weight) in &raw.weights {
            if !(0.01..=100.0).contains(weight.get_ref()) {
                check.wrong(&key(&format!("tenants.weights.{name}")), weight, "must be within 0.01 and 100");
            }
        }
        if let Some((_, weight)) = raw.weights.iter().nth(1024) {
            check.wrong(&key("tenants.weights"), weight, "at most 1024 tenants have weights");
        }
        let usual = Self::default();
        let refill = (100 * MS)..=Duration::from_secs(3600);
        Self {
            tracked: check.whole(&key("tenants.tracked"), &raw.tracked, usual.tracked, 1..=Tenants::MOST_TRACKED),
            burst: check.whole(&key("tenants.burst"), &raw.burst, usual.burst, 0..=1_000_000),
            refill: check.duration(&key("tenants.refill"), &raw.refill, usual.refill, refill),
            weights: raw.weights.iter().map(|(name, weight)| (name.clone(), *weight.get_ref())).collect(),
        }
    }

    /// As the limiter takes it.
    pub fn build(&self) -> Tenants {
        let tenants = Tenants::new().tracked(self.tracked).burst(self.burst, self.refill);
        self.weights.iter().fold(tenants, |tenants, (name, weight)| tenants.weight(name.as_str(), *weight))
    }
}

fn class(key: &impl Fn(&str) -> String, name: &Spanned<String>, raw: &ClassSection, check: &mut Check) -> Class {
    let key = |field: &str| key(&format!("classes.{}.{field}", name.get_ref()));
    check.name(key("").trim_end_matches('.'), name);
    let reserve = share(&key("reserve"), &raw.reserve, check).unwrap_or(Share::Units(0));
    let cap = share(&key("cap"), &raw.cap, check);
    let above = match (reserve, cap) {
        (Share::Units(reserve), Some(Share::Units(cap))) => reserve > cap,
        (Share::Fraction(reserve), Some(Share::Fraction(cap))) => reserve > cap,
        _ => false,
    };
    if let Some(raw) = raw.reserve.as_ref().filter(|_| above) {
        check.wrong_text(&key("reserve"), raw, "is above the cap; needed: reserve <= cap");
    }
    let target = check.duration(&key("target"), &raw.target, 100 * MS, MS..=Duration::from_secs(60));
    let order =
        check.word(&key("order"), &raw.order, &[("fifo", Order::Fifo), ("adaptive", Order::Adaptive { target })]);
    if let Some(raw) = raw.target.as_ref().filter(|_| order == Order::Fifo) {
        check.wrong_text(&key("target"), raw, "the target of an adaptive queue, but order is not adaptive");
    }
    let lend = check.word(&key("lend"), &raw.lend, &[("nothing", Lend::Nothing), ("allowed", Lend::Allowed)]);
    let mut class = Class::new(name.get_ref().as_str())
        .reserve(reserve)
        .lend(lend)
        .priority(check.whole(&key("priority"), &raw.priority, 100, 0..=255) as u8)
        .order(order);
    if let Some(cap) = cap {
        class = class.cap(cap);
    }
    let (most, longest) = (1_000_000, Duration::from_secs(600));
    let length = check.whole(&key("queue.length"), &raw.queue.length, most, 0..=most);
    let wait = check.duration(&key("queue.wait"), &raw.queue.wait, longest, MS..=longest);
    if raw.queue.length.is_some() || raw.queue.wait.is_some() { class.waiting_room(length, wait) } else { class }
}

/// `12` or `20%`.
fn share(key: &str, raw: &Text, check: &mut Check) -> Option<Share> {
    let raw = raw.as_ref()?;
    let text = raw.get_ref().trim();
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse().ok().map(|percent: f64| Share::Fraction(percent / 100.0)),
        None => text.parse().ok().map(Share::Units),
    };
    let share = share.filter(|share| share.is_valid());
    if share.is_none() {
        check.wrong_text(key, raw, "must be units such as \"12\", or a part of the limit from \"0%\" to \"100%\"");
    }
    share
}

fn fraction(share: Share) -> Option<f64> {
    match share {
        Share::Fraction(part) => Some(part),
        Share::Units(_) => None,
    }
}

fn header(key: &str, raw: &Text, check: &mut Check) -> Option<String> {
    let raw = raw.as_ref()?;
    let name = raw.get_ref().to_ascii_lowercase();
    if !super::route::is_header_name(&name) {
        check.wrong_text(key, raw, "must be the name of a header");
        return None;
    }
    Some(name)
}

/// As it is written in a config.
pub(super) fn show_share(share: Share) -> String {
    match share {
        Share::Units(units) => units.to_string(),
        Share::Fraction(part) => format!("{}%", (part * 1e6).round() / 1e4),
    }
}
