//! Bodies on their way through: nothing is buffered, and each knows what its end means.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;

use super::drain;
use super::relay::Relay;

/// What the upstream is sent: the client's body, measured.
#[derive(Default)]
pub(crate) struct RequestBody {
    incoming: Option<Incoming>,
    left: u64,
    stall: Stall,
    upload: Option<Arc<Upload>>,
}

/// What went wrong with a client's body, for whoever waits for the answer to it.
#[derive(Default)]
pub(crate) struct Upload(AtomicU8);

/// Why a client's body ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Mishap {
    /// It was larger than allowed.
    TooLarge = 1,
    /// The client sent nothing for too long.
    Stalled = 2,
    /// The client went away.
    Gone = 3,
}

impl Upload {
    pub(crate) fn mishap(&self) -> Option<Mishap> {
        match self.0.load(Ordering::Relaxed) {
            1 => Some(Mishap::TooLarge),
            2 => Some(Mishap::Stalled),
            3 => Some(Mishap::Gone),
            _ => None,
        }
    }
}

impl RequestBody {
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// At most `limit` bytes of `incoming`, each awaited for at most `idle`.
    pub(crate) fn new(incoming: Incoming, limit: Option<u64>, idle: Duration) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        let upload = Some(Arc::default());
        Self { incoming: Some(incoming), left: limit.unwrap_or(u64::MAX), stall: Stall::new(idle), upload }
    }

    /// Where to look when there is no answer; `None` when there is no body.
    pub(crate) fn upload(&self) -> Option<Arc<Upload>> {
        self.upload.clone()
    }

    fn fail(&mut self, mishap: Mishap) -> std::io::Error {
        if let Some(upload) = &self.upload {
            upload.0.store(mishap as u8, Ordering::Relaxed);
        }
        let incoming = self.incoming.take();
        if mishap == Mishap::TooLarge {
            // The client is to see the 413, not a reset connection.
            drain::unread(incoming);
        }
        std::io::Error::other(format!("request body: {mishap:?}"))
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        let Some(incoming) = &mut this.incoming else { return Poll::Ready(None) };
        let Poll::Ready(frame) = Pin::new(incoming).poll_frame(cx) else {
            ready!(this.stall.poll(cx));
            return Poll::Ready(Some(Err(this.fail(Mishap::Stalled))));
        };
        this.stall.moved();
        Poll::Ready(match frame {
            Some(Ok(frame)) => {
                let size = frame.data_ref().map_or(0, |data| data.len() as u64);
                if size > this.left {
                    return Poll::Ready(Some(Err(this.fail(Mishap::TooLarge))));
                }
                if this.left != u64::MAX {
                    this.left -= size;
                }
                Some(Ok(frame))
            }
            Some(Err(_)) => Some(Err(this.fail(Mishap::Gone))),
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.as_ref().map_or_else(|| SizeHint::with_exact(0), Body::size_hint)
    }
}

/// What the client is sent.
#[expect(clippy::large_enum_variant, reason = "nearly every body is a relay, and a box would cost each of them")]
pub(crate) enum ResponseBody {
    /// A text of the gateway's own.
    Own(Option<Bytes>),
    /// What the upstream answers.
    Relay(Relay),
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            ResponseBody::Own(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            ResponseBody::Relay(relay) => relay.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Own(text) => text.is_none(),
            ResponseBody::Relay(relay) => relay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Own(text) => SizeHint::with_exact(text.as_ref().map_or(0, |text| text.len() as u64)),
            ResponseBody::Relay(relay) => relay.size_hint(),
        }
    }
}

/// Notices that nothing moves. Costs a timer only while something is really awaited.
#[derive(Default)]
pub(crate) struct Stall {
    after: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Stall {
    pub(crate) fn new(after: Duration) -> Self {
        Self { after, timer: None }
    }

    pub(crate) fn moved(&mut self) {
        self.timer = None;
    }

    /// Ready when nothing has moved for too long. To be asked when something is awaited.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let after = self.after;
        self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(after))).as_mut().poll(cx)
    }
}
