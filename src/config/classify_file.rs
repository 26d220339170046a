//! The sections of the config file that say what answers mean and what follows from it, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::{Text, Whole};
use super::placed::Spanned;

/// What answers mean, in front of the built-in table: the first rule that fits decides. All that a rule
/// asks for must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClassifySection {
    /// What the rule is called. Default: `rule-` and its number from 0.
    pub(super) name: Text,
    /// The upstreams for whose answers it holds. Default: all.
    pub(super) upstreams: Vec<Spanned<String>>,
    /// The HTTP status, or the lowest. One of `status`, `grpc` and `event` is needed.
    #[schemars(range(min = 100, max = 599))]
    pub(super) status: Whole,
    /// The highest HTTP status. Default: `status`.
    #[schemars(range(min = 100, max = 599))]
    pub(super) status_to: Whole,
    /// The gRPC status code.
    #[schemars(range(min = 0, max = 16))]
    pub(super) grpc: Whole,
    /// With `true` it is about error events inside event streams that began well.
    pub(super) event: Option<Spanned<bool>>,
    /// A header that must be there.
    pub(super) header: Text,
    /// How that header must read, upper and lower case aside. Default: any way.
    pub(super) header_is: Text,
    /// What that header must contain, upper and lower case aside.
    pub(super) header_contains: Text,
    /// Phrases, one of which the body (or the gRPC message) must contain, upper and lower case aside.
    /// Only the part that `server.peek` allows is looked at.
    pub(super) text: Vec<Spanned<String>>,
    /// Error codes, one of which must stand in `x-amzn-errortype`, in a JSON member such as `code` or
    /// `type`, in XML `<Code>`, or as a word.
    pub(super) codes: Vec<Spanned<String>>,
    /// What such an answer means. Needed. Only `throttled` and `overloaded` move the limit.
    #[schemars(extend("enum" = ["success", "throttled", "overloaded", "fault", "exhausted", "caller"]))]
    pub(super) outcome: Text,
    /// Whether such a request may be sent again. Default: what follows from the outcome. The gateway
    /// itself does not retry; this is for those who ask.
    #[schemars(extend("enum" = ["never", "if_safe", "yes"]))]
    pub(super) retry: Text,
    /// Whom such an answer keeps away when it asks to wait: nobody, those with the same key (see
    /// `upstreams.NAME.hold_off`), or everybody. Default: `key` for `throttled`, `overloaded` and
    /// `exhausted`, else `request`.
    #[schemars(extend("enum" = ["request", "key", "destination"]))]
    pub(super) scope: Text,
    /// How long to stay away when such an answer does not say. From `1ms` to `24h`; the hold-off's cap
    /// holds. Default: not at all.
    #[schemars(extend("format" = "duration"))]
    pub(super) wait: Text,
}

/// What happens when an upstream asks to be left alone for a while (Retry-After and its kin).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct HoldOffSection {
    /// With `on`, requests are refused until then, with the reason `hold_off` and what remains as
    /// Retry-After; a limiter in shadow or off lets them pass. With `off`, every request is sent. Default
    /// `on`.
    #[schemars(extend("enum" = ["on", "off"]))]
    pub(super) mode: Text,
    /// The longest hold-off; when more is asked for, one request at a time is let through after it.
    /// Default `60s`, from `1s` to `1h`. A long one trusts every upstream to stop the traffic for as
    /// long.
    #[schemars(extend("format" = "duration"))]
    pub(super) cap: Text,
    /// The request header that tells apart who is held off together, such as the one with the account's
    /// key. Default: requests of one route are.
    pub(super) by_header: Text,
}
