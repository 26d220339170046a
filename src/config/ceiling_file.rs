//! The sections about ceilings as they are written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::file::{Number, Text, Whole};
use super::placed::Spanned;

/// A ceiling: a rate that all requests of its routes contend for. Named by routes and limiters.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CeilingSection {
    /// Requests a second. Needed. With `min` and `max`, the rate to start with. A change forgets what
    /// throttles had taught, and what is owed stays owed.
    #[schemars(range(min = 0.0001, max = 10_000_000.0))]
    pub(super) rate: Number,
    /// Requests that may come at once when none came before. Default: a tenth of a second's worth, at
    /// least 1. A large one lets the other side see more than its quota for a moment; a small one of a
    /// shared ceiling needs a near store: at least 50 ms of the rate is best.
    #[schemars(range(min = 1, max = 1_073_741_824))]
    pub(super) burst: Whole,
    /// The smallest rate that throttles may lead to. Default: the rate, which then never falls.
    #[schemars(range(min = 0.0001, max = 10_000_000.0))]
    pub(super) min: Number,
    /// The largest rate that is tried when nothing is throttled. Default: the rate, which then never
    /// rises above itself.
    #[schemars(range(min = 0.0001, max = 10_000_000.0))]
    pub(super) max: Number,
    /// How long a request may wait for its turn; `0s` refuses at once. Default `100ms`, up to `10m`.
    #[schemars(extend("format" = "duration"))]
    pub(super) wait: Text,
    /// The most requests that wait for their turn. Default 1000. Counts at the next start.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub(super) waiting: Whole,
    /// The store through which several processes share the rate. Default: the rate is this process's own.
    pub(super) shared: Option<Spanned<SharedSection>>,
}

/// The store of a shared ceiling: Redis 6.2 or newer, or Valkey. Counts at the next start, except for a
/// ceiling that is new.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SharedSection {
    /// `redis://HOST[:PORT][/DB]`, or `rediss://` with TLS. Needed. No user and no password in it.
    pub(super) url: Text,
    /// The user. Default: the store's default user.
    pub(super) user: Text,
    /// Path of a file that holds the password and nothing else; read whenever a connection is made.
    pub(super) password_file: Text,
    /// Path of certificates to trust instead of the system's, PEM.
    pub(super) ca_file: Text,
    /// What the key begins with; after it comes the name in braces. Default `tidegate:ceiling:`.
    pub(super) prefix: Text,
    /// How long a call to the store may take; then it counts as lost. No request waits longer for the
    /// store. Default `20ms`, from `1ms` to `1s`.
    #[schemars(extend("format" = "duration"))]
    pub(super) timeout: Text,
    /// How many processes share the rate, as long as the store has not counted them. Default 10. Too
    /// small a number multiplies the rate when the store is away from the start.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) members: Whole,
    /// What stands in while the store is lost: a share of the rate, or nothing. Default `share`.
    #[schemars(extend("enum" = ["share", "refuse"]))]
    pub(super) on_loss: Text,
    /// The rate of this process while the store is lost. Default: the rate divided by the processes that
    /// the store had counted last.
    #[schemars(range(min = 0.0001, max = 10_000_000.0))]
    pub(super) fallback_rate: Number,
}
