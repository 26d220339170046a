//! Atomics and locks: std's, or loom's when the concurrency tests are built (`--cfg tidegate_loom`).

#[cfg(tidegate_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};
#[cfg(not(tidegate_loom))]
pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicU64, Ordering},
};

/// Locks; a panic elsewhere while the lock was held does not matter to what it guards here,
/// since every critical section leaves a whole value behind.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
