//! Request bodies that nobody will read.
//!
//! Answering early and closing makes the kernel reset the connection over the unread bytes, and the
//! client never sees the answer. So what it still sends is read and thrown away, up to a bound in
//! bytes and time; the answer goes out meanwhile.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};

const MOST_BYTES: usize = 64 << 20;
const MOST_TIME: Duration = Duration::from_secs(5);

/// Drains in the background what `incoming` still brings.
pub(super) fn unread(incoming: Option<Incoming>) {
    let Some(mut incoming) = incoming.filter(|body| !body.is_end_stream()) else { return };
    tokio::spawn(tokio::time::timeout(MOST_TIME, async move {
        let mut left = MOST_BYTES;
        while let Some(Ok(frame)) = incoming.frame().await {
            let size = frame.data_ref().map_or(0, bytes::Bytes::len);
            let Some(rest) = left.checked_sub(size) else { return };
            left = rest;
        }
    }));
}
