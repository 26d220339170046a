//! The response body that carries its request's permit.
//!
//! Frames, trailers, size hint and end of stream pass untouched. The permit ends with the last frame
//! that is handed on, with an error, or with the drop of the body, whichever comes first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::future::Call;
use super::head::{Asked, Told, grpc_status, grpc_without_status};
use super::layer::{PermitEnd, SampleAt, Settings};
use super::upgrade::UpgradeGuard;
use crate::classify::Classifier;
use crate::limiter::Permit;
use crate::outcome::Outcome;

pin_project! {
    /// The body of a limited service's response.
    ///
    /// Dropping it before its end gives the permit back; what was observed at the response head stays
    /// counted.
    #[derive(Debug)]
    pub struct LimitedBody<B> {
        #[pin]
        kind: Kind<B>,
        held: Option<Held>,
    }
}

pin_project! {
    #[project = KindProj]
    #[derive(Debug)]
    enum Kind<B> {
        Answer { #[pin] body: B },
        Refusal { text: Option<Bytes> },
    }
}

/// A permit on its way to the end of a body.
#[derive(Debug)]
struct Held {
    permit: Permit,
    told: Told,
    ends_at_first_byte: bool,
    classifier: Classifier,
}

impl<B> LimitedBody<B> {
    pub(super) fn refusal(text: Bytes) -> Self {
        Self { kind: Kind::Refusal { text: (!text.is_empty()).then_some(text) }, held: None }
    }

    pub(super) fn exempt(body: B) -> Self {
        Self { kind: Kind::Answer { body }, held: None }
    }
}

impl<B: Body> LimitedBody<B> {
    /// Puts the call's permit where it belongs now that the head is known: its end, the body, or the
    /// upgraded connection.
    pub(super) fn answer<E>(settings: &Arc<Settings<E>>, call: Call, mut response: Response<B>) -> Response<Self> {
        let Call { mut permit, asked, guard } = call;
        let told = Told::by(&settings.classifier, &response);
        if let Some(guard) = guard.filter(|_| asked.is_granted_by(response.status())) {
            hand_over(permit, guard, told.so_far(), &mut response);
            return response.map(Self::exempt);
        }
        let bodiless = asked == Asked::Head || is_over(response.body(), told);
        if settings.permit_end == PermitEnd::Head {
            permit.finish(told.so_far());
            return response.map(Self::exempt);
        }
        if bodiless {
            let outcome = match told {
                Told::Outcome(outcome) => outcome,
                Told::InTrailers => grpc_without_status(&settings.classifier),
            };
            permit.finish(outcome);
            return response.map(Self::exempt);
        }
        if settings.sample_at == SampleAt::Head {
            permit.observe(told.so_far());
        }
        let ends_at_first_byte = settings.permit_end == PermitEnd::FirstByte;
        let held = Held { permit, told, ends_at_first_byte, classifier: settings.classifier.clone() };
        response.map(|body| Self { kind: Kind::Answer { body }, held: Some(held) })
    }
}

/// Nobody can watch an upgraded connection from here, so its permit is put into the guard. The
/// response carries a clone, which lives until the head is sent.
fn hand_over<B>(mut permit: Permit, guard: UpgradeGuard, outcome: Outcome, response: &mut Response<B>) {
    permit.observe(outcome);
    guard.keep(permit);
    response.extensions_mut().insert(guard);
}

/// Whether nothing more will come that the permit waits for. Servers drop such a body without polling
/// it again: when it says that it is over, and when all bytes that it announced are out. Only gRPC
/// waits for what may stand behind the last byte.
fn is_over(body: &impl Body, told: Told) -> bool {
    body.is_end_stream() || (told != Told::InTrailers && body.size_hint().exact() == Some(0))
}

impl<B> Body for LimitedBody<B>
where
    B: Body,
    B::Data: From<Bytes>,
{
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let mut body = match this.kind.project() {
            KindProj::Answer { body } => body,
            KindProj::Refusal { text } => return Poll::Ready(text.take().map(|text| Ok(Frame::data(text.into())))),
        };
        let frame = ready!(body.as_mut().poll_frame(cx));
        if let Some(held) = this.held.take() {
            *this.held = held.after(&frame, &*body);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Answer { body } => body.is_end_stream(),
            Kind::Refusal { text } => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Answer { body } => body.size_hint(),
            Kind::Refusal { text } => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
        }
    }
}

impl Held {
    /// Ends the permit when this frame is the last that it waits for.
    fn after<B: Body>(self, frame: &Option<Result<Frame<B::Data>, B::Error>>, body: &B) -> Option<Self> {
        match frame {
            Some(Err(_)) => self.finish(Outcome::Fault),
            Some(Ok(frame)) => match frame.trailers_ref() {
                Some(trailers) => self.at_the_end(Some(trailers)),
                // A first byte that ends the permit tells as much as the head did.
                None if self.ends_at_first_byte => {
                    let so_far = self.told.so_far();
                    self.finish(so_far)
                }
                None if is_over(body, self.told) => self.at_the_end(None),
                None => Some(self),
            },
            None => self.at_the_end(None),
        }
    }

    fn at_the_end(self, trailers: Option<&HeaderMap>) -> Option<Self> {
        let outcome = match self.told {
            Told::Outcome(outcome) => outcome,
            Told::InTrailers => trailers
                .and_then(|trailers| grpc_status(&self.classifier, trailers))
                .unwrap_or_else(|| grpc_without_status(&self.classifier)),
        };
        self.finish(outcome)
    }

    fn finish(self, outcome: Outcome) -> Option<Self> {
        self.permit.finish(outcome);
        None
    }
}
