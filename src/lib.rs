//! tidegate: an adaptive concurrency limiter.

pub mod admission;
pub mod bounds;
pub mod classify;
#[cfg(feature = "config")]
pub mod config;
pub mod control;
pub mod law;
pub mod outcome;
pub mod rejection;
mod sync;
pub mod time;
pub mod window;

pub use bounds::Bounds;
pub use classify::Classifier;
pub use outcome::Outcome;
pub use rejection::{RejectReason, Rejected};
