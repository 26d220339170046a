//! The service: asks the limiter, then the inner service.

use std::fmt;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::body::LimitedBody;
use super::errors::{ErrorMode, KeepErrors};
use super::future::ResponseFuture;
use super::layer::Settings;

/// A service behind a limiter; made by [`LimitLayer`](super::LimitLayer).
///
/// It is ready when the inner service is. The instance that was made ready is the one that serves
/// the request, after a wait if need be; whatever the inner service reserved in `poll_ready` is
/// held meanwhile, and given back when the limiter refuses.
pub struct Limit<S, E = KeepErrors> {
    inner: S,
    settings: Arc<Settings<E>>,
}

impl<S, E> Limit<S, E> {
    pub(super) fn new(inner: S, settings: Arc<Settings<E>>) -> Self {
        Self { inner, settings }
    }

    /// The service behind the limiter.
    pub fn inner(&self) -> &S {
        &self.inner
    }
}

impl<S, E, B, R> Service<Request<B>> for Limit<S, E>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    E: ErrorMode<S::Error>,
    R: Body,
    R::Data: From<Bytes>,
{
    type Response = Response<LimitedBody<R>>;
    type Error = E::Error;
    type Future = ResponseFuture<S, B, E>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx).map_err(|error| self.settings.errors.failed(error, &self.settings.classifier).1)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let unready = self.inner.clone();
        let ready = mem::replace(&mut self.inner, unready);
        let (mut request, body) = request.into_parts();
        let settings = Arc::clone(&self.settings);
        if settings.is_exempt(&request) {
            return ResponseFuture::exempt(settings, ready, request, body);
        }
        settings.arrived(&mut request);
        if let Some(destination) = &settings.destination {
            if settings.waits {
                return ResponseFuture::waiting(settings, ready, request, body);
            }
            return match settings.try_enter(destination, &request) {
                Ok(entry) => ResponseFuture::admitted(settings, ready, request, body, entry),
                Err(rejected) => ResponseFuture::refused(settings, rejected, &request),
            };
        }
        let admit = settings.admit(&request);
        if let Err(rejected) = settings.look(&request, &admit) {
            return ResponseFuture::refused(settings, rejected, &request);
        }
        if settings.waits {
            match settings.limiter.acquire_if_free(&admit) {
                Some(permit) => ResponseFuture::admitted(settings, ready, request, body, permit.into()),
                None => ResponseFuture::waiting(settings, ready, request, body),
            }
        } else {
            match settings.limiter.try_acquire_with(&admit) {
                Ok(permit) => ResponseFuture::admitted(settings, ready, request, body, permit.into()),
                Err(rejected) => ResponseFuture::refused(settings, rejected, &request),
            }
        }
    }
}

impl<S: Clone, E> Clone for Limit<S, E> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), settings: Arc::clone(&self.settings) }
    }
}

impl<S: fmt::Debug, E> fmt::Debug for Limit<S, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limit")
            .field("inner", &self.inner)
            .field("limiter", &self.settings.limiter)
            .finish_non_exhaustive()
    }
}
