//! The response body that carries its request's permit.
//!
//! Frames, trailers, size hint and end of stream pass untouched. The permit ends with the last frame
//! that is handed on, with an error, or with the drop of the body, whichever comes first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::future::Call;
use super::head::Asked;
use super::held_off::Watch;
use super::layer::{PermitEnd, SampleAt, Settings};
use super::reading::Reading;
use super::upgrade::UpgradeGuard;
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

/// A permit on its way to the end of a body, and what is known of the answer. Dropped on the way it
/// ends with what is known: a refusal that nobody wants to read is one all the same.
#[derive(Debug)]
struct Held {
    permit: Option<Permit>,
    reading: Reading,
    ends_at_first_byte: bool,
    watch: Option<Watch>,
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
        let Call { mut permit, asked, guard, watch } = call;
        let mut reading = Reading::of(&settings.classifier, &response, settings.peek);
        let mut watch = watch.and_then(|watch| watch.see_head(&mut reading));
        if let Some(guard) = guard.filter(|_| asked.is_granted_by(response.status())) {
            hand_over(permit, guard, reading.so_far(), &mut response);
            return response.map(Self::exempt);
        }
        let bodiless = asked == Asked::Head || is_over(response.body(), &reading);
        if settings.permit_end == PermitEnd::Head || bodiless {
            let so_far = reading.so_far();
            let verdict = reading.end(None);
            let outcome = if bodiless { verdict.outcome } else { so_far };
            if let Some(watch) = &mut watch {
                watch.see(&verdict);
            }
            permit.finish(outcome);
            return response.map(Self::exempt);
        }
        // A refusal's outcome may be in its body; its latency is not wanted.
        if settings.sample_at == SampleAt::Head && (!reading.is_open() || reading.so_far() == Outcome::Success) {
            permit.observe(reading.so_far());
        }
        let ends_at_first_byte = settings.permit_end == PermitEnd::FirstByte;
        let held = Held { permit: Some(permit), reading, ends_at_first_byte, watch };
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
fn is_over(body: &impl Body, reading: &Reading) -> bool {
    body.is_end_stream() || (!reading.waits_for_trailers() && body.size_hint().exact() == Some(0))
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
    fn after<B: Body>(mut self, frame: &Option<Result<Frame<B::Data>, B::Error>>, body: &B) -> Option<Self> {
        match frame {
            Some(Err(_)) => self.broken(),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.read(data);
                }
                match frame.trailers_ref() {
                    Some(trailers) => self.end(Some(trailers)),
                    // What looks well is told already; a refusal is judged by what there is of it.
                    None if self.ends_at_first_byte => match self.reading.so_far() {
                        Outcome::Success => self.finish(Outcome::Success),
                        _ => self.end(None),
                    },
                    None if is_over(body, &self.reading) => self.end(None),
                    None => return Some(self),
                }
            }
            None => self.end(None),
        }
        None
    }

    /// Only what lies in one piece: a buffer of several is not put together for a look.
    fn read(&mut self, data: &impl Buf) {
        if self.reading.is_open() {
            self.reading.bytes(data.chunk());
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) {
        let verdict = self.reading.end(trailers);
        let outcome = verdict.outcome;
        if let Some(watch) = &mut self.watch {
            watch.see(&verdict);
        }
        self.finish(outcome);
    }

    fn broken(&mut self) {
        let verdict = self.reading.broke();
        let outcome = verdict.outcome;
        if let Some(watch) = &mut self.watch {
            watch.see(&verdict);
        }
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        if let Some(permit) = self.permit.take() {
            permit.finish(outcome);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.permit.is_some() && self.reading.so_far() != Outcome::Success {
            self.end(None);
        }
        // Otherwise the permit's own drop says what it was observed to be, or cancelled.
    }
}
