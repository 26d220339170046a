//! Alerts: what an operator should hear, said once and then counted.
//!
//! A refusal costs the request path a counter ([`Tally`]). Now and then the counters are drained
//! into the [`Aggregator`], a pure value that is told the time: the first event of a quiet group
//! is said at once, one summary a period follows with the exact count, and one word when it is
//! over. What is not an event but a state of a limiter (pinned at a bound, on a fallback) is
//! found by [`Conditions`] and goes the same way. What was said waits for a receiver in an
//! [`Outbox`], which merges instead of growing.
//!
//! Reading order: `notice`, `aggregate` with `sketch` and `distinct`, `condition`, `tally`,
//! `outbox` with `retry`. With the feature `alerts` come the senders: `message`,
//! `receiver`, `line`, `pump`.

mod notice;

mod aggregate;
mod distinct;
mod sketch;

mod condition;
mod tally;

mod outbox;
mod retry;
mod standing;

#[cfg(feature = "alerts")]
mod line;
#[cfg(feature = "alerts")]
pub mod message;
#[cfg(feature = "alerts")]
mod pump;
#[cfg(feature = "alerts")]
mod receiver;

pub use aggregate::{Aggregator, Settings};
pub use condition::{Conditions, Vitals};
pub use notice::{Kind, Notice, Seen, State, Subject};
pub use outbox::{Batch, Outbox};
pub use retry::Retry;
pub use sketch::{Heaviest, Heavy};
pub use standing::Standing;
pub use tally::{Tallies, Tally};

#[cfg(feature = "alerts")]
pub use pump::{Alerts, LineStatus, Status};
#[cfg(feature = "alerts")]
pub use receiver::{Alertmanager, Form, Receiver, SIGNATURE, Secret, Webhook};
