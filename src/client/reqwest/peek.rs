//! The beginning of an error's body, looked at before the answer is handed on whole.
//!
//! Some refusals stand only in the body (a code, a wait), and a retry has to know before the caller
//! reads. Only what a rule asks for is looked at, only errors, only so many bytes and so long.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::reqwest::{Body, Response, ResponseBuilderExt, Url};
use bytes::Bytes;
use http::Extensions;
use http_body::{Body as _, Frame, SizeHint};

use crate::classify::Classifier;
use crate::tower::{DEFAULT_PEEK, Reading};

/// How long an error's body may take to come.
const LONGEST: Duration = Duration::from_secs(1);

/// Reads what there is to know of an answer; the response has lost nothing.
pub(super) async fn read(classifier: &Classifier, response: Response) -> (Response, Reading) {
    let url = response.url().clone();
    let is_error = response.status().is_client_error() || response.status().is_server_error();
    let response = http::Response::<Body>::from(response);
    let mut reading = Reading::of(classifier, &response, DEFAULT_PEEK);
    let (mut parts, mut body) = response.into_parts();
    let mut begun = Begun::default();
    if is_error && reading.is_open() {
        // When time runs out, what has come is what there is to know.
        let _ = tokio::time::timeout(LONGEST, begun.read(&mut body, &mut reading)).await;
    }
    parts.extensions.extend(url_of(url));
    let body = if begun.is_empty() { body } else { Body::wrap(Resumed { begun, rest: body }) };
    (http::Response::from_parts(parts, body).into(), reading)
}

/// The URL of a response in the only form in which reqwest takes it back from `http`.
pub(super) fn url_of(url: Url) -> Extensions {
    let response = http::response::Builder::new().url(url).body(()).expect("nothing here can be wrong");
    response.into_parts().0.extensions
}

/// What was read already.
#[derive(Debug, Default)]
struct Begun {
    frames: std::collections::VecDeque<Result<Frame<Bytes>, ::reqwest::Error>>,
    bytes: usize,
}

impl Begun {
    async fn read(&mut self, body: &mut Body, reading: &mut Reading) {
        while self.bytes < DEFAULT_PEEK {
            let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
            let Some(frame) = frame else { return };
            let is_error = frame.is_err();
            if let Some(data) = frame.as_ref().ok().and_then(|frame| frame.data_ref()) {
                reading.bytes(data);
                self.bytes += data.len();
            }
            self.frames.push_back(frame);
            if is_error {
                return;
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }
}

/// A body whose beginning was read already.
#[derive(Debug)]
struct Resumed {
    begun: Begun,
    rest: Body,
}

impl http_body::Body for Resumed {
    type Data = Bytes;
    type Error = ::reqwest::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(frame) = self.begun.frames.pop_front() {
            return Poll::Ready(Some(frame));
        }
        Poll::Ready(ready!(Pin::new(&mut self.rest).poll_frame(cx)))
    }

    fn is_end_stream(&self) -> bool {
        self.begun.is_empty() && self.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 =
            self.begun.frames.iter().flatten().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        let mut hint = self.rest.size_hint();
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(read));
        }
        hint.set_lower(hint.lower().saturating_add(read));
        hint
    }
}
