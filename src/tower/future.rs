//! One request on its way: waits for its permit, calls, and hands the permit on to the body.
//!
//! The permit lives in this future from the moment of admission. Dropping the future, at any point,
//! gives it back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use tower_service::Service;

use super::body::LimitedBody;
use super::errors::ErrorMode;
use super::head::Asked;
use super::held_off::{Entry, Watch};
use super::layer::Settings;
use super::upgrade::UpgradeGuard;
use crate::limiter::Permit;
use crate::outcome::Outcome;
use crate::rejection::Rejected;

/// The wait for a permit. It owns the request's head, so that who asks can be read from it.
type Acquire = Pin<Box<dyn Future<Output = (Result<Entry, Rejected>, Parts)> + Send>>;

pin_project! {
    /// The future of [`Limit`](super::Limit). Dropping it gives the permit back, or leaves the waiting room.
    pub struct ResponseFuture<S, B, E>
    where
        S: Service<Request<B>>,
        E: ErrorMode<S::Error>,
    {
        #[pin]
        state: State<S, B, S::Future, E::Error>,
        settings: Arc<Settings<E>>,
    }
}

pin_project! {
    #[project = StateProj]
    enum State<S, B, F, X> {
        Waiting { acquire: Acquire, next: Option<(S, B)> },
        Calling { #[pin] future: F, call: Option<Call> },
        Refused { refused: Option<Refused<X>> },
    }
}

/// A call under way with its permit.
pub(super) struct Call {
    pub(super) permit: Permit,
    pub(super) asked: Asked,
    pub(super) guard: Option<UpgradeGuard>,
    pub(super) watch: Option<Watch>,
}

/// A refusal in the form in which it goes out.
type Refused<X> = Result<Box<Response<Bytes>>, X>;

impl<S, B, E> ResponseFuture<S, B, E>
where
    S: Service<Request<B>>,
    E: ErrorMode<S::Error>,
{
    pub(super) fn exempt(settings: Arc<Settings<E>>, mut service: S, request: Parts, body: B) -> Self {
        let future = service.call(Request::from_parts(request, body));
        Self { state: State::Calling { future, call: None }, settings }
    }

    pub(super) fn admitted(settings: Arc<Settings<E>>, service: S, request: Parts, body: B, entry: Entry) -> Self {
        Self { state: begin::<S, B, E>(&settings, service, request, body, entry), settings }
    }

    pub(super) fn waiting(settings: Arc<Settings<E>>, service: S, request: Parts, body: B) -> Self {
        let asks = Arc::clone(&settings);
        let acquire = Box::pin(async move {
            let entry = asks.enter(&request).await;
            (entry, request)
        });
        Self { state: State::Waiting { acquire, next: Some((service, body)) }, settings }
    }

    pub(super) fn refused(settings: Arc<Settings<E>>, rejected: Rejected, request: &Parts) -> Self {
        Self { state: refuse::<S, B, E>(&settings, rejected, request), settings }
    }
}

impl<S, B, E, R> Future for ResponseFuture<S, B, E>
where
    S: Service<Request<B>, Response = Response<R>>,
    E: ErrorMode<S::Error>,
    R: Body,
    R::Data: From<Bytes>,
{
    type Output = Result<Response<LimitedBody<R>>, E::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            let next = match this.state.as_mut().project() {
                StateProj::Waiting { acquire, next } => match ready!(acquire.as_mut().poll(cx)) {
                    (Ok(entry), request) => {
                        let (service, body) = next.take().expect("a wait ends once");
                        begin::<S, B, E>(this.settings, service, request, body, entry)
                    }
                    (Err(rejected), request) => refuse::<S, B, E>(this.settings, rejected, &request),
                },
                StateProj::Calling { future, call } => {
                    let result = ready!(future.poll(cx));
                    return Poll::Ready(answered(this.settings, result, call.take()));
                }
                StateProj::Refused { refused } => {
                    let refused = refused.take().expect("a refusal is polled once");
                    return Poll::Ready(refused.map(|response| response.map(LimitedBody::refusal)));
                }
            };
            this.state.set(next);
        }
    }
}

/// Starts the inner call. The permit is in safe hands before anything can fail.
fn begin<S, B, E>(
    settings: &Settings<E>,
    mut service: S,
    mut request: Parts,
    body: B,
    Entry { permit, watch }: Entry,
) -> State<S, B, S::Future, E::Error>
where
    S: Service<Request<B>>,
    E: ErrorMode<S::Error>,
{
    let watch = match watch.map_or_else(|| settings.pass(&request), |watch| Ok(Some(watch))) {
        Ok(watch) => watch,
        Err(rejected) => return refuse::<S, B, E>(settings, rejected, &request),
    };
    settings.leaves(&mut request);
    let asked = Asked::of(&request);
    let guard = asked.wants_upgrade().then(UpgradeGuard::default);
    if let Some(guard) = &guard {
        request.extensions.insert(guard.clone());
    }
    let call = Call { permit, asked, guard, watch };
    let future = service.call(Request::from_parts(request, body));
    State::Calling { future, call: Some(call) }
}

fn refuse<S, B, E>(settings: &Settings<E>, rejected: Rejected, request: &Parts) -> State<S, B, S::Future, E::Error>
where
    S: Service<Request<B>>,
    E: ErrorMode<S::Error>,
{
    let refused = match settings.errors.refused(rejected) {
        Ok(error) => Err(error),
        Err(rejected) => Ok(Box::new(settings.refusal.render(&rejected, request))),
    };
    State::Refused { refused: Some(refused) }
}

fn answered<R, E, X>(
    settings: &Arc<Settings<E>>,
    result: Result<Response<R>, X>,
    call: Option<Call>,
) -> Result<Response<LimitedBody<R>>, E::Error>
where
    R: Body,
    E: ErrorMode<X>,
{
    match (result, call) {
        (Ok(response), Some(call)) => Ok(LimitedBody::answer(settings, call, response)),
        (Ok(response), None) => Ok(response.map(LimitedBody::exempt)),
        (Err(error), call) => {
            let (outcome, error): (Outcome, _) = settings.errors.failed(error, &settings.classifier);
            if let Some(call) = call {
                call.permit.finish(outcome);
            }
            Err(error)
        }
    }
}

impl<S, B, E> fmt::Debug for ResponseFuture<S, B, E>
where
    S: Service<Request<B>>,
    E: ErrorMode<S::Error>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.state {
            State::Waiting { .. } => "ResponseFuture(waiting)",
            State::Calling { .. } => "ResponseFuture(calling)",
            State::Refused { .. } => "ResponseFuture(refused)",
        })
    }
}
