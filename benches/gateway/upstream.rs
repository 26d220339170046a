//! A plain hyper server to measure gateways against: answers every request with a few bytes at once,
//! or after a delay (`upstream ADDRESS [DELAY_MS] [BYTES]`). One thread for each core.

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let address = args.next().unwrap_or_else(|| "127.0.0.1:9000".to_owned());
    let mut number = || args.next().and_then(|arg| arg.parse().ok()).unwrap_or(0);
    let (delay, size) = (Duration::from_millis(number()), number() as usize);
    let text = Bytes::from(vec![b'x'; size.max(13)]);
    let listener = TcpListener::bind(&address).await?;
    println!("listening {}", listener.local_addr()?);
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        let text = text.clone();
        let service = service_fn(move |_: Request<Incoming>| {
            let text = text.clone();
            async move {
                if !delay.is_zero() {
                    tokio::time::sleep(delay).await;
                }
                Ok::<_, Infallible>(Response::new(Full::new(text)))
            }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(tcp), service));
    }
}
