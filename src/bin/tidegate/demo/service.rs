//! The simulated service: so many workers, a queue in front of them, and work of random length.
//!
//! As in many real services, work that was accepted is done though nobody waits for it any more.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::load::Random;

pub(super) struct Service {
    address: SocketAddr,
    work: Duration,
    state: Mutex<State>,
}

struct State {
    workers: usize,
    busy: usize,
    queue: VecDeque<oneshot::Sender<()>>,
    random: Random,
}

/// More than this wait at no time: the service would fall over, and the demo's memory with it.
const MOST_QUEUED: usize = 10_000;

impl Service {
    pub(super) async fn start(workers: usize, work: Duration) -> anyhow::Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let state = State { workers, busy: 0, queue: VecDeque::new(), random: Random::new(7) };
        let service = Arc::new(Self { address: listener.local_addr()?, work, state: Mutex::new(state) });
        tokio::spawn(service.clone().serve(listener));
        Ok(service)
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes effect as workers become free.
    pub(super) fn set_workers(&self, workers: usize) {
        let mut state = self.state();
        state.workers = workers;
        state.wake();
    }

    async fn serve(self: Arc<Self>, listener: TcpListener) {
        while let Ok((tcp, _)) = listener.accept().await {
            let service = self.clone();
            let answer = service_fn(move |_: Request<Incoming>| {
                // A task of its own: the work goes on when the client leaves.
                let work = tokio::spawn(service.clone().work());
                async move {
                    let text = if work.await.unwrap_or(false) { "done" } else { "full" };
                    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
                    if text == "full" {
                        *response.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                    }
                    Ok::<_, Infallible>(response)
                }
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), answer));
        }
    }

    async fn work(self: Arc<Self>) -> bool {
        let (turn, length) = {
            let mut state = self.state();
            if state.queue.len() >= MOST_QUEUED {
                return false;
            }
            let (sender, turn) = oneshot::channel();
            state.queue.push_back(sender);
            state.wake();
            (turn, self.work.mul_f64(state.random.exponential()))
        };
        if turn.await.is_err() {
            return false;
        }
        tokio::time::sleep(length).await;
        let mut state = self.state();
        state.busy -= 1;
        state.wake();
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives free workers to those who wait, first come first served.
    fn wake(&mut self) {
        while self.busy < self.workers {
            let Some(next) = self.queue.pop_front() else { return };
            if next.send(()).is_ok() {
                self.busy += 1;
            }
        }
    }
}
