//! The config file as it is written: raw values with their places. Nothing outside `config` sees them.
//!
//! Everything is optional here, so that a missing key is a question of defaults and not of syntax.
//! No flattening and no untagged choices: both lose the places.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

pub(super) type Text = Option<Spanned<String>>;
pub(super) type Whole = Option<Spanned<i64>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct File {
    pub(super) server: ServerSection,
    pub(super) admin: AdminSection,
    pub(super) exempt: Vec<Spanned<String>>,
    pub(super) upstreams: BTreeMap<Spanned<String>, UpstreamSection>,
    pub(super) limiters: BTreeMap<Spanned<String>, LimiterSection>,
    pub(super) routes: Vec<Spanned<RouteSection>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ServerSection {
    pub(super) listen: Text,
    pub(super) threads: Whole,
    pub(super) max_connections: Whole,
    pub(super) header_timeout: Text,
    pub(super) idle_timeout: Text,
    pub(super) body_limit: Text,
    pub(super) drain: Text,
    pub(super) forwarded: Text,
    pub(super) tls: Option<Spanned<TlsSection>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TlsSection {
    pub(super) cert: Text,
    pub(super) key: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AdminSection {
    pub(super) listen: Text,
    pub(super) token_file: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct UpstreamSection {
    pub(super) url: Text,
    pub(super) connect_timeout: Text,
    pub(super) response_timeout: Text,
    pub(super) idle_timeout: Text,
    pub(super) keep_alive: Text,
    pub(super) http2: Option<Spanned<bool>>,
    pub(super) host: Text,
    pub(super) tls_ca: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct LimiterSection {
    pub(super) min: Whole,
    pub(super) max: Whole,
    pub(super) initial: Whole,
    pub(super) law: Text,
    pub(super) aimd: Option<Spanned<AimdSection>>,
    pub(super) latency_target: Text,
    pub(super) mode: Text,
    pub(super) queue: QueueSection,
    pub(super) reject_status: Whole,
    pub(super) permit_end: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct AimdSection {
    pub(super) backoff: Option<Spanned<f64>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct QueueSection {
    pub(super) length: Whole,
    pub(super) wait: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RouteSection {
    pub(super) prefix: Text,
    pub(super) methods: Vec<Spanned<String>>,
    pub(super) header: Option<Spanned<HeaderSection>>,
    pub(super) upstream: Text,
    pub(super) limiter: Text,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HeaderSection {
    pub(super) name: Text,
    pub(super) value: Text,
}
