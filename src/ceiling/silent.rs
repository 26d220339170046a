//! Stands in for `events` when the `tracing` feature is off.

use super::sharing::OnLoss;
use super::standing::Turn;

pub(super) fn turned(_: &str, _: Turn, _: OnLoss) {}
