//! What a shared ceiling asks of its store, and what the store may answer.
//!
//! The store keeps one bucket for all processes, counts them, and moves the rate when one of them was
//! throttled. [`Ask`] and [`Answer`] are plain values; how they travel is the [`Store`]'s business.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A future of a [`Store`].
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, Loss>> + Send + 'a>>;

/// Keeps a ceiling for all processes that share it. Its futures may be dropped at any time, because
/// every call has a time-out; what a dropped call had granted is lost to all, never had twice.
pub trait Store: Send + 'static {
    /// Makes a connection, if there is none. Called when the store was lost, and first of all.
    fn connect(&mut self) -> Asking<'_, ()>;

    /// Asks for a lease, and tells what happened since the last time: one round trip.
    fn lease<'a>(&'a mut self, ask: &'a Ask) -> Asking<'a, Answer>;
}

/// The ceiling's settings, the same for all who share it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Units a second to start with.
    pub rate: f64,
    /// Units that may come at once.
    pub burst: f64,
    /// The smallest and the largest rate.
    pub bounds: (f64, f64),
}

/// A request for a lease, and what happened since the last.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// Units wanted; 0 only tells and looks.
    pub want: u32,
    /// Fewer than this are of no use.
    pub least: u32,
    /// Units of earlier leases that were not used.
    pub unspent: u32,
    /// Units used without a lease while the store was lost.
    pub used: u32,
    /// An attempt was throttled: how long ago it had been charged.
    pub throttled: Option<Duration>,
    /// Attempts succeeded while callers waited for the rate.
    pub succeeded: bool,
    /// The settings.
    pub terms: Terms,
}

/// What the store grants and knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// Units that may be used now.
    pub granted: u32,
    /// How long after the asking they may be used; later they are to be given back.
    pub life: Duration,
    /// How long until there is more.
    pub wait: Duration,
    /// The rate of all together, in units a second.
    pub rate: f64,
    /// How many processes asked lately, this one included.
    pub members: u32,
}

/// Why the store is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Not asked yet: the process has just started.
    Joining,
    /// There is no connection.
    Unreachable,
    /// It did not answer in time.
    Slow,
    /// It does not let us in, or not do what we need: user, password, rights.
    Denied,
    /// It takes no writes.
    ReadOnly,
    /// It has no memory left.
    Full,
    /// It is starting, failing over, or a cluster in trouble.
    Busy,
    /// Its answer makes no sense.
    Nonsense,
}

impl Loss {
    /// The label used in JSON and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Loss::Joining => "joining",
            Loss::Unreachable => "unreachable",
            Loss::Slow => "slow",
            Loss::Denied => "denied",
            Loss::ReadOnly => "read_only",
            Loss::Full => "full",
            Loss::Busy => "busy",
            Loss::Nonsense => "nonsense",
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Loss::Joining => "the store has not been asked yet",
            Loss::Unreachable => "the store cannot be reached",
            Loss::Slow => "the store did not answer in time",
            Loss::Denied => "the store refuses user, password or rights: a wrong setting",
            Loss::ReadOnly => "the store takes no writes: a replica",
            Loss::Full => "the store has no memory left",
            Loss::Busy => "the store is loading, failing over, or its cluster is down",
            Loss::Nonsense => "the store's answer makes no sense",
        })
    }
}
