//! Upgraded connections (WebSocket and the like): bytes both ways, until either side ends.
//!
//! The place in flight is held for the connection's life. A connection on which nothing moves for
//! the upstream's idle time-out is closed, so a peer that vanished without a word gives it back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{self, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

const BUFFER: usize = 16 << 10;

/// Joins both sides once both have changed protocol, and holds `held` until they end.
pub(super) fn join(client: OnUpgrade, upstream: OnUpgrade, held: impl Send + 'static, idle: Duration) {
    tokio::spawn(async move {
        let _held = held;
        let both = async { tokio::try_join!(client, upstream) };
        let Ok(Ok((client, upstream))) = tokio::time::timeout(Duration::from_secs(10), both).await else { return };
        let (client_read, client_write) = io::split(TokioIo::new(client));
        let (upstream_read, upstream_write) = io::split(TokioIo::new(upstream));
        let moved = Moved::default();
        tokio::select! {
            // Either end closes both: half-open upgraded connections are not worth a place.
            _ = pour(client_read, upstream_write, &moved) => {}
            _ = pour(upstream_read, client_write, &moved) => {}
            () = moved.stands_still(idle) => {}
        }
    });
}

async fn pour(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, moved: &Moved) -> io::Result<()> {
    let mut buffer = vec![0; BUFFER];
    loop {
        let n = from.read(&mut buffer).await?;
        if n == 0 {
            return to.shutdown().await;
        }
        to.write_all(&buffer[..n]).await?;
        to.flush().await?;
        moved.note();
    }
}

struct Moved {
    began: Instant,
    last_ms: AtomicU64,
}

impl Default for Moved {
    fn default() -> Self {
        Self { began: Instant::now(), last_ms: AtomicU64::new(0) }
    }
}

impl Moved {
    fn note(&self) {
        self.last_ms.store(self.began.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    async fn stands_still(&self, idle: Duration) {
        loop {
            let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
            let quiet = self.began.elapsed().saturating_sub(last);
            if quiet >= idle {
                return;
            }
            tokio::time::sleep(idle - quiet + Duration::from_millis(1)).await;
        }
    }
}
