//! reqwest clients against a local server that counts hits: charges are hits, whatever happens.
#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use reqwest_middleware::ClientWithMiddleware;
use tidegate::ceiling::{Budget, Ceiling};
use tidegate::client::Destination;
use tidegate::client::reqwest::{Chain, Idempotent, RetryMiddleware};
use tidegate::retry::{Repeat, RetryBudget, RetryPolicy};
use tidegate::tower::LimitLayer;
use tidegate::{Deadline, HoldOff, Limiter, Outcome, RejectReason, Rejected};
use tokio::net::TcpListener;

const MS: Duration = Duration::from_millis(1);

/// One answer of the server's.
#[derive(Clone)]
enum Say {
    Status(u16, Vec<(&'static str, String)>, &'static str),
    Never,
    /// Head and first bytes, and then nothing for ever.
    Drip,
    /// Closes without an answer.
    Hangup,
}

fn say(status: u16) -> Say {
    Say::Status(status, Vec::new(), "")
}

/// A server that gives these answers in turn, and 200 from then on.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
    seen: Arc<Mutex<Vec<(Method, HeaderMap, Bytes)>>>,
    script: Arc<Mutex<VecDeque<Say>>>,
}

impl Server {
    async fn start(script: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            hits: Arc::default(),
            seen: Arc::default(),
            script: Arc::new(Mutex::new(script.into_iter().collect())),
        };
        let shared = server.clone();
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let server = shared.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| server.clone().answer(request));
                    let builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                    let _ = builder.serve_connection(TokioIo::new(tcp), service).await;
                });
            }
        });
        server
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, std::io::Error> {
        self.hits.fetch_add(1, Ordering::SeqCst);
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|whole| whole.to_bytes()).unwrap_or_default();
        self.seen.lock().unwrap().push((parts.method, parts.headers, body));
        let say = self.script.lock().unwrap().pop_front().unwrap_or(say(200));
        match say {
            Say::Never => std::future::pending().await,
            Say::Hangup => Err(std::io::Error::other("hung up")),
            Say::Drip => {
                let first = futures_util::stream::iter([Ok(Frame::data(Bytes::from_static(b"first")))]);
                let stream = futures_util::StreamExt::chain(first, futures_util::stream::pending());
                Ok(Response::new(StreamBody::new(stream).boxed_unsync()))
            }
            Say::Status(status, headers, body) => {
                let mut response = Response::builder().status(status);
                for (name, value) in headers {
                    response = response.header(name, value);
                }
                Ok(response.body(Full::new(Bytes::from_static(body.as_bytes())).boxed_unsync()).unwrap())
            }
        }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn hits(&self) -> u64 {
        self.hits.load(Ordering::SeqCst) as u64
    }
}

/// All that stands before the server.
struct Gate {
    limiter: Limiter,
    ceiling: Ceiling,
    hold_off: HoldOff,
}

impl Gate {
    fn new(limit: u32) -> Self {
        let room = Duration::from_secs(60);
        Self {
            limiter: Limiter::builder("test").bounds(limit, limit).waiting_room(100, room).build().unwrap(),
            ceiling: Ceiling::builder("test").rate(10_000.0).burst(1000).build().unwrap(),
            hold_off: HoldOff::builder("test").build(),
        }
    }

    fn layer(&self) -> LimitLayer<tidegate::tower::BoxErrors> {
        let to = Destination::new(self.limiter.clone()).ceiling(self.ceiling.clone());
        LimitLayer::to(to.hold_off(self.hold_off.clone()))
    }

    /// A client that sends again quickly.
    fn client(&self, policy: RetryPolicy) -> ClientWithMiddleware {
        let retry = RetryMiddleware::new(policy.backoff(MS, 5 * MS));
        Chain::new(self.layer()).retry(retry).build(plain()).unwrap()
    }

    fn charged(&self) -> u64 {
        let now = self.ceiling.snapshot();
        now.consumed - now.refunded
    }

    fn finished(&self, outcome: Outcome) -> u64 {
        self.limiter.snapshot().finished.of(outcome)
    }

    async fn until_idle(&self) {
        let idle = async {
            while self.limiter.snapshot().in_flight > 0 {
                tokio::time::sleep(MS).await;
            }
        };
        assert!(tokio::time::timeout(Duration::from_secs(10), idle).await.is_ok(), "a permit is not given back");
    }
}

fn plain() -> reqwest::ClientBuilder {
    // Only needed when another feature brings TLS into reqwest; whoever is second is told so.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

fn rejected<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a Rejected> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

#[tokio::test]
async fn every_attempt_is_charged_and_judged_alone() {
    let server = Server::start([say(503), say(429), say(200)]).await;
    let gate = Gate::new(4);
    let client = gate.client(RetryPolicy::default().attempts(5));
    let response = client.get(server.url()).header("x-route", "east").send().await.unwrap();
    assert_eq!((response.status(), response.url().as_str()), (StatusCode::OK, server.url().as_str()));
    drop(response);
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged()), (3, 3));
    assert_eq!([Outcome::Throttled, Outcome::Success].map(|outcome| gate.finished(outcome)), [1, 1]);
    let seen = server.seen.lock().unwrap();
    assert!(seen.iter().all(|(_, headers, _)| headers["x-route"] == "east"), "headers go out with every attempt");
}

#[tokio::test]
async fn the_last_answer_is_handed_on_whole() {
    let refusal = r#"{"error":{"code":"rate_limit","message":"slow down"}}"#;
    let answer = || Say::Status(429, vec![("content-type", "application/json".into())], refusal);
    let server = Server::start([answer(), answer(), answer()]).await;
    let gate = Gate::new(4);
    let response = gate.client(RetryPolicy::default().attempts(3)).get(server.url()).send().await.unwrap();
    assert_eq!(response.status(), 429);
    assert_eq!(response.text().await.unwrap(), refusal, "what was looked at is not lost");
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged(), gate.finished(Outcome::Throttled)), (3, 3, 3));
}

#[tokio::test]
async fn a_told_wait_is_kept_and_nothing_is_held_meanwhile() {
    let told = Say::Status(429, vec![("retry-after", "0.4".into())], "");
    let server = Server::start([told]).await;
    let gate = Gate::new(1);
    let client = gate.client(RetryPolicy::default());
    let began = std::time::Instant::now();
    let call = tokio::spawn({
        let (client, url) = (client.clone(), server.url());
        async move { client.get(url).send().await.unwrap().status() }
    });
    while server.hits() == 0 || gate.limiter.snapshot().in_flight > 0 {
        tokio::time::sleep(MS).await;
    }
    assert!(!call.is_finished(), "it waits, and holds no permit");
    let held = gate.hold_off.remaining("").expect("everybody sees the hold-off");
    assert!(held <= 440 * MS);
    // Another caller waits for the same hold-off, and is not sent before.
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 200);
    assert_eq!(call.await.unwrap(), 200);
    assert!(began.elapsed() >= 400 * MS, "never early");
    assert_eq!((server.hits(), gate.charged()), (3, 3));
}

#[tokio::test]
async fn a_date_is_a_wait_too_and_one_beyond_the_cap_is_handed_on() {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(3600));
    let server = Server::start([Say::Status(503, vec![("retry-after", date)], "")]).await;
    let gate = Gate::new(1);
    let response = gate.client(RetryPolicy::default()).get(server.url()).send().await.unwrap();
    assert_eq!((response.status(), server.hits()), (StatusCode::SERVICE_UNAVAILABLE, 1));
}

#[tokio::test]
async fn what_may_do_harm_twice_is_sent_once_unless_told() {
    let failing = || (0..100).map(|_| say(503));
    for (policy, key, told, hits) in [
        (Repeat::Safe, None, false, 1),
        (Repeat::Safe, Some("abc"), false, 3),
        (Repeat::Safe, None, true, 3),
        (Repeat::Everything, None, false, 3),
    ] {
        let server = Server::start(failing()).await;
        let gate = Gate::new(1);
        let mut request = gate.client(RetryPolicy::default().repeat(policy)).post(server.url()).body("pay");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if told {
            request = request.with_extension(Idempotent);
        }
        assert_eq!(request.send().await.unwrap().status(), 503);
        gate.until_idle().await;
        assert_eq!((server.hits(), gate.charged()), (hits, hits), "{policy:?} {key:?} {told}");
        assert!(server.seen.lock().unwrap().iter().all(|(method, _, body)| method == Method::POST && body == "pay"));
    }
}

#[tokio::test]
async fn a_streaming_body_is_sent_and_never_again() {
    let server = Server::start([say(503)]).await;
    let gate = Gate::new(1);
    let stream = reqwest::Body::wrap(StreamBody::new(futures_util::stream::iter([
        Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"one "))),
        Ok(Frame::data(Bytes::from_static(b"two"))),
    ])));
    let request = gate.client(RetryPolicy::default()).put(server.url()).body(stream);
    assert_eq!(request.send().await.unwrap().status(), 503);
    assert_eq!((server.hits(), gate.charged()), (1, 1));
    assert_eq!(server.seen.lock().unwrap()[0].2, "one two");
}

#[tokio::test]
async fn redirects_and_time_outs_and_hangups_are_charged_as_hits() {
    let gate = Gate::new(4);
    let server = Server::start([]).await;
    let to = Say::Status(302, vec![("location", server.url())], "");
    server.script.lock().unwrap().push_back(to);
    let client = gate.client(RetryPolicy::default().attempts(1));
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 302, "it is for the caller to follow");
    assert_eq!((server.hits(), gate.charged()), (1, 1));

    server.script.lock().unwrap().push_back(Say::Never);
    let late = client.get(server.url()).timeout(50 * MS).send().await.unwrap_err();
    assert!(late.is_timeout(), "{late:?}");
    server.script.lock().unwrap().push_back(Say::Hangup);
    assert!(client.get(server.url()).send().await.is_err());
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged()), (3, 3), "nothing is sent behind our back");
    assert_eq!((gate.finished(Outcome::Overloaded), gate.finished(Outcome::Fault)), (1, 1));
}

#[tokio::test]
async fn the_permit_is_held_to_the_end_of_the_body_and_released_on_drop() {
    let server = Server::start([Say::Drip, Say::Never]).await;
    let gate = Gate::new(1);
    let client = gate.client(RetryPolicy::default());
    let mut response = client.get(server.url()).send().await.unwrap();
    assert_eq!(response.chunk().await.unwrap().unwrap(), "first");
    assert_eq!(gate.limiter.snapshot().in_flight, 1);
    drop(response);
    gate.until_idle().await;
    // A call that is dropped while it is out.
    let call = tokio::spawn(client.get(server.url()).send());
    while server.hits() < 2 {
        tokio::time::sleep(MS).await;
    }
    call.abort();
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged(), gate.finished(Outcome::Cancelled)), (2, 2, 1));
}

#[tokio::test]
async fn who_waits_and_gives_up_is_not_charged() {
    let server = Server::start([]).await;
    let gate = Gate::new(1);
    let held = gate.limiter.try_acquire().unwrap();
    let client = gate.client(RetryPolicy::default());
    let waiting = tokio::time::timeout(30 * MS, client.get(server.url()).send()).await;
    assert!(waiting.is_err());
    assert_eq!((server.hits(), gate.charged()), (0, 0));
    held.finish(Outcome::Success);
}

#[tokio::test]
async fn a_refusal_of_our_own_is_an_error_and_not_sent_again() {
    let server = Server::start([]).await;
    let gate = Gate::new(1);
    let held = gate.limiter.try_acquire().unwrap();
    let layer = gate.layer().never_wait();
    let retry = RetryMiddleware::new(RetryPolicy::default());
    let client = Chain::new(layer).retry(retry).build(plain()).unwrap();
    let error = client.get(server.url()).send().await.unwrap_err();
    assert_eq!(rejected(&error).expect("a refusal inside").reason, RejectReason::LimitReached);
    assert_eq!((server.hits(), gate.limiter.snapshot().rejected_total()), (0, 1));
    held.finish(Outcome::Success);
}

#[tokio::test]
async fn one_deadline_bounds_all_attempts_and_waits() {
    let told = || Say::Status(429, vec![("retry-after", "5".into())], "");
    let server = Server::start([told(), Say::Never]).await;
    let gate = Gate::new(1);
    let client = gate.client(RetryPolicy::default());
    let within = |budget| Deadline::after(std::time::Instant::now(), budget);
    let response = client.get(server.url()).with_extension(within(300 * MS)).send().await.unwrap();
    assert_eq!(response.status(), 429, "a wait beyond the deadline is not begun");
    drop(response);
    let error = client.get(server.url()).with_extension(within(300 * MS)).send().await.unwrap_err();
    assert_eq!(rejected(&error).expect("a refusal").reason, RejectReason::HoldOff);
    gate.hold_off.clear();
    let error = client.get(server.url()).with_extension(within(100 * MS)).send().await.unwrap_err();
    assert!(error.to_string().contains("deadline") || format!("{error:?}").contains("Deadline"), "{error:?}");
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged()), (2, 2));
}

#[tokio::test]
async fn a_failing_server_is_sent_no_more_than_the_budget_allows() {
    let server = Server::start((0..1000).map(|_| say(503))).await;
    let gate = Gate::new(8);
    let retry = RetryMiddleware::new(RetryPolicy::default().backoff(MS, MS)).budget(RetryBudget::new(0.2, 10));
    let client = Chain::new(gate.layer()).retry(retry).build(plain()).unwrap();
    for _ in 0..100 {
        assert_eq!(client.get(server.url()).send().await.unwrap().status(), 503);
    }
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged()), (110, 110), "a hundred calls and the reserve");
}

#[tokio::test]
async fn a_date_is_waited_for() {
    let date = httpdate::fmt_http_date(std::time::SystemTime::now() + Duration::from_secs(2));
    let server = Server::start([Say::Status(503, vec![("retry-after", date)], "")]).await;
    let gate = Gate::new(1);
    let began = std::time::Instant::now();
    assert_eq!(gate.client(RetryPolicy::default()).get(server.url()).send().await.unwrap().status(), 200);
    // A date is a whole second, and so up to one earlier than it was meant.
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!((server.hits(), gate.charged()), (2, 2));
}

#[tokio::test]
async fn a_run_with_a_budget_makes_that_many_attempts_though_all_fail() {
    let server = Server::start((0..100).map(|_| say(503))).await;
    let gate = Gate::new(1);
    let to = Destination::new(gate.limiter.clone()).ceiling(gate.ceiling.clone()).budget(Budget::new(5));
    let retry = RetryMiddleware::new(RetryPolicy::default().attempts(4).backoff(MS, MS));
    let client = Chain::new(LimitLayer::to(to)).retry(retry).build(plain()).unwrap();
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 503);
    let error = client.get(server.url()).send().await.unwrap_err();
    assert_eq!(rejected(&error).expect("a refusal").reason, RejectReason::BudgetSpent);
    assert_eq!((server.hits(), gate.charged()), (5, 5));
}

#[tokio::test]
async fn redirects_are_followed_above_the_limit_and_each_is_charged() {
    let (server, other) = (Server::start([]).await, Server::start([]).await);
    let gate = Gate::new(1);
    let retry = RetryMiddleware::new(RetryPolicy::default().backoff(MS, MS));
    let chain = Chain::new(gate.layer()).retry(retry).follow_redirects(3);
    let client = chain.build(plain()).unwrap();
    let to = |status: u16, location: String| Say::Status(status, vec![("location", location)], "");

    server.script.lock().unwrap().extend([to(307, "/second".into()), say(503), to(302, other.url())]);
    let request = client.put(server.url()).bearer_auth("secret").header("x-route", "east").body("new");
    let response = request.send().await.unwrap();
    assert_eq!((response.status(), response.url().as_str()), (StatusCode::OK, other.url().as_str()));
    drop(response);
    gate.until_idle().await;
    assert_eq!((server.hits(), other.hits(), gate.charged()), (3, 1, 4));
    let (method, headers, body) = other.seen.lock().unwrap()[0].clone();
    assert_eq!((method, &*body, &headers["x-route"]), (Method::PUT, &b"new"[..], &"east".parse().unwrap()));
    assert!(!headers.contains_key("authorization"), "another host is not told");
    assert!(server.seen.lock().unwrap().iter().all(|(_, headers, _)| headers.contains_key("authorization")));

    server.script.lock().unwrap().push_back(to(303, "/done".into()));
    assert_eq!(client.post(server.url()).body("form").send().await.unwrap().status(), 200);
    let (method, _, body) = server.seen.lock().unwrap()[4].clone();
    assert_eq!((method, body.len()), (Method::GET, 0));

    server.script.lock().unwrap().extend((0..10).map(|_| to(302, "/".into())));
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 302, "one too many is handed on");
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged()), (9, 10));
}

#[tokio::test]
async fn a_refusal_that_stands_only_in_the_body_is_read_and_waited_for() {
    let info = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.3s"}]}}"#;
    let throttling = r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#;
    let json = || vec![("content-type", "application/json".to_owned())];
    let server = Server::start([Say::Status(400, json(), throttling), Say::Status(429, json(), info)]).await;
    let gate = Gate::new(1);
    // No hold-off here: it is the retry that has to know.
    let to = Destination::new(gate.limiter.clone()).ceiling(gate.ceiling.clone());
    let retry = RetryMiddleware::new(RetryPolicy::default().backoff(MS, MS));
    let client = Chain::new(LimitLayer::to(to)).retry(retry).build(plain()).unwrap();
    let began = std::time::Instant::now();
    assert_eq!(client.get(server.url()).send().await.unwrap().status(), 200);
    assert!(began.elapsed() >= 300 * MS, "{:?}", began.elapsed());
    gate.until_idle().await;
    assert_eq!((server.hits(), gate.charged(), gate.finished(Outcome::Throttled)), (3, 3, 2));
}
