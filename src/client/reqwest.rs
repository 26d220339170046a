//! reqwest clients: every attempt asks the destination, and retries do as they are told.
//!
//! The order matters, and a middleware cannot tell whether it is wrong, so [`Chain`] builds it:
//!
//! ```text
//! call -> redirects -> retry -> limit -> reqwest -> wire
//! ```
//!
//! [`LimitMiddleware`] is right above reqwest, so that each attempt asks for itself, holds its permit
//! to the end of its own response body, and is judged alone. [`RetryMiddleware`] is above it: while it
//! waits, nothing is held. What reqwest would send by itself below (redirects, a retry policy of its
//! own, requests that HTTP/2 gave back) would pass uncharged, so [`Chain::build`] switches it off.
//!
//! A [`Deadline`](crate::Deadline) given by `RequestBuilder::with_extension` holds for all attempts and
//! waits of a call together, up to the response head; reqwest's own time-outs are for one attempt.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::client::Destination;
//! use tidegate::client::reqwest::{Chain, RetryMiddleware};
//! use tidegate::ceiling::Ceiling;
//! use tidegate::retry::RetryPolicy;
//! use tidegate::tower::LimitLayer;
//! use tidegate::{HoldOff, Limiter};
//!
//! let partner = Destination::new(Limiter::builder("partner").bounds(1, 50).build()?)
//!     .ceiling(Ceiling::builder("partner").rate(100.0).bounds(5.0, 100.0).build()?)
//!     .hold_off(HoldOff::builder("partner").build());
//! let client = Chain::new(LimitLayer::to(partner))
//!     .retry(RetryMiddleware::new(RetryPolicy::default().attempts(4)))
//!     .build(reqwest::Client::builder())?;
//! let response = client.get("https://partner.example/orders").send().await?;
//! # Ok(())
//! # }
//! ```

mod chain;
mod limit;
mod peek;
mod redirect;
mod retry;

pub use chain::Chain;
pub use limit::LimitMiddleware;
pub use retry::{Idempotent, RetryMiddleware};
