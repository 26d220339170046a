//! Those who wait for a ceiling: first come, first served, bounded, and gone without a trace when dropped.
//!
//! One at a time has the turn and waits for its units; the others wait for the turn. Nobody who comes
//! later takes units past them, because the fast way is closed while the line is not empty.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The line of a ceiling.
#[derive(Debug)]
pub(super) struct Line {
    turn: Semaphore,
    /// Tells who has the turn that it is worth to look again.
    pub(super) changed: Notify,
    waiting: AtomicU32,
    units: AtomicU64,
    most: AtomicU32,
}

/// A place in the line; left by dropping it.
#[derive(Debug)]
pub(super) struct Place<'a> {
    line: &'a Line,
    units: u64,
    /// The units of those who were there first.
    pub(super) ahead: u64,
}

impl Line {
    pub(super) fn new(most: u32) -> Self {
        Self {
            turn: Semaphore::new(1),
            changed: Notify::new(),
            waiting: AtomicU32::new(0),
            units: AtomicU64::new(0),
            most: AtomicU32::new(most),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }

    pub(super) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Units that all of them want.
    pub(super) fn units(&self) -> u64 {
        self.units.load(Ordering::Relaxed)
    }

    /// A place at the end, or none when the line is full.
    pub(super) fn join(&self, units: u32) -> Option<Place<'_>> {
        if self.waiting.fetch_add(1, Ordering::AcqRel) >= self.most.load(Ordering::Relaxed) {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            return None;
        }
        let units = u64::from(units);
        Some(Place { line: self, units, ahead: self.units.fetch_add(units, Ordering::AcqRel) })
    }
}

impl Place<'_> {
    /// Waits for the turn. `None` when `until` came first. Cancel-safe.
    pub(super) async fn turn(&self, until: Instant) -> Option<SemaphorePermit<'_>> {
        timeout_at(until, self.line.turn.acquire()).await.ok()?.ok()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.line.units.fetch_sub(self.units, Ordering::AcqRel);
        self.line.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
