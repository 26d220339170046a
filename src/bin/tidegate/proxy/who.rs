//! Who asks, as the limiter is told: the class by route or header, the tenant by header.
//!
//! A class header that names no class of the limiter counts as its default class; a header that is no
//! text counts as none.

use http::header::HeaderName;
use http::{HeaderMap, Request};
use tidegate::{Admit, Deadline};

use crate::route::{Guard, Route};

/// What the limiter is told of a request.
pub(super) fn asks<'a, B>(
    route: &'a Route,
    guard: Option<&'a Guard>,
    request: &'a Request<B>,
    deadline: Option<Deadline>,
) -> Admit<'a> {
    let mut admit = Admit::new();
    if let Some(deadline) = deadline {
        admit = admit.deadline(deadline.moment());
    }
    if let Some(class) = route.class {
        admit = admit.class_id(class);
    } else if let Some(class) = guard.and_then(|guard| text(request.headers(), guard.class_header.as_ref())) {
        admit = admit.class(class);
    }
    match tenant(guard, request) {
        Some(tenant) => admit.tenant(tenant),
        None => admit,
    }
}

/// Who asks.
pub(super) fn tenant<'a, B>(guard: Option<&Guard>, request: &'a Request<B>) -> Option<&'a str> {
    text(request.headers(), guard?.tenant_header.as_ref())
}

fn text<'a>(headers: &'a HeaderMap, name: Option<&HeaderName>) -> Option<&'a str> {
    headers.get(name?)?.to_str().ok()
}
