//! The AWS SDK's HTTP client behind a destination: one charge for each request on the wire.
//!
//! The SDK calls its HTTP client once for each attempt, below its own retries and after signing. So
//! [`LimitedHttpClient`] wraps that client, and nothing else of the SDK has to know:
//!
//! ```no_run
//! # fn example(
//! #     config: aws_sdk_sts::config::Builder,
//! #     http: aws_smithy_runtime_api::client::http::SharedHttpClient,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::ceiling::Ceiling;
//! use tidegate::client::Destination;
//! use tidegate::client::aws::LimitedHttpClient;
//! use tidegate::{HoldOff, Limiter};
//!
//! let sts = Destination::new(Limiter::builder("sts").bounds(1, 20).build()?)
//!     .ceiling(Ceiling::builder("sts").rate(50.0).bounds(1.0, 50.0).build()?)
//!     .hold_off(HoldOff::builder("sts").build());
//! // `http` is what the SDK would use, from `aws-smithy-http-client`, say.
//! let config = config.http_client(LimitedHttpClient::new(http, sts)).build();
//! let client = aws_sdk_sts::Client::from_conf(config);
//! # Ok(())
//! # }
//! ```
//!
//! - Throttles are told by AWS error codes in header, JSON and XML, whatever the status.
//! - A request that waits is signed already, and a signature is good for five minutes: waits are cut
//!   to [`LONGEST_WAIT`]. They count against the SDK's attempt time-out, which drops the attempt and
//!   so gives everything back.
//! - Credential providers send with an HTTP client of their own: give it to `aws_config`'s loader too
//!   if their requests are to be counted.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use aws_smithy_runtime_api::box_error::BoxError as SdkBoxError;
use aws_smithy_runtime_api::client::connector_metadata::ConnectorMetadata;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::{RuntimeComponents, RuntimeComponentsBuilder};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::config_bag::ConfigBag;
use aws_smithy_types::retry::ErrorKind;
use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::Destination;
use crate::rejection::{RejectReason, Rejected};
use crate::tower::{BoxError, BoxErrors, LimitLayer};

/// The longest that an attempt waits: well below the five minutes for which its signature is good.
pub const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What the SDK is told when an attempt is refused here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefusal {
    /// A throttle: it backs off and tries again as its retry config says.
    #[default]
    Throttling,
    /// A failure of its own that is final: the operation ends at once.
    End,
}

/// An HTTP client for the SDK that asks for each attempt. Clones share everything.
#[derive(Clone, Debug)]
pub struct LimitedHttpClient {
    inner: SharedHttpClient,
    layer: LimitLayer<BoxErrors>,
    on_refusal: OnRefusal,
}

impl LimitedHttpClient {
    /// Puts `destination` before the SDK's own client.
    pub fn new(inner: impl Into<SharedHttpClient>, destination: Destination) -> Self {
        let layer = LimitLayer::to(destination.waits_at_most(LONGEST_WAIT));
        Self::with_layer(inner, layer)
    }

    /// With a layer of one's own: keys of the hold-off, units of the ceiling, another table. The caller
    /// sees to waits that end while signatures are good.
    pub fn with_layer(inner: impl Into<SharedHttpClient>, layer: LimitLayer<BoxErrors>) -> Self {
        Self { inner: inner.into(), layer: layer.refuse_by_error(), on_refusal: OnRefusal::default() }
    }

    /// What the SDK is told when an attempt is refused. Default: [`OnRefusal::Throttling`].
    #[must_use]
    pub fn on_refusal(mut self, on_refusal: OnRefusal) -> Self {
        self.on_refusal = on_refusal;
        self
    }
}

impl HttpClient for LimitedHttpClient {
    /// Asked for once for each attempt, so it has to be cheap.
    fn http_connector(&self, settings: &HttpConnectorSettings, components: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(Connector {
            inner: self.inner.http_connector(settings, components),
            layer: self.layer.clone(),
            on_refusal: self.on_refusal,
        })
    }

    fn validate_base_client_config(
        &self,
        components: &RuntimeComponentsBuilder,
        config: &ConfigBag,
    ) -> Result<(), SdkBoxError> {
        HttpClient::validate_base_client_config(&self.inner, components, config)
    }

    fn validate_final_config(&self, components: &RuntimeComponents, config: &ConfigBag) -> Result<(), SdkBoxError> {
        HttpClient::validate_final_config(&self.inner, components, config)
    }

    fn connector_metadata(&self) -> Option<ConnectorMetadata> {
        self.inner.connector_metadata()
    }
}

#[derive(Clone, Debug)]
struct Connector {
    inner: SharedHttpConnector,
    layer: LimitLayer<BoxErrors>,
    on_refusal: OnRefusal,
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self { inner, layer, on_refusal } = self.clone();
        HttpConnectorFuture::new(async move {
            let head = head(&request).map_err(|error| ConnectorError::user(error.into()))?;
            let answer = Arc::default();
            let mut service = layer.layer(Onward { inner, answer: Arc::clone(&answer) });
            let limited = service.call(head.map(|()| request)).await;
            let body = limited.map_err(|error| plain(error, on_refusal))?.into_body();
            let answer = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
            let mut answer: HttpResponse = answer.expect("no error is an answer");
            *answer.body_mut() = SdkBody::from_body_1_x(body);
            Ok(answer)
        })
    }
}

/// What the layer may look at. The request itself passes as it is, since it is signed.
fn head(request: &HttpRequest) -> Result<Request<()>, http::Error> {
    let mut head = Request::builder().method(request.method()).uri(request.uri());
    for (name, value) in request.headers() {
        head = head.header(name, value);
    }
    head.body(())
}

/// The error as it came from below, or a refusal in a form in which the SDK knows what to do.
fn plain(error: BoxError, on_refusal: OnRefusal) -> ConnectorError {
    match error.downcast::<Failed>() {
        Ok(failed) => failed.0,
        Err(error) if on_refusal == OnRefusal::Throttling && may_come_back(&error) => {
            ConnectorError::other(error, Some(ErrorKind::ThrottlingError))
        }
        Err(error) => ConnectorError::other(error, None),
    }
}

/// Whether a refusal is one of this moment: coming back later may help.
fn may_come_back(error: &BoxError) -> bool {
    let reason = error.downcast_ref::<Rejected>().map(|rejected| rejected.reason);
    reason.is_some_and(|reason| !matches!(reason, RejectReason::Closed | RejectReason::BudgetSpent))
}

/// The SDK's connector, for one request. Beside the body, its answer waits where the connector looks.
#[derive(Clone)]
struct Onward {
    inner: SharedHttpConnector,
    answer: Arc<Mutex<Option<HttpResponse>>>,
}

type Answer = std::pin::Pin<Box<dyn Future<Output = Result<Response<SdkBody>, Failed>> + Send>>;

/// The SDK's error in words by which its kind is known here.
#[derive(Debug)]
struct Failed(ConnectorError);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_timeout() { "the attempt timed out" } else { "the attempt failed" })
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Service<Request<HttpRequest>> for Onward {
    type Response = Response<SdkBody>;
    type Error = Failed;
    type Future = Answer;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<HttpRequest>) -> Answer {
        let Self { inner, answer } = self.clone();
        Box::pin(async move {
            let mut response = inner.call(request.into_body()).await.map_err(Failed)?;
            let mut seen = Response::builder().status(response.status().as_u16());
            for (name, value) in response.headers() {
                seen = seen.header(name, value);
            }
            let seen = seen.body(response.take_body());
            let seen = seen.map_err(|error| Failed(ConnectorError::other(error.into(), None)))?;
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
            Ok(seen)
        })
    }
}

impl fmt::Debug for Onward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Onward").finish_non_exhaustive()
    }
}
