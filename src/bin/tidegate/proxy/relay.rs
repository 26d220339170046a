//! An upstream's response body: holds the place in flight and the connection until its end.
//!
//! A place ends exactly once: at the body's end, at its failure, or when the client went away and
//! this is dropped. Only a body that was read to its end gives its connection back.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate::{Classifier, Outcome, Permit};

use super::body::Stall;
use crate::upstream::{Lease, Upstream};

pub(crate) struct Relay {
    incoming: Incoming,
    permit: Option<Permit>,
    outcome: Outcome,
    /// For a gRPC answer, whose real status comes in the trailers.
    classifier: Option<Classifier>,
    upstream: Arc<Upstream>,
    worker: usize,
    lease: Lease,
    stall: Stall,
}

impl Relay {
    /// `outcome` is what the response head meant, and already observed by `permit`.
    pub(crate) fn new(
        incoming: Incoming,
        (permit, outcome): (Option<Permit>, Outcome),
        classifier: Option<Classifier>,
        (upstream, worker, lease): (Arc<Upstream>, usize, Lease),
    ) -> Self {
        let stall = Stall::new(upstream.config().idle_timeout());
        let mut relay = Self { incoming, permit, outcome, classifier, upstream, worker, lease, stall };
        if relay.incoming.is_end_stream() {
            relay.end();
        }
        relay
    }

    pub(super) fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
            ready!(self.stall.poll(cx));
            return Poll::Ready(Some(Err(self.broken("the upstream's body stood still for too long"))));
        };
        self.stall.moved();
        match frame {
            Some(Ok(frame)) => {
                if let Some(trailers) = frame.trailers_ref() {
                    self.judge(trailers);
                }
                // The server does not ask again once it has all bytes that it announced.
                if self.incoming.is_end_stream() {
                    self.end();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(err)) => Poll::Ready(Some(Err(self.broken(err)))),
            None => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn judge(&mut self, trailers: &HeaderMap) {
        if let Some(classifier) = &self.classifier {
            self.outcome = super::outcome::of_trailers(classifier, trailers).unwrap_or(self.outcome);
        }
    }

    fn end(&mut self) {
        if let Some(permit) = self.permit.take() {
            permit.finish(self.outcome);
        }
        self.upstream.give_back(self.worker, &mut self.lease);
    }

    /// The client sees its connection or stream break off, never a tidy end.
    fn broken(&mut self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> std::io::Error {
        if let Some(permit) = self.permit.take() {
            permit.finish(Outcome::Fault);
        }
        self.lease = Lease::Shared;
        std::io::Error::other(why)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}
