//! The retry middleware: waits without holding anything, and sends the same request again.

use std::time::Duration;

use ::reqwest::{Method, Request, Response};
use http::Extensions;
use reqwest_middleware::{Error, Middleware, Next, Result};

use super::peek;
use crate::classify::{Classifier, Seen, TransportError, Verdict};
use crate::clock;
use crate::deadline::Deadline;
use crate::limiter::thread::roll;
use crate::outcome::Outcome;
use crate::retry::{RetryBudget, RetryPolicy};

/// Sends requests again by a [`RetryPolicy`] and within a [`RetryBudget`].
///
/// Each attempt is a copy of the whole request: method, URL, all headers, version, body. A request
/// whose body is a stream cannot be copied: it is sent, and never again. An answer that will not be
/// tried again is handed on as it is, and so is a refusal of tidegate's own, which is not retried.
///
/// By the policy's default a request is sent again only when its method is idempotent, when it has an
/// `Idempotency-Key`, or when [`Idempotent`] is in its extensions.
#[derive(Clone, Debug)]
pub struct RetryMiddleware {
    policy: RetryPolicy,
    budget: RetryBudget,
    classifier: Classifier,
}

/// Says, in a request's extensions, that doing it twice does no harm.
#[derive(Clone, Copy, Debug)]
pub struct Idempotent;

impl RetryMiddleware {
    /// With this policy, a budget of its own and the built-in table.
    pub fn new(policy: RetryPolicy) -> Self {
        Self { policy, budget: RetryBudget::default(), classifier: Classifier::default() }
    }

    /// Shares this budget: one for each destination is right.
    #[must_use]
    pub fn budget(mut self, budget: RetryBudget) -> Self {
        self.budget = budget;
        self
    }

    /// Reads answers by this table where the layer below has not read them.
    #[must_use]
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.classifier = classifier;
        self
    }

    /// How long to wait before the next attempt; `None` when this one was the last.
    fn again(&self, made: u32, verdict: &Verdict<'_>, safe: bool, deadline: Option<Deadline>) -> Option<Duration> {
        let left = deadline.map(|deadline| deadline.remaining(clock::now()));
        let dice = f64::from(roll()) / (f64::from(u32::MAX) + 1.0);
        let wait = self.policy.decide(made, verdict, safe, left, dice);
        if verdict.outcome == Outcome::Success {
            self.budget.succeeded();
        }
        wait.ok().filter(|_| self.budget.take())
    }

    fn error(&self, error: &Error) -> Verdict<'_> {
        match TransportError::of(error) {
            // Sent again it would only come back to the same limiter.
            TransportError::Rejected => Verdict::of(Outcome::Cancelled),
            kind => self.classifier.judge(Seen::Transport(kind), &(), "", clock::wall()),
        }
    }
}

#[async_trait::async_trait]
impl Middleware for RetryMiddleware {
    async fn handle(&self, request: Request, extensions: &mut Extensions, next: Next<'_>) -> Result<Response> {
        let safe = is_safe(&request) || extensions.get::<Idempotent>().is_some();
        if !self.policy.may_repeat(safe) {
            return next.run(request, extensions).await;
        }
        let deadline = extensions.get::<Deadline>().copied();
        let mut made = 0;
        loop {
            let Some(copy) = request.try_clone() else {
                return next.run(request, extensions).await;
            };
            made += 1;
            let (result, wait) = match next.clone().run(copy, extensions).await {
                Err(error) => {
                    let wait = self.again(made, &self.error(&error), safe, deadline);
                    (Err(error), wait)
                }
                Ok(response) => {
                    let (response, mut reading) = peek::read(&self.classifier, response).await;
                    let wait = self.again(made, &reading.end(None), safe, deadline);
                    (Ok(response), wait)
                }
            };
            let Some(wait) = wait else { return result };
            // Nothing of it is held while the next one waits: neither permit nor connection.
            drop(result);
            tokio::time::sleep(wait).await;
        }
    }
}

/// Whether doing it twice is the same as doing it once (RFC 9110, 9.2.2).
fn is_safe(request: &Request) -> bool {
    let idempotent = [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
    idempotent.contains(request.method()) || request.headers().get("idempotency-key").is_some_and(|key| !key.is_empty())
}
