//! One worker's connections to one upstream. The locks are never contended: only that worker's
//! thread takes them, and never across a wait.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::client::conn::{http1, http2};

use crate::proxy::RequestBody;

/// More idle connections than this are not kept.
const MOST_IDLE: usize = 1024;

type Http1 = http1::SendRequest<RequestBody>;
type Http2 = http2::SendRequest<RequestBody>;

#[derive(Default)]
pub(super) struct Pool {
    idle: Mutex<Vec<(Http1, Instant)>>,
    shared: Mutex<Option<Http2>>,
    dialling: tokio::sync::Mutex<()>,
}

impl Pool {
    /// The connection used last, so that the others can grow old and be closed.
    pub(super) fn take(&self, keep_alive: Duration) -> Option<(Http1, Instant)> {
        let mut idle = lock(&self.idle);
        while let Some((sender, since)) = idle.pop() {
            if since.elapsed() >= keep_alive {
                idle.clear();
                return None;
            }
            if sender.is_ready() {
                return Some((sender, since));
            }
        }
        None
    }

    pub(super) fn put(&self, sender: Http1, now: Instant) {
        let mut idle = lock(&self.idle);
        if idle.len() < MOST_IDLE {
            idle.push((sender, now));
        }
    }

    pub(super) fn sweep(&self, keep_alive: Duration) {
        lock(&self.idle).retain(|(sender, since)| since.elapsed() < keep_alive && !sender.is_closed());
    }

    pub(super) fn shared(&self) -> Option<Http2> {
        lock(&self.shared).clone().filter(|sender| !sender.is_closed())
    }

    pub(super) fn share(&self, sender: Http2) {
        *lock(&self.shared) = Some(sender);
    }

    /// Whoever holds this makes the connection; the others wait and then use it.
    pub(super) async fn dialling(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.dialling.lock().await
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
