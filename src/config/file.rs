//! The config file as it is written: raw values with their places. Nothing outside `config` sees them.
//!
//! Everything is optional here, so that a missing key is a question of defaults and not of syntax.
//! No flattening and no untagged choices: both lose the places. The comments on the fields are the
//! key reference: they go into the JSON schema and from there into `docs/config.md`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::alerts::AlertsSection;
use super::ceiling_file::CeilingSection;
use super::classes::{ClassSection, TenantsSection};
use super::classify_file::{ClassifySection, HoldOffSection};
use super::placed::Spanned;

pub(super) type Text = Option<Spanned<String>>;
pub(super) type Whole = Option<Spanned<i64>>;
pub(super) type Number = Option<Spanned<f64>>;

/// The configuration of the tidegate gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    /// How the gateway listens.
    pub(super) server: ServerSection,
    /// The admin port: metrics, health, state, changes.
    pub(super) admin: AdminSection,
    /// Where changes are recorded.
    pub(super) audit: AuditSection,
    /// What the last change of this file is about, and how carefully it is to be applied.
    pub(super) change: ChangeSection,
    /// Who is told what is wrong, and how often: the first event at once, one summary a period, one
    /// word at the end.
    pub(super) alerts: AlertsSection,
    /// Paths that pass every limiter, neither counted nor sampled. One that ends in `/` stands for
    /// everything below it. For health probes.
    pub(super) exempt: Vec<Spanned<String>>,
    /// The services behind the gateway, by name.
    pub(super) upstreams: BTreeMap<Spanned<String>, UpstreamSection>,
    /// The limiters, by name. Without any there is one called `default`.
    pub(super) limiters: BTreeMap<Spanned<String>, LimiterSection>,
    /// The ceilings, by name.
    pub(super) ceilings: BTreeMap<Spanned<String>, CeilingSection>,
    /// Which requests go where. The longest prefix that fits wins; of equal ones the first. Without
    /// any, everything goes to the only upstream, or the one called `default`.
    pub(super) routes: Vec<Spanned<RouteSection>>,
    /// What answers mean, in front of the built-in table: the first rule that fits decides.
    pub(super) classify: Vec<Spanned<ClassifySection>>,
}

/// How the gateway listens.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServerSection {
    /// Address to serve on; port 0 takes a free one. Default `127.0.0.1:8080`. Counts at the next start.
    pub(super) listen: Text,
    /// Worker threads. Default: one for each core. Counts at the next start.
    #[schemars(range(min = 1, max = 256))]
    pub(super) threads: Whole,
    /// Client connections held at a time; further ones wait in the kernel's queue. Default 10000.
    /// Counts at the next start. Too small a number makes clients wait to connect.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(super) max_connections: Whole,
    /// How long a client may take to send a request head, and how long a kept-alive connection may
    /// stand idle. Default `10s`, from `100ms` to `5m`. Counts at the next start.
    #[schemars(extend("format" = "duration"))]
    pub(super) header_timeout: Text,
    /// How long a client may leave a body it sends or reads without progress. Default `60s`, from
    /// `1s` to `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) idle_timeout: Text,
    /// The largest request body, such as `10MiB`. Default: no limit.
    #[schemars(extend("format" = "size"))]
    pub(super) body_limit: Text,
    /// How many bytes of an answer's body are looked at as they pass, at its beginning and at its end,
    /// where a rule needs them to tell what it means: errors, mostly. Default `4KiB`, from `0KiB` (none)
    /// to `64KiB`. Too few miss what is said further in.
    #[schemars(extend("format" = "size"))]
    pub(super) peek: Text,
    /// How long requests may go on after the gateway was told to stop. Default `10s`, up to `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) drain: Text,
    /// How late the gateway's own threads may run what is ready, all the time for half a second,
    /// before that counts as overload: limits are then cut, whatever the upstreams say. The delay is
    /// measured always (`tidegate_runtime_delay_seconds`). Default: it never counts; from `1ms` to `10s`.
    #[schemars(extend("format" = "duration"))]
    pub(super) overload_delay: Text,
    /// What becomes of X-Forwarded-* headers that a request brings: kept and the peer's address
    /// appended (behind another proxy), or replaced (where clients connect directly; otherwise they
    /// can claim any address). Default `append`.
    #[schemars(extend("enum" = ["append", "replace"]))]
    pub(super) forwarded: Text,
    /// Certificate and key; plain HTTP without. Counts at the next start.
    pub(super) tls: Option<Spanned<TlsSection>>,
}

/// Certificate and key, both PEM files.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TlsSection {
    /// Path of the certificate chain, the server's own first.
    pub(super) cert: Text,
    /// Path of the private key.
    pub(super) key: Text,
}

/// The admin port: metrics, health, state, changes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AdminSection {
    /// Address of the admin port, best on loopback: whoever reaches it may read. Default: none.
    /// Counts at the next start.
    pub(super) listen: Text,
    /// Path of a file with the tokens for writes, one a line, as `NAME: TOKEN`; the name goes into the
    /// audit log. Read at each use. Default: the environment variable `TIDEGATE_ADMIN_TOKEN`; without
    /// both, nobody may write.
    pub(super) token_file: Text,
}

/// Where changes are recorded. Counts at the next start.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AuditSection {
    /// Directory of the audit log and of the earlier versions of this file. Default: none, and
    /// changes are only told in the gateway's own log.
    pub(super) dir: Text,
    /// What becomes of a change that cannot be recorded (full disk): it is refused, or applied with a
    /// warning. Default `refuse`. Traffic goes on either way.
    #[schemars(extend("enum" = ["refuse", "apply"]))]
    pub(super) on_failure: Text,
    /// A longer file of the log is followed by a new one. Default `10MiB`, from `64KiB` to `1GiB`.
    #[schemars(extend("format" = "size"))]
    pub(super) max_size: Text,
    /// Full files that are kept. Default 20.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) keep_files: Whole,
    /// Earlier versions of this file that are kept. Default 100.
    #[schemars(range(min = 2, max = 10_000))]
    pub(super) keep_versions: Whole,
}

/// What the last change of this file is about, and how carefully it is to be applied.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ChangeSection {
    /// Why, for the audit log.
    pub(super) reason: Text,
    /// How long the change is watched; it is taken back when something gets worse. From `1s` to
    /// `24h`. Default: it is not watched.
    #[schemars(extend("format" = "duration"))]
    pub(super) bake: Text,
    /// What counts as worse.
    pub(super) max_rise: RiseSection,
    /// How sure it must be that something got worse, over the whole bake time. Default 0.99. Lower
    /// values take back more changes that were harmless.
    #[schemars(range(min = 0.5, max = 0.999999))]
    pub(super) confidence: Number,
    /// The share of instances that take the change. Default: all.
    pub(super) rollout: Option<Spanned<RolloutSection>>,
}

/// What counts as worse while a change bakes: rises above these.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RiseSection {
    /// Of the 99th percentile of latency, as a share of what it was. Default 0.5.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub(super) p99: Number,
    /// Of the share of requests that end in a fault. Default 0.01.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) faults: Number,
    /// Of the share of requests that are throttled by the downstream. Default 0.01.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) throttles: Number,
    /// Of the share of requests that are refused here. Default 0.05.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(super) rejections: Number,
}

/// The share of instances that take a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RolloutSection {
    /// Percent of the instances, chosen by their names; a larger number keeps those that have it.
    #[schemars(range(min = 0.0, max = 100.0))]
    pub(super) percent: Number,
}

/// A service behind the gateway.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UpstreamSection {
    /// Where it is: `http://host[:port]` or `https://host[:port]`. Needed.
    pub(super) url: Text,
    /// How long making a connection may take, TLS included. Default `1s`, from `10ms` to `1m`.
    #[schemars(extend("format" = "duration"))]
    pub(super) connect_timeout: Text,
    /// How long the response head may take from the moment the request is sent. Default `30s`, from
    /// `10ms` to `1h`. Too short a time counts slow answers as overload.
    #[schemars(extend("format" = "duration"))]
    pub(super) response_timeout: Text,
    /// How long a response body or an upgraded connection may stand still. Default `5m`, from `1s` to
    /// `24h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) idle_timeout: Text,
    /// How long an unused connection is kept; `0s` keeps none. Best below the upstream's own time.
    /// Default `30s`, up to `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) keep_alive: Text,
    /// Whether it speaks HTTP/2 from the first byte, as gRPC services do. Default `false`.
    pub(super) http2: Option<Spanned<bool>>,
    /// Which host it is told: the client's, or its own. Default: `client`, and `upstream` with https.
    #[schemars(extend("enum" = ["client", "upstream"]))]
    pub(super) host: Text,
    /// Path of certificates to trust instead of the public ones, PEM.
    pub(super) tls_ca: Text,
    /// What happens when it asks to be left alone for a while.
    pub(super) hold_off: HoldOffSection,
}

/// A limiter.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimiterSection {
    /// The smallest limit. Default 1. It holds even when the downstream can bear less, so a large one
    /// defeats the limiter.
    #[schemars(range(min = 1, max = 536_870_911))]
    pub(super) min: Whole,
    /// The largest limit. Default 1000, or `min` if that is larger. A small one refuses requests that
    /// could be served. Below what is in flight it binds at once: newcomers are refused until it drains.
    #[schemars(range(min = 1, max = 536_870_911))]
    pub(super) max: Whole,
    /// The limit to start with. Default 20, within the bounds. A reload does not apply it again.
    #[schemars(range(min = 1, max = 536_870_911))]
    pub(super) initial: Whole,
    /// The law that moves the limit. Default `knee`.
    #[schemars(extend("enum" = ["knee", "aimd", "gradient", "vegas", "fixed"]))]
    pub(super) law: Text,
    /// Settings of the law aimd.
    pub(super) aimd: Option<Spanned<AimdSection>>,
    /// Latency to stay below, for the laws knee and aimd. Default: none. From `1ms` to `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) latency_target: Text,
    /// Whether it refuses, only counts what it would have refused, or stands aside. Default `enforce`.
    #[schemars(extend("enum" = ["enforce", "shadow", "off"]))]
    pub(super) mode: Text,
    /// The waiting room.
    pub(super) queue: QueueSection,
    /// The name of a ceiling for all of its routes that name none. Default: none.
    pub(super) ceiling: Text,
    /// The HTTP status of a refusal. Default 503.
    #[schemars(extend("enum" = [429, 503]))]
    pub(super) reject_status: Whole,
    /// When a request stops being in flight: when its response body has ended, or when the head has
    /// come. Default `body_end`.
    #[schemars(extend("enum" = ["body_end", "head"]))]
    pub(super) permit_end: Text,
    /// The header that names the class of a request whose route names none. Default: none. Clients can
    /// write what they like into it, unless something in front of the gateway sets it.
    pub(super) class_header: Text,
    /// The classes, by name. Requests that name none, or an unknown one, belong to the class `default`. At
    /// most 32 names in the life of a limiter, the default one included.
    pub(super) classes: BTreeMap<Spanned<String>, ClassSection>,
    /// How those who wait take turns by tenant.
    pub(super) tenants: TenantsSection,
}

/// Settings of the law aimd.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AimdSection {
    /// What a decrease multiplies the limit by. Default 0.9.
    #[schemars(range(min = 0.1, max = 0.99))]
    pub(super) backoff: Number,
}

/// The waiting room of a limiter.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct QueueSection {
    /// The most requests that wait. Default 0: nobody waits. Waiting adds latency and hides overload.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(super) length: Whole,
    /// The longest a request waits. Default `1s`, from `1ms` to `10m`.
    #[schemars(extend("format" = "duration"))]
    pub(super) wait: Text,
}

/// Which requests go where.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RouteSection {
    /// What the path begins with, whole segments only: `/api` fits `/api/x`, not `/apix`. Default `/`.
    pub(super) prefix: Text,
    /// The methods it is for, in capitals. Default: all.
    pub(super) methods: Vec<Spanned<String>>,
    /// A header that must be there.
    pub(super) header: Option<Spanned<HeaderSection>>,
    /// The name of the upstream. Needed.
    pub(super) upstream: Text,
    /// The name of the limiter. Without one, requests pass unlimited.
    pub(super) limiter: Text,
    /// The name of the ceiling. Default: the limiter's, if it names one.
    pub(super) ceiling: Text,
    /// The class of its requests in the limiter. Default: what the limiter's `class_header` says, or the
    /// class `default`.
    pub(super) class: Text,
    /// How long a request's answer is of use.
    pub(super) deadline: RouteDeadlineSection,
}

/// How long a request's answer is of use: read on arrival, cut by what was spent, passed on to the
/// upstream. `grpc-timeout` is read and passed on in any case.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RouteDeadlineSection {
    /// The header in which clients tell how long they wait; the upstream is told in the same one what
    /// is left. Default: none.
    pub(super) header: Text,
    /// The unit of that header: milliseconds, or seconds with decimals. Default `ms`.
    #[schemars(extend("enum" = ["ms", "s"]))]
    pub(super) unit: Text,
    /// How long a request may take in all, waiting room included: for one that brings no deadline, and
    /// the most for one that does. Must be shorter than `client_timeout`. Default: none; from `1ms` to
    /// `1h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) budget: Text,
    /// How long the callers of this route wait before they give up, when that is known. The budget,
    /// or without one the limiter's `queue.wait` and the upstream's `connect_timeout` and
    /// `response_timeout` together, must be shorter: an answer that comes later is for nobody. From
    /// `1ms` to `24h`.
    #[schemars(extend("format" = "duration"))]
    pub(super) client_timeout: Text,
}

/// A header that a request must have.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HeaderSection {
    /// Its name. Needed.
    pub(super) name: Text,
    /// Its value. Default: any.
    pub(super) value: Text,
}
