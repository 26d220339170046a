//! Real AWS SDK clients behind a destination, against a local fake that throttles in every form:
//! one charge for each request on the wire, and a throttle is told as one.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_sts::config::retry::RetryConfig;
use aws_sdk_sts::config::timeout::TimeoutConfig;
use aws_sdk_sts::config::{BehaviorVersion, Credentials, Region};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tidegate::ceiling::Ceiling;
use tidegate::client::Destination;
use tidegate::client::aws::{LimitedHttpClient, OnRefusal};
use tidegate::tower::LimitLayer;
use tidegate::{HoldOff, Limiter, Outcome};
use tokio::net::TcpListener;

const XML: &str = "text/xml";
const JSON: &str = "application/json";
const IDENTITY: &str = "<GetCallerIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
    <GetCallerIdentityResult><Arn>arn:aws:iam::1:user/x</Arn><UserId>x</UserId><Account>1</Account>\
    </GetCallerIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>";

/// A refusal: status, headers, body.
#[derive(Clone, Copy)]
struct Refusal(u16, &'static [(&'static str, &'static str)], &'static str);

/// Refuses so many requests, then serves.
struct Fake {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Fake {
    async fn start(times: usize, refusal: Refusal, good: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let shared = Arc::clone(&hits);
        let serve = move |_: Request<Incoming>| {
            let is_refused = shared.fetch_add(1, Ordering::SeqCst) < times;
            async move {
                let (status, headers, body) =
                    if is_refused { (refusal.0, refusal.1, refusal.2) } else { (200, &[][..], good) };
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(*name, *value);
                }
                Ok::<_, Infallible>(response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap())
            }
        };
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let service = service_fn(serve.clone());
                tokio::spawn(async move {
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(tcp), service).await;
                });
            }
        });
        Self { address, hits }
    }

    fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst) as u64
    }
}

struct Gate {
    limiter: Limiter,
    ceiling: Ceiling,
    hold_off: HoldOff,
}

impl Gate {
    fn new() -> Self {
        Self {
            limiter: Limiter::builder("aws").bounds(1, 1).waiting_room(10, Duration::from_secs(60)).build().unwrap(),
            ceiling: Ceiling::builder("aws").rate(1000.0).burst(100).bounds(1.0, 1000.0).build().unwrap(),
            hold_off: HoldOff::builder("aws").build(),
        }
    }

    fn destination(&self) -> Destination {
        Destination::new(self.limiter.clone()).ceiling(self.ceiling.clone()).hold_off(self.hold_off.clone())
    }

    fn http(&self) -> LimitedHttpClient {
        LimitedHttpClient::new(aws_smithy_http_client::Builder::new().build_http(), self.destination())
    }

    fn charged(&self) -> u64 {
        let now = self.ceiling.snapshot();
        now.consumed - now.refunded
    }

    fn finished(&self, outcome: Outcome) -> u64 {
        self.limiter.snapshot().finished.of(outcome)
    }
}

fn retries(attempts: u32) -> RetryConfig {
    RetryConfig::standard().with_max_attempts(attempts).with_initial_backoff(Duration::from_millis(1))
}

fn sts(fake: &Fake, http: LimitedHttpClient, timeouts: TimeoutConfig) -> aws_sdk_sts::Client {
    let config = aws_sdk_sts::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "test"))
        .endpoint_url(format!("http://{}", fake.address))
        .retry_config(retries(4))
        .timeout_config(timeouts)
        .http_client(http)
        .build();
    aws_sdk_sts::Client::from_conf(config)
}

fn oidc(fake: &Fake, http: LimitedHttpClient) -> aws_sdk_ssooidc::Client {
    let config = aws_sdk_ssooidc::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(format!("http://{}", fake.address))
        .retry_config(retries(4))
        .http_client(http)
        .build();
    aws_sdk_ssooidc::Client::from_conf(config)
}

const XML_THROTTLING: Refusal = Refusal(
    400,
    &[("content-type", XML)],
    "<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>",
);
const SLOW_DOWN: Refusal = Refusal(
    503,
    &[("content-type", XML)],
    "<ErrorResponse><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error></ErrorResponse>",
);
const TOO_MANY: Refusal = Refusal(429, &[], "");
const JSON_THROTTLING: Refusal =
    Refusal(400, &[("content-type", JSON)], "{\"__type\":\"ThrottlingException\",\"message\":\"Rate exceeded\"}");
const HEADER_THROTTLING: Refusal =
    Refusal(400, &[("x-amzn-errortype", "ThrottlingException:http://example/"), ("content-type", JSON)], "{}");

#[tokio::test]
async fn each_attempt_of_an_xml_service_is_charged_once_and_throttles_cut_the_rate() {
    for refusal in [XML_THROTTLING, SLOW_DOWN] {
        let fake = Fake::start(2, refusal, IDENTITY).await;
        let gate = Gate::new();
        let answer = sts(&fake, gate.http(), TimeoutConfig::disabled()).get_caller_identity().send().await;
        assert_eq!(answer.unwrap().account(), Some("1"));
        assert_eq!((fake.hits(), gate.charged()), (3, 3), "{}", refusal.0);
        assert_eq!((gate.finished(Outcome::Throttled), gate.finished(Outcome::Success)), (2, 1), "{}", refusal.0);
        let ceiling = gate.ceiling.snapshot();
        assert!(ceiling.throttled == 2 && ceiling.rate < 1000.0, "{ceiling:?}");
        assert_eq!(gate.limiter.snapshot().in_flight, 0);
    }
}

#[tokio::test]
async fn each_attempt_of_a_json_service_is_charged_once() {
    for refusal in [JSON_THROTTLING, HEADER_THROTTLING, TOO_MANY] {
        let fake = Fake::start(2, refusal, "{}").await;
        let gate = Gate::new();
        let client = oidc(&fake, gate.http());
        let call =
            || client.start_device_authorization().client_id("a").client_secret("b").start_url("http://c").send();
        let mut served = call().await.is_ok();
        while !served {
            // What the SDK does not take for a throttle it hands on, and the caller tries again.
            served = call().await.is_ok();
        }
        assert_eq!((fake.hits(), gate.charged()), (3, 3), "{} {}", refusal.0, refusal.2);
        let finished = (gate.finished(Outcome::Throttled), gate.finished(Outcome::Success));
        assert_eq!(finished, (2, 1), "{} {}", refusal.0, refusal.2);
    }
}

#[tokio::test]
async fn a_hold_off_holds_the_sdks_next_attempt() {
    let told = Refusal(503, &[("retry-after", "0.3")], SLOW_DOWN.2);
    let fake = Fake::start(1, told, IDENTITY).await;
    let gate = Gate::new();
    let began = std::time::Instant::now();
    sts(&fake, gate.http(), TimeoutConfig::disabled()).get_caller_identity().send().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(300), "the SDK alone would have waited some milliseconds");
    assert_eq!((fake.hits(), gate.charged()), (2, 2));
}

#[tokio::test]
async fn a_refusal_is_a_throttle_to_the_sdk_or_the_end_of_it() {
    for (on_refusal, refused) in [(OnRefusal::Throttling, 4), (OnRefusal::End, 1)] {
        let fake = Fake::start(0, TOO_MANY, IDENTITY).await;
        let gate = Gate::new();
        let held = gate.limiter.try_acquire().unwrap();
        let layer = LimitLayer::to(gate.destination()).never_wait();
        let http = LimitedHttpClient::with_layer(aws_smithy_http_client::Builder::new().build_http(), layer);
        let client = sts(&fake, http.on_refusal(on_refusal), TimeoutConfig::disabled());
        let error = client.get_caller_identity().send().await.unwrap_err();
        assert!(format!("{error:?}").contains("LimitReached"), "{error:?}");
        assert_eq!((fake.hits(), gate.charged()), (0, 0));
        assert_eq!(gate.limiter.snapshot().rejected_total(), refused, "{on_refusal:?}");
        held.finish(Outcome::Success);
    }
}

#[tokio::test]
async fn an_attempt_that_times_out_while_it_waits_gives_everything_back() {
    let fake = Fake::start(0, TOO_MANY, IDENTITY).await;
    let gate = Gate::new();
    let held = gate.limiter.try_acquire().unwrap();
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_millis(50)).build();
    assert!(sts(&fake, gate.http(), timeouts).get_caller_identity().send().await.is_err());
    let now = gate.limiter.snapshot();
    assert_eq!((now.in_flight, now.queued, fake.hits(), gate.charged()), (1, 0, 0, 0));
    held.finish(Outcome::Success);
}
