//! Lanes: several reference counts for one limiter, so that threads do not fight over one.
//!
//! An owned permit keeps its limiter alive. With a single count, every admission and every end on
//! every thread would write to the same cache line; each thread clones the lane of its slot instead.

use std::ops::Deref;
use std::sync::Arc;

use super::core::Core;
use super::thread::slot;

/// One of the counts. Aligned, so that no two share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Lane(Arc<Core>);

impl Deref for Lane {
    type Target = Core;

    #[inline]
    fn deref(&self) -> &Core {
        &self.0
    }
}

/// All lanes of a limiter.
#[derive(Clone, Debug)]
pub(super) struct Lanes(Arc<[Arc<Lane>]>);

impl Lanes {
    /// One for each processor, a power of two, at most 16.
    pub(super) fn new(core: &Arc<Core>) -> Self {
        let lanes = std::thread::available_parallelism().map_or(4, usize::from).next_power_of_two().min(16);
        Self((0..lanes).map(|_| Arc::new(Lane(Arc::clone(core)))).collect())
    }

    /// The lane of this thread.
    #[inline]
    pub(super) fn own(&self) -> Arc<Lane> {
        Arc::clone(&self.0[slot() & (self.0.len() - 1)])
    }
}
