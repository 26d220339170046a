//! Making connections. Each is driven by a task of its own on the thread that made it.

use std::io;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tidegate::config::Url;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::tls;
use crate::proxy::RequestBody;

pub(super) async fn http1(url: &Url, tls: Option<&tls::Client>) -> io::Result<http1::SendRequest<RequestBody>> {
    let tcp = tcp(url).await?;
    match tls {
        Some(tls) => shake_http1(tls.connect(tcp).await?).await,
        None => shake_http1(tcp).await,
    }
}

pub(super) async fn http2(url: &Url, tls: Option<&tls::Client>) -> io::Result<http2::SendRequest<RequestBody>> {
    let tcp = tcp(url).await?;
    match tls {
        Some(tls) => shake_http2(tls.connect(tcp).await?).await,
        None => shake_http2(tcp).await,
    }
}

async fn tcp(url: &Url) -> io::Result<TcpStream> {
    let tcp = TcpStream::connect((url.host(), url.port())).await?;
    tcp.set_nodelay(true)?;
    Ok(tcp)
}

async fn shake_http1(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> io::Result<http1::SendRequest<RequestBody>> {
    let (sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
    // Its end is seen by whoever holds the sender; the error itself goes to the exchange.
    tokio::spawn(connection.with_upgrades());
    Ok(sender)
}

async fn shake_http2(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> io::Result<http2::SendRequest<RequestBody>> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .adaptive_window(true)
        // A dead peer would otherwise hold every stream of this connection until its time-outs.
        .keep_alive_interval(std::time::Duration::from_secs(20))
        .handshake(TokioIo::new(io))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection);
    Ok(sender)
}
