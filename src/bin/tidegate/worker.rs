//! Worker threads, one for each core: each has a runtime of its own, and whatever a request touches
//! (client connection, upstream connection, timers) stays on one thread.
//!
//! One acceptor hands connections to the worker that has fewest. Connections are bounded in number;
//! past the bound they wait in the kernel's queue.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::client::Clients;

/// A connection that was accepted, on its way to its worker.
struct Accepted {
    tcp: std::net::TcpStream,
    address: SocketAddr,
    slot: Slot,
}

/// One of the bounded number of connections. Given back when dropped.
struct Slot {
    _place: OwnedSemaphorePermit,
    held: Arc<AtomicUsize>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The bounded number of connections.
pub(crate) struct Places {
    free: Arc<Semaphore>,
    most: u32,
}

impl Places {
    pub(crate) fn new(most: u32) -> Self {
        Self { free: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// How many are taken, the one that is kept for the next client aside.
    pub(crate) fn held(&self) -> usize {
        (self.most as usize).saturating_sub(self.free.available_permits() + 1)
    }

    /// Waits until none is taken.
    pub(crate) async fn empty(&self) {
        // The semaphore is never closed, so this can only mean that all are free.
        drop(self.free.acquire_many(self.most).await);
    }
}

/// The way to one worker.
pub(crate) struct Worker {
    queue: mpsc::Sender<Accepted>,
    held: Arc<AtomicUsize>,
}

/// How often a worker looks for connections that are idle for too long.
const SWEEP: Duration = Duration::from_secs(2);

impl Worker {
    /// Starts the thread. It ends when this is dropped; connections that it still has end with it.
    pub(crate) fn start(clients: Clients) -> anyhow::Result<Self> {
        let (queue, arrivals) = mpsc::channel(1024);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;
        let name = format!("tidegate-{}", clients.worker);
        std::thread::Builder::new()
            .name(name)
            .spawn(move || runtime.block_on(work(Arc::new(clients), arrivals)))
            .context("a worker thread")?;
        Ok(Self { queue, held: Arc::default() })
    }
}

async fn work(clients: Arc<Clients>, mut arrivals: mpsc::Receiver<Accepted>) {
    drop(tokio::spawn(clients.live.canary().watch(clients.worker)));
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        tokio::select! {
            accepted = arrivals.recv() => {
                let Some(Accepted { tcp, address, slot }) = accepted else { return };
                match TcpStream::from_std(tcp) {
                    Ok(tcp) => drop(tokio::spawn(clients.clone().serve(tcp, address, slot))),
                    Err(err) => tracing::warn!(%err, "a connection could not be taken over"),
                }
            }
            _ = sweep.tick() => clients.live.sweep(clients.worker),
        }
    }
}

/// Accepts until it is dropped.
pub(crate) async fn accept(listener: TcpListener, workers: Arc<[Worker]>, places: Arc<Places>) {
    loop {
        let Ok(place) = places.free.clone().acquire_owned().await else { return };
        let (tcp, address) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(err) => {
                // Out of descriptors, most likely: others must end first.
                tracing::warn!(%err, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Some(worker) = workers.iter().min_by_key(|worker| worker.held.load(Ordering::Relaxed)) else { return };
        worker.held.fetch_add(1, Ordering::Relaxed);
        let slot = Slot { _place: place, held: worker.held.clone() };
        if let Ok(tcp) = tcp.into_std()
            && worker.queue.send(Accepted { tcp, address, slot }).await.is_err()
        {
            return;
        }
    }
}
