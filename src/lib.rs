//! tidegate: an adaptive concurrency limiter that finds its limit by itself.
//!
//! Modules in reading order: [`bounds`], [`outcome`] and [`rejection`] are the vocabulary;
//! [`admission`], [`window`], [`law`] and [`control`] are pure values that are told the time;
//! [`limiter`] is the shell around them; [`ceiling`] holds rates. [`classify`] reads answers. With the feature `tower`, the
//! module of that name is the layer for HTTP and gRPC servers and clients.
#![forbid(unsafe_code)]

pub mod bounds;
pub mod outcome;
pub mod rejection;

pub mod admission;
pub mod control;
pub mod law;
pub mod time;
pub mod window;

pub mod breaker;
pub mod ceiling;
pub mod hold_off;
pub mod limiter;

pub mod alerts;
pub mod deadline;

#[cfg(feature = "audit")]
pub mod audit;
pub mod classify;
pub mod client;
#[cfg(feature = "config")]
pub mod config;
#[cfg(feature = "guard")]
pub mod guard;
#[cfg(feature = "sim")]
pub mod sim;
#[cfg(feature = "tower")]
pub mod tower;

#[cfg(feature = "metrics")]
pub mod metrics;

pub mod canary;
mod clock;
pub mod histogram;
pub mod retry;
mod sync;
#[cfg(any(feature = "audit", feature = "alerts"))]
pub mod wall;
pub mod words;

pub use admission::{Class, Lend, Mode, Order, Share};
pub use bounds::Bounds;
pub use breaker::Breaker;
pub use canary::Canary;
pub use ceiling::{Budget, Ceiling, Charge};
pub use classify::Classifier;
pub use deadline::Deadline;
pub use hold_off::{HoldOff, HoldOffBuilder, HoldOffSnapshot};
pub use limiter::{
    Admit, ClassId, InvalidClasses, InvalidLimiter, Limiter, LimiterBuilder, Permit, PermitRef, Snapshot, Tenants,
};
pub use outcome::Outcome;
pub use rejection::{RejectReason, Rejected, Rejection};

/// The page's examples are compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../docs/outcomes.md")]
struct Outcomes;

/// The README's example is compiled and run with the doc tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// So are those of the page about clients.
#[cfg(doctest)]
#[doc = include_str!("../docs/clients.md")]
struct Clients;
