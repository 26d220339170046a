//! The tower layer as a middleware: one attempt, from the question to the end of its body.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use ::reqwest::{Body, Request, Response, Url};
use http::Extensions;
use reqwest_middleware::{Error, Middleware, Next, Result};
use tower_layer::Layer;
use tower_service::Service;

use super::peek::url_of;
use crate::deadline::Deadline;
use crate::tower::{BoxError, BoxErrors, LimitLayer};

/// Asks the layer for each request that passes, so it belongs below whatever sends requests again:
/// see [`Chain`](super::Chain), which puts it there.
#[derive(Clone, Debug)]
pub struct LimitMiddleware {
    layer: LimitLayer<BoxErrors>,
}

impl LimitMiddleware {
    /// With the settings of this layer.
    pub fn new(layer: LimitLayer<BoxErrors>) -> Self {
        Self { layer }
    }
}

#[async_trait::async_trait]
impl Middleware for LimitMiddleware {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let asked = request.url().clone();
        let mut request = http::Request::<Body>::try_from(request)?;
        if let Some(deadline) = extensions.get::<Deadline>() {
            request.extensions_mut().insert(*deadline);
        }
        let onward = Onward { next, extensions: Arc::new(Mutex::new(Some(extensions))) };
        let answer = self.layer.layer(onward).call(request).await;
        let mut response = answer.map_err(plain)?.map(Body::wrap);
        let url = response.extensions_mut().remove::<Answered>().map_or(asked, |Answered(url)| url);
        response.extensions_mut().extend(url_of(url));
        Ok(response.into())
    }
}

/// The error as it came from below; a refusal is one of a middleware.
fn plain(error: BoxError) -> Error {
    match error.downcast::<Error>() {
        Ok(error) => *error,
        Err(error) => match error.downcast::<::reqwest::Error>() {
            Ok(error) => Error::Reqwest(*error),
            Err(error) => Error::middleware(Boxed(error)),
        },
    }
}

/// A boxed error as one that has it as its source, so that it can be found again by its type.
#[derive(Debug)]
struct Boxed(BoxError);

impl fmt::Display for Boxed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Boxed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.0.as_ref())
    }
}

/// Whose answer it is: reqwest keeps that beside the response, and forgets it on the way to `http`.
#[derive(Clone)]
struct Answered(Url);

/// What is below, for one request. It is cloned by the layer and called once.
#[derive(Clone)]
struct Onward<'a> {
    next: Next<'a>,
    extensions: Arc<Mutex<Option<&'a mut Extensions>>>,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<http::Response<Body>>> + Send + 'a>>;

impl<'a> Service<http::Request<Body>> for Onward<'a> {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = Answer<'a>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer<'a> {
        let extensions = self.extensions.lock().unwrap_or_else(PoisonError::into_inner).take();
        let next = self.next.clone();
        Box::pin(async move {
            let extensions = extensions.expect("called once for a request");
            let deadline = request.extensions().get::<Deadline>().copied();
            let run = next.run(Request::try_from(request)?, extensions);
            let response = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline.moment().into(), run)
                    .await
                    .map_err(|_| Error::middleware(DeadlineExceeded))??,
                None => run.await?,
            };
            let url = response.url().clone();
            let mut response = http::Response::from(response);
            response.extensions_mut().insert(Answered(url));
            Ok(response)
        })
    }
}

/// The request's own deadline passed before the response head came.
#[derive(Debug)]
struct DeadlineExceeded;

impl fmt::Display for DeadlineExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The words by which a time-out is told.
        f.write_str("the request's deadline has elapsed before the response head came")
    }
}

impl std::error::Error for DeadlineExceeded {}
