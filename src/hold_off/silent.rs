//! Without the feature `tracing`, a hold-off says nothing.

use super::holds::Opened;
use crate::classify::WaitSource;

pub(super) fn opened(_destination: &str, _whole: bool, _opened: &Opened, _source: WaitSource) {}

pub(super) fn ended(_destination: &str) {}
