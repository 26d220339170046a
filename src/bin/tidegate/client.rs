//! One client's connection: TLS or not, HTTP/1.1 or HTTP/2, served until either side has enough.
//!
//! A client may be slow, but not for ever: the handshake, the first bytes, each request head and
//! each write that makes no progress are bounded in time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::live::Live;
use crate::proxy::{self, Peer, Stall};

/// What every connection of a worker needs.
pub(crate) struct Clients {
    pub(crate) live: Arc<Live>,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) header_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) worker: usize,
    /// Becomes true when the gateway stops.
    pub(crate) stop: watch::Receiver<bool>,
}

/// HTTP/2 streams of one client at a time: further ones wait with the client.
const MOST_STREAMS: u32 = 1000;

impl Clients {
    /// Serves one connection to its end. `slot` is held for its life, upgraded ones included.
    pub(crate) async fn serve(self: Arc<Self>, tcp: TcpStream, address: SocketAddr, slot: impl Send + Sync + 'static) {
        // Who is gone already needs no answer.
        if tcp.set_nodelay(true).is_err() {
            return;
        }
        let peer = Arc::new(Peer::new(address, self.tls.is_some(), self.worker, slot));
        let Some(acceptor) = &self.tls else {
            match timeout(self.header_timeout, begins_http2(&tcp)).await {
                Ok(Ok(true)) => return self.http2(tcp, peer).await,
                Ok(Ok(false)) => return self.http1(tcp, peer).await,
                Ok(Err(_)) | Err(_) => return,
            }
        };
        let Ok(Ok(tls)) = timeout(self.header_timeout, acceptor.accept(tcp)).await else { return };
        let http2 = tls.get_ref().1.alpn_protocol() == Some(b"h2");
        if http2 { self.http2(tls, peer).await } else { self.http1(tls, peer).await }
    }

    async fn http1(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Arc<Peer>) {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.header_timeout)
            .serve_connection(self.patient(io), self.service(peer))
            .with_upgrades();
        let mut connection = pin!(connection);
        let mut stop = self.stop.clone();
        tokio::select! {
            done = connection.as_mut() => return trace(done),
            _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        trace(connection.await);
    }

    async fn http2(&self, io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Arc<Peer>) {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .adaptive_window(true)
            .max_concurrent_streams(MOST_STREAMS)
            .keep_alive_interval(self.idle_timeout)
            .serve_connection(self.patient(io), self.service(peer));
        let mut connection = pin!(connection);
        let mut stop = self.stop.clone();
        tokio::select! {
            done = connection.as_mut() => return trace(done),
            _ = stop.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
        }
        trace(connection.await);
    }

    fn patient<S>(&self, io: S) -> TokioIo<Patient<S>> {
        TokioIo::new(Patient::new(io, self.idle_timeout))
    }

    fn service(
        &self,
        peer: Arc<Peer>,
    ) -> impl hyper::service::Service<
        http::Request<hyper::body::Incoming>,
        Response = http::Response<proxy::ResponseBody>,
        Error = Infallible,
        Future: Send,
    > + use<> {
        let live = self.live.clone();
        service_fn(move |request| {
            let (table, peer) = (live.table().load_full(), peer.clone());
            async move { Ok(proxy::serve(table, peer, request).await) }
        })
    }
}

/// How a connection ended is of no use to an operator, only to someone who debugs.
fn trace(done: hyper::Result<()>) {
    if let Err(err) = done {
        tracing::debug!(%err, "client connection ended");
    }
}

/// Whether the client begins with HTTP/2's preface. Looks without taking.
async fn begins_http2(tcp: &TcpStream) -> io::Result<bool> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0";
    let mut seen = [0; PREFACE.len()];
    loop {
        let n = tcp.peek(&mut seen).await?;
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if seen[..n] != PREFACE[..n] || n == PREFACE.len() {
            return Ok(n == PREFACE.len() && seen == PREFACE);
        }
        // A part of the preface, in a packet of its own: rare, and nothing tells when more comes.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A connection whose writes fail when the other side takes nothing for too long.
pub(crate) struct Patient<S> {
    io: S,
    stall: Stall,
    waits: bool,
}

impl<S> Patient<S> {
    /// A write may wait for the other side as long as `longest`.
    pub(crate) fn new(io: S, longest: Duration) -> Self {
        Self { io, stall: Stall::new(longest), waits: false }
    }

    fn judge<T>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if std::mem::take(&mut self.waits) {
                self.stall.moved();
            }
            return written;
        }
        self.waits = true;
        ready!(self.stall.poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.judge(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.judge(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.judge(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
