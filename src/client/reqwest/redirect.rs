//! Follows redirects above the limit, so that each hop is an attempt that asks for itself.
//!
//! reqwest's own following happens below every middleware, uncharged, and is switched off by
//! [`Chain`](super::Chain).

use ::reqwest::{Method, Request, Response, StatusCode, Url};
use http::Extensions;
use http::header::{self, HeaderName};
use reqwest_middleware::{Middleware, Next, Result};

/// What is about the host that was asked, and is not told another.
const FOR_ONE_HOST: [HeaderName; 5] =
    [header::AUTHORIZATION, header::COOKIE, header::PROXY_AUTHORIZATION, header::WWW_AUTHENTICATE, header::HOST];

/// What describes a body, and goes with it.
const FOR_A_BODY: [HeaderName; 4] =
    [header::CONTENT_LENGTH, header::CONTENT_TYPE, header::CONTENT_ENCODING, header::TRANSFER_ENCODING];

/// Follows so many redirects of a call, and hands on the one that is too many.
#[derive(Clone, Copy, Debug)]
pub(super) struct RedirectMiddleware {
    pub(super) most: u32,
}

#[async_trait::async_trait]
impl Middleware for RedirectMiddleware {
    async fn handle(&self, mut request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        for _ in 0..self.most {
            let kept = request.try_clone();
            let response = next.clone().run(request, extensions).await?;
            match kept.and_then(|kept| followed(kept, &response)) {
                Some(onward) => request = onward,
                None => return Ok(response),
            }
        }
        next.run(request, extensions).await
    }
}

/// The request that a redirect asks for; `None` when it is none, or one that is not followed: to
/// another protocol, or from TLS to none.
fn followed(mut request: Request, response: &Response) -> Option<Request> {
    let status = response.status();
    let seen = [
        StatusCode::MOVED_PERMANENTLY,
        StatusCode::FOUND,
        StatusCode::SEE_OTHER,
        StatusCode::TEMPORARY_REDIRECT,
        StatusCode::PERMANENT_REDIRECT,
    ];
    if !seen.contains(&status) {
        return None;
    }
    let to = request.url().join(response.headers().get(header::LOCATION)?.to_str().ok()?).ok()?;
    let is_web = to.scheme() == "https" || to.scheme() == "http" && request.url().scheme() == "http";
    if !is_web {
        return None;
    }
    let drops_body = match status {
        StatusCode::SEE_OTHER => *request.method() != Method::HEAD,
        // As all clients do, whatever the method was meant to be.
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => *request.method() == Method::POST,
        _ => false,
    };
    if drops_body {
        *request.method_mut() = Method::GET;
        *request.body_mut() = None;
        FOR_A_BODY.iter().for_each(|name| drop(request.headers_mut().remove(name)));
    }
    if !is_same_host(request.url(), &to) {
        FOR_ONE_HOST.iter().for_each(|name| drop(request.headers_mut().remove(name)));
    }
    *request.url_mut() = to;
    Some(request)
}

fn is_same_host(a: &Url, b: &Url) -> bool {
    a.host_str() == b.host_str() && a.port_or_known_default() == b.port_or_known_default() && a.scheme() == b.scheme()
}
