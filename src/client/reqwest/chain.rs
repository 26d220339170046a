//! Builds a client whose middlewares stand in the right order, with nothing below that sends unasked.

use ::reqwest::redirect::Policy;
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};

use super::limit::LimitMiddleware;
use super::retry::RetryMiddleware;
use crate::tower::{BoxErrors, LimitLayer};

/// The middlewares of a client to be, in their right order.
#[derive(Debug)]
#[must_use = "call build()"]
pub struct Chain {
    retry: Option<RetryMiddleware>,
    limit: LimitMiddleware,
}

impl Chain {
    /// Each attempt passes this layer. Refusals are errors with a [`Rejected`](crate::Rejected) inside.
    pub fn new(layer: LimitLayer<BoxErrors>) -> Self {
        Self { retry: None, limit: LimitMiddleware::new(layer.refuse_by_error()) }
    }

    /// Sends again what may be sent again. Default: nothing is.
    pub fn retry(mut self, retry: RetryMiddleware) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Builds the client. In `builder` redirects and reqwest's own retries are switched off, since
    /// neither would ask: a redirect is handed to the caller as the answer that it is.
    ///
    /// # Errors
    /// As `reqwest::ClientBuilder::build`.
    pub fn build(self, builder: ::reqwest::ClientBuilder) -> ::reqwest::Result<ClientWithMiddleware> {
        let client = builder.redirect(Policy::none()).retry(::reqwest::retry::never()).build()?;
        let mut chain = ClientBuilder::new(client);
        if let Some(retry) = self.retry {
            chain = chain.with(retry);
        }
        Ok(chain.with(self.limit).build())
    }
}
