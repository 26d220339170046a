//! The upstream side: one service, its connections, one exchange at a time.
//!
//! Each worker thread keeps connections of its own, so that an exchange never crosses threads.
//! A request is sent again only when not one byte of it was written, or when it is idempotent, has
//! no body, and met a connection that had been idle: nothing else can be told from "it was done".

mod connect;
mod pool;
mod tls;

use std::time::{Duration, Instant};

use anyhow::Context;
use http::{HeaderValue, Method, Request, Response, Uri, uri};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use tidegate::Deadline;
use tidegate::config::{HostHeader, UpstreamConfig};
use tokio::time::timeout;

use crate::proxy::RequestBody;
use pool::Pool;

/// A connection idle for longer than this may be closed by its peer just as we write.
const FRESH: Duration = Duration::from_secs(1);

/// One upstream, shared by all workers.
pub(crate) struct Upstream {
    config: UpstreamConfig,
    host: HeaderValue,
    tls: Option<tls::Client>,
    pools: Box<[Pool]>,
}

/// An answer, and the connection it still comes through.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) lease: Lease,
}

/// A connection lent to an exchange. Dropping it closes the connection, unless it was given back.
pub(crate) enum Lease {
    /// Others use it at the same time: nothing to give back.
    Shared,
    /// Goes back to its pool when the response body has ended.
    Own(Option<http1::SendRequest<RequestBody>>),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum SendError {
    /// No connection could be made.
    Connect(std::io::Error),
    /// Making a connection took too long.
    ConnectTimeout,
    /// The response head took too long.
    ResponseTimeout,
    /// The request's own deadline passed first.
    Deadline,
    /// The exchange broke off.
    Broken(hyper::Error),
}

impl Upstream {
    pub(crate) fn new(config: UpstreamConfig, workers: usize) -> anyhow::Result<Self> {
        let url = config.url();
        let host = HeaderValue::try_from(url.authority()).context("the upstream's host")?;
        let tls = url.is_tls().then(|| tls::Client::new(&config)).transpose()?;
        let pools = (0..workers).map(|_| Pool::default()).collect();
        Ok(Self { host, tls, pools, config })
    }

    pub(crate) fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    /// The value of the Host header when the upstream is to be told its own name.
    pub(crate) fn own_host(&self) -> Option<&HeaderValue> {
        (self.config.host() == HostHeader::Upstream).then_some(&self.host)
    }

    /// Sends `request` through a connection of `worker`. Cancel-safe: when dropped, the exchange is
    /// torn down, and with HTTP/1.1 its connection too. The response head is awaited until the
    /// deadline at the latest.
    pub(crate) async fn send(
        &self,
        worker: usize,
        request: Request<RequestBody>,
        deadline: Option<Deadline>,
    ) -> Result<Answer, SendError> {
        if self.config.http2() {
            self.send_http2(worker, request, deadline).await
        } else {
            self.send_http1(worker, request, deadline).await
        }
    }

    async fn send_http1(
        &self,
        worker: usize,
        mut request: Request<RequestBody>,
        deadline: Option<Deadline>,
    ) -> Result<Answer, SendError> {
        loop {
            let (mut sender, idle) = match self.pools[worker].take(self.config.keep_alive()) {
                Some((sender, since)) => (sender, Some(since.elapsed())),
                None => (self.connect_http1(deadline).await?, None),
            };
            let again = idle.filter(|idle| *idle > FRESH).and_then(|_| repeatable(&request));
            match self.in_time(sender.try_send_request(request), deadline).await? {
                Ok(response) => return Ok(Answer { response, lease: Lease::Own(Some(sender)) }),
                Err(mut err) => match (err.take_message(), again) {
                    (Some(unsent), _) if idle.is_some() => request = unsent,
                    (None, Some(again)) => request = again,
                    _ => return Err(SendError::Broken(err.into_error())),
                },
            }
        }
    }

    async fn send_http2(
        &self,
        worker: usize,
        mut request: Request<RequestBody>,
        deadline: Option<Deadline>,
    ) -> Result<Answer, SendError> {
        *request.uri_mut() = self.absolute(&request);
        request.headers_mut().remove(http::header::HOST);
        let mut sender = self.http2_sender(worker, deadline).await?;
        match self.in_time(sender.try_send_request(request), deadline).await? {
            Ok(response) => Ok(Answer { response, lease: Lease::Shared }),
            Err(mut err) => {
                let Some(unsent) = err.take_message() else { return Err(SendError::Broken(err.into_error())) };
                let mut sender = self.http2_sender(worker, deadline).await?;
                let response = self.in_time(sender.send_request(unsent), deadline).await?.map_err(SendError::Broken)?;
                Ok(Answer { response, lease: Lease::Shared })
            }
        }
    }

    async fn in_time<T>(&self, exchange: impl Future<Output = T>, deadline: Option<Deadline>) -> Result<T, SendError> {
        within(self.config.response_timeout(), SendError::ResponseTimeout, deadline, exchange).await
    }

    async fn connect_http1(&self, deadline: Option<Deadline>) -> Result<http1::SendRequest<RequestBody>, SendError> {
        let connecting = connect::http1(self.config.url(), self.tls.as_ref());
        let made = within(self.config.connect_timeout(), SendError::ConnectTimeout, deadline, connecting).await?;
        made.map_err(SendError::Connect)
    }

    /// The worker's connection, made when there is none. One is made at a time.
    async fn http2_sender(
        &self,
        worker: usize,
        deadline: Option<Deadline>,
    ) -> Result<http2::SendRequest<RequestBody>, SendError> {
        let pool = &self.pools[worker];
        if let Some(sender) = pool.shared() {
            return Ok(sender);
        }
        let connecting = async {
            let _turn = pool.dialling().await;
            if let Some(sender) = pool.shared() {
                return Ok(sender);
            }
            let sender = connect::http2(self.config.url(), self.tls.as_ref()).await?;
            pool.share(sender.clone());
            Ok(sender)
        };
        let made = within(self.config.connect_timeout(), SendError::ConnectTimeout, deadline, connecting).await?;
        made.map_err(SendError::Connect)
    }

    /// HTTP/2 wants scheme and authority in the target.
    fn absolute(&self, request: &Request<RequestBody>) -> Uri {
        let host = request.headers().get(http::header::HOST).unwrap_or(&self.host);
        let mut parts = uri::Parts::default();
        parts.scheme = Some(if self.tls.is_some() { uri::Scheme::HTTPS } else { uri::Scheme::HTTP });
        parts.authority = uri::Authority::try_from(host.as_bytes()).ok();
        if parts.authority.is_none() {
            parts.authority = uri::Authority::try_from(self.host.as_bytes()).ok();
        }
        parts.path_and_query = request.uri().path_and_query().cloned();
        Uri::from_parts(parts).unwrap_or_else(|_| request.uri().clone())
    }

    /// Takes back a connection whose exchange is over.
    pub(crate) fn give_back(self: &std::sync::Arc<Self>, worker: usize, lease: &mut Lease) {
        let Lease::Own(sender) = lease else { return };
        let Some(mut sender) = sender.take() else { return };
        if sender.is_closed() || self.config.keep_alive().is_zero() {
            return;
        }
        if sender.is_ready() {
            return self.pools[worker].put(sender, Instant::now());
        }
        // The request body is still on its way, or the connection has not looked up yet.
        let upstream = self.clone();
        tokio::spawn(async move {
            if let Ok(Ok(())) = timeout(FRESH, sender.ready()).await {
                upstream.pools[worker].put(sender, Instant::now());
            }
        });
    }

    /// Closes connections that `worker` has not used for the keep-alive time.
    pub(crate) fn sweep(&self, worker: usize) {
        self.pools[worker].sweep(self.config.keep_alive());
    }
}

/// Does it within `most` and the deadline; says which of them was shorter.
async fn within<T>(
    most: Duration,
    late: SendError,
    deadline: Option<Deadline>,
    work: impl Future<Output = T>,
) -> Result<T, SendError> {
    match deadline.map(|deadline| deadline.remaining(Instant::now())).filter(|left| *left < most) {
        Some(left) => timeout(left, work).await.map_err(|_| SendError::Deadline),
        None => timeout(most, work).await.map_err(|_| late),
    }
}

/// A copy of the request, when sending it twice does no more than sending it once.
fn repeatable(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let idempotent = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE);
    if !idempotent || !http_body::Body::is_end_stream(request.body()) {
        return None;
    }
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
