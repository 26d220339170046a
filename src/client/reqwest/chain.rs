//! Builds a client whose middlewares stand in the right order, with nothing below that sends unasked.

use ::reqwest::redirect::Policy;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use super::limit::LimitMiddleware;
use super::redirect::RedirectMiddleware;
use super::retry::RetryMiddleware;
use crate::tower::{BoxErrors, LimitLayer};

/// The middlewares of a client to be, in their right order.
#[derive(Debug)]
#[must_use = "call build()"]
pub struct Chain {
    redirects: u32,
    retry: Option<RetryMiddleware>,
    limit: LimitMiddleware,
}

impl Chain {
    /// Each attempt passes this layer. Refusals are errors with a [`Rejected`](crate::Rejected) inside.
    pub fn new(layer: LimitLayer<BoxErrors>) -> Self {
        Self { redirects: 0, retry: None, limit: LimitMiddleware::new(layer.refuse_by_error()) }
    }

    /// Sends again what may be sent again. Default: nothing is.
    pub fn retry(mut self, retry: RetryMiddleware) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Follows so many redirects of a call; each is an attempt that is charged and retried by itself,
    /// at this destination whatever host it leads to. Default 0: a redirect is the answer.
    ///
    /// A request whose body is a stream is not sent on; from TLS to none is not followed;
    /// credentials do not go to another host.
    pub fn follow_redirects(mut self, most: u32) -> Self {
        self.redirects = most;
        self
    }

    /// Builds the client. In `builder` redirects and reqwest's own retries are switched off, since
    /// neither would ask.
    ///
    /// # Errors
    /// As `reqwest::ClientBuilder::build`.
    pub fn build(self, builder: ::reqwest::ClientBuilder) -> ::reqwest::Result<ClientWithMiddleware> {
        let client = builder.redirect(Policy::none()).retry(::reqwest::retry::never()).build()?;
        let mut chain = ClientBuilder::new(client);
        if self.redirects > 0 {
            chain = chain.with(RedirectMiddleware { most: self.redirects });
        }
        if let Some(retry) = self.retry {
            chain = chain.with(retry);
        }
        Ok(chain.with(self.limit).build())
    }
}
