//! An upstream's response body: holds the place in flight and the connection until its end.
//!
//! A place ends exactly once: at the body's end, at its failure, or when the client went away and
//! this is dropped. Only a body that was read to its end gives its connection back. What passes is
//! read on the way where the meaning of the answer may lie in it; nothing waits for that.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tidegate::tower::Reading;
use tidegate::{Outcome, Permit};

use super::body::Stall;
use super::held_off::Watch;
use crate::upstream::{Lease, Upstream};

pub(crate) struct Relay {
    incoming: Incoming,
    permit: Option<Permit>,
    reading: Reading,
    watch: Option<Watch>,
    upstream: Arc<Upstream>,
    worker: usize,
    lease: Lease,
    stall: Stall,
}

impl Relay {
    /// `reading` has seen the head, and `permit` was told what it meant.
    pub(crate) fn new(
        incoming: Incoming,
        (permit, reading, watch): (Option<Permit>, Reading, Option<Watch>),
        (upstream, worker, lease): (Arc<Upstream>, usize, Lease),
    ) -> Self {
        let stall = Stall::new(upstream.config().idle_timeout());
        let mut relay = Self { incoming, permit, reading, watch, upstream, worker, lease, stall };
        if relay.incoming.is_end_stream() {
            relay.end(None);
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
                if let Some(data) = frame.data_ref()
                    && self.reading.is_open()
                {
                    self.reading.bytes(data);
                }
                // The server does not ask again once it has all bytes that it announced.
                if self.incoming.is_end_stream() || frame.is_trailers() {
                    self.end(frame.trailers_ref());
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(err)) => Poll::Ready(Some(Err(self.broken(err)))),
            None => {
                self.end(None);
                Poll::Ready(None)
            }
        }
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) {
        self.finish(trailers);
        self.upstream.give_back(self.worker, &mut self.lease);
    }

    /// Once; the body may be asked again after its end.
    fn finish(&mut self, trailers: Option<&HeaderMap>) {
        if self.permit.is_none() && self.watch.is_none() {
            return;
        }
        let verdict = self.reading.end(trailers);
        if let Some(watch) = self.watch.take() {
            watch.see(&verdict);
        }
        if let Some(permit) = self.permit.take() {
            permit.finish(verdict.outcome);
        }
    }

    /// The client sees its connection or stream break off, never a tidy end.
    fn broken(&mut self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> std::io::Error {
        let verdict = self.reading.broke();
        if let Some(watch) = self.watch.take() {
            watch.see(&verdict);
        }
        if let Some(permit) = self.permit.take() {
            permit.finish(verdict.outcome);
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

impl Drop for Relay {
    fn drop(&mut self) {
        // A refusal that the client did not read to its end is one all the same. What looked well
        // keeps what was observed.
        if self.reading.so_far() != Outcome::Success {
            self.finish(None);
        }
    }
}
