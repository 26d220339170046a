//! A simulator that runs the shipped admission, window and law values under virtual time.
//!
//! [`engine::run`] is a pure function of scenario, policy and seed: discrete events, no clock, no
//! threads. Around it, [`oracle`] finds the best static limits, [`score`] compares, and the rest
//! reads, generates, reports and draws. `docs/simulator.md` says what is modelled and what is not.

pub mod chart;
pub mod compare;
pub mod engine;
pub mod fairness;
mod gate;
pub mod measure;
pub mod oracle;
pub mod random;
pub mod replay;
pub mod report;
pub mod rng;
pub mod scenario;
pub mod score;
mod station;
