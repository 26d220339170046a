//! The tower layer around plain services: when a permit is taken, how long it is held, what an
//! answer counts as, and what a refusal looks like. No sockets here.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Future, pending, poll_fn, ready};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Empty, Full};
use tidegate::deadline::BudgetUnit;
use tidegate::tower::{
    BoxError, DeadlineSource, LimitLayer, LimitedBody, PermitEnd, RefusalBody, RefusalStatus, SampleAt,
};
use tidegate::{Admit, Deadline, Limiter, Outcome, RejectReason, Rejected};
use tower::{Layer, Service, ServiceExt, service_fn};

fn limiter(limit: u32) -> Limiter {
    Limiter::builder("tests").bounds(limit, limit).waiting_room(1000, Duration::from_secs(60)).build().unwrap()
}

fn get() -> Request<()> {
    Request::new(())
}

fn in_flight(limiter: &Limiter) -> u32 {
    limiter.snapshot().in_flight
}

fn count(limiter: &Limiter, outcome: Outcome) -> u64 {
    limiter.snapshot().finished.of(outcome)
}

/// Frames and errors that come one at each poll; says nothing of its end in advance unless told to.
#[derive(Debug)]
struct Frames {
    frames: VecDeque<Result<Frame<Bytes>, io::Error>>,
    hint: SizeHint,
    knows_its_end: bool,
}

impl Frames {
    fn new(frames: impl IntoIterator<Item = Result<Frame<Bytes>, io::Error>>) -> Self {
        Self { frames: frames.into_iter().collect(), hint: SizeHint::default(), knows_its_end: false }
    }
}

impl Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let frame = self.frames.pop_front();
        if let (Some(Ok(frame)), Some(left)) = (&frame, self.hint.exact()) {
            self.hint = SizeHint::with_exact(left - frame.data_ref().map_or(0, |data| data.len() as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.knows_its_end && self.frames.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

fn data(text: &'static str) -> Result<Frame<Bytes>, io::Error> {
    Ok(Frame::data(Bytes::from_static(text.as_bytes())))
}

fn trailers(fields: &[(&'static str, &'static str)]) -> Result<Frame<Bytes>, io::Error> {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.insert(*name, value.parse().unwrap());
    }
    Ok(Frame::trailers(map))
}

/// Sends one request through the layer to a service that answers with what `answer` makes.
async fn answered<B: Body>(layer: &LimitLayer, answer: impl Fn() -> Response<B> + Clone) -> Response<LimitedBody<B>>
where
    B::Data: From<Bytes>,
{
    let service = service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(answer())));
    layer.layer(service).oneshot(get()).await.unwrap()
}

fn grpc<B>(body: B) -> Response<B> {
    Response::builder().header("content-type", "application/grpc").body(body).unwrap()
}

// When the permit is taken

#[tokio::test(start_paused = true)]
async fn readiness_takes_nothing_and_calls_never_pass_the_limit() {
    let limiter = limiter(10);
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let service = service_fn({
        let (now, peak) = (now.clone(), peak.clone());
        move |_: Request<()>| {
            let (now, peak) = (now.clone(), peak.clone());
            async move {
                peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(10)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
            }
        }
    });
    let first = LimitLayer::new(limiter.clone()).layer(service);
    let mut clones = vec![first; 200];
    for clone in &mut clones {
        ServiceExt::<Request<()>>::ready(clone).await.unwrap();
    }
    assert_eq!(in_flight(&limiter), 0, "two hundred are ready and none has a permit");
    let calls: Vec<_> = clones.iter_mut().map(|clone| tokio::spawn(clone.call(get()))).collect();
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().status(), 200);
    }
    assert_eq!(peak.load(Ordering::SeqCst), 10);
    assert_eq!((in_flight(&limiter), count(&limiter, Outcome::Success)), (0, 200));
}

struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_does_not_wake_itself() {
    let limiter = limiter(1);
    let held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    let mut call = pin!(LimitLayer::new(limiter.clone()).layer(service).oneshot(get()));
    let wakes = Arc::new(Wakes(AtomicUsize::new(0)));
    let waker = Waker::from(wakes.clone());
    let mut cx = Context::from_waker(&waker);
    for _ in 0..100 {
        assert!(call.as_mut().poll(&mut cx).is_pending());
    }
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    held.finish(Outcome::Success);
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1, "its turn wakes it once");
    assert!(call.as_mut().poll(&mut cx).is_ready());
}

#[tokio::test]
async fn the_instance_that_was_made_ready_serves_the_call() {
    /// Panics when it is called without having been made ready.
    struct Strict {
        ready: bool,
    }
    impl Clone for Strict {
        fn clone(&self) -> Self {
            Self { ready: false }
        }
    }
    impl Service<Request<()>> for Strict {
        type Response = Response<Empty<Bytes>>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Self::Response, Infallible>>;
        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.ready = true;
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            assert!(std::mem::take(&mut self.ready), "called before it was ready");
            ready(Ok(Response::new(Empty::new())))
        }
    }
    let limiter = limiter(1);
    let mut service = LimitLayer::new(limiter.clone()).layer(Strict { ready: false });
    for _ in 0..2 {
        service.ready().await.unwrap().call(get()).await.unwrap();
    }
    let held = limiter.try_acquire().unwrap();
    let waits = tokio::spawn(service.ready().await.unwrap().call(get()));
    tokio::task::yield_now().await;
    held.finish(Outcome::Success);
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn an_inner_service_that_is_not_ready_makes_the_limit_not_ready() {
    #[derive(Clone)]
    struct Busy;
    impl Service<Request<()>> for Busy {
        type Response = Response<Empty<Bytes>>;
        type Error = io::Error;
        type Future = std::future::Ready<Result<Self::Response, io::Error>>;
        fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
            Poll::Pending
        }
        fn call(&mut self, _: Request<()>) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let mut service = LimitLayer::new(limiter(1)).layer(Busy);
    let polled = poll_fn(|cx| Poll::Ready(service.poll_ready(cx))).await;
    assert!(polled.is_pending());
}

#[tokio::test]
async fn clones_and_layers_share_one_limit() {
    let limiter = limiter(2);
    let layer = LimitLayer::new(limiter.clone()).never_wait();
    let service = || service_fn(|_: Request<()>| pending::<Result<Response<Empty<Bytes>>, Infallible>>());
    let mut one = layer.layer(service());
    let mut two = layer.clone().layer(service());
    let (_a, _b) = (one.call(get()), two.call(get()));
    assert_eq!(in_flight(&limiter), 2);
    assert_eq!(one.clone().oneshot(get()).await.unwrap().status(), 503);
}

// How long it is held

#[tokio::test(start_paused = true)]
async fn streams_count_while_they_live() {
    let limiter = limiter(8);
    let open = Arc::new(AtomicUsize::new(0));
    let peak = Arc::new(AtomicUsize::new(0));
    let service = service_fn({
        let (open, peak) = (open.clone(), peak.clone());
        move |_: Request<()>| {
            let (open, peak) = (open.clone(), peak.clone());
            async move {
                tokio::time::sleep(Duration::from_millis(5)).await;
                let (mut sender, body) = http_body_util::channel::Channel::<Bytes, Infallible>::new(1);
                peak.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::spawn(async move {
                    for _ in 0..30 {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        sender.send_data(Bytes::from_static(b"chunk")).await.unwrap();
                    }
                    open.fetch_sub(1, Ordering::SeqCst);
                });
                Ok::<_, Infallible>(Response::new(body))
            }
        }
    });
    let service = LimitLayer::new(limiter.clone()).layer(service);
    let clients: Vec<_> = (0..100)
        .map(|_| {
            let service = service.clone();
            tokio::spawn(async move { service.oneshot(get()).await.unwrap().collect().await.unwrap().to_bytes().len() })
        })
        .collect();
    for client in clients {
        assert_eq!(client.await.unwrap(), 150);
    }
    assert!(peak.load(Ordering::SeqCst) <= 8, "{} bodies at once", peak.load(Ordering::SeqCst));
    assert_eq!((in_flight(&limiter), count(&limiter, Outcome::Success)), (0, 100));
}

#[tokio::test]
async fn the_permit_ends_where_the_policy_says() {
    for (end, after_head, after_first, after_all) in
        [(PermitEnd::Head, 0, 0, 0), (PermitEnd::FirstByte, 1, 0, 0), (PermitEnd::BodyEnd, 1, 1, 0)]
    {
        let limiter = limiter(4);
        let layer = LimitLayer::new(limiter.clone()).permit_end(end);
        let response = answered(&layer, || Response::new(Frames::new([data("a"), data("b")]))).await;
        assert_eq!(in_flight(&limiter), after_head, "{end:?} after the head");
        let mut body = pin!(response.into_body());
        body.frame().await.unwrap().unwrap();
        assert_eq!(in_flight(&limiter), after_first, "{end:?} after the first byte");
        while body.frame().await.is_some() {}
        assert_eq!(in_flight(&limiter), after_all, "{end:?} after all");
        assert_eq!(limiter.snapshot().finished.total(), 1, "{end:?} counts once");
        assert_eq!(count(&limiter, Outcome::Success), 1);
    }
}

#[tokio::test]
async fn a_body_dropped_early_gives_the_permit_back() {
    for (at, success, cancelled) in [(SampleAt::Head, 1, 0), (SampleAt::BodyEnd, 0, 1)] {
        let limiter = limiter(4);
        let layer = LimitLayer::new(limiter.clone()).sample_at(at);
        let response = answered(&layer, || Response::new(Frames::new([data("a"), data("b")]))).await;
        assert_eq!(in_flight(&limiter), 1);
        drop(response);
        assert_eq!(in_flight(&limiter), 0);
        let finished = limiter.snapshot().finished;
        assert_eq!((finished.of(Outcome::Success), finished.of(Outcome::Cancelled)), (success, cancelled), "{at:?}");
    }
}

#[tokio::test]
async fn an_error_in_the_body_is_a_fault_after_a_good_head() {
    let limiter = limiter(4);
    let broken = || Response::new(Frames::new([data("a"), Err(io::ErrorKind::ConnectionReset.into())]));
    let response = answered(&LimitLayer::new(limiter.clone()), broken).await;
    assert!(response.collect().await.is_err(), "the error reaches the caller");
    assert_eq!(in_flight(&limiter), 0);
    assert_eq!((count(&limiter, Outcome::Success), count(&limiter, Outcome::Fault)), (0, 1), "counted once");
}

#[tokio::test]
async fn bodies_without_content_end_at_the_head() {
    let limiter = limiter(4);
    let layer = LimitLayer::new(limiter.clone());
    let empty = answered(&layer, || Response::new(Empty::<Bytes>::new())).await;
    assert_eq!(in_flight(&limiter), 0);
    drop(empty);
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from("x"))))));
    let head = Request::builder().method(Method::HEAD).body(()).unwrap();
    let _unread = layer.layer(service).oneshot(head).await.unwrap();
    assert_eq!((in_flight(&limiter), count(&limiter, Outcome::Success)), (0, 2));
}

#[tokio::test]
async fn the_last_frame_ends_the_permit_when_the_body_announced_it() {
    // Servers stop polling there, so that the end of the stream is never seen.
    let by_length = |body: &mut Frames| body.hint = SizeHint::with_exact(5);
    let by_end = |body: &mut Frames| body.knows_its_end = true;
    for announce in [by_length as fn(&mut Frames), by_end] {
        let limiter = limiter(4);
        let layer = LimitLayer::new(limiter.clone()).sample_at(SampleAt::BodyEnd);
        let answer = move || {
            let mut body = Frames::new([data("abc"), data("de")]);
            announce(&mut body);
            Response::new(body)
        };
        let mut body = pin!(answered(&layer, answer).await.into_body());
        body.frame().await.unwrap().unwrap();
        assert_eq!(in_flight(&limiter), 1);
        body.frame().await.unwrap().unwrap();
        assert_eq!((in_flight(&limiter), count(&limiter, Outcome::Success)), (0, 1));
    }
}

#[tokio::test]
async fn frames_trailers_and_hints_pass_untouched() {
    let layer = LimitLayer::new(limiter(4));
    let response = answered(&layer, || Response::new(Full::new(Bytes::from_static(b"hello")))).await;
    assert_eq!((response.size_hint().exact(), response.is_end_stream()), (Some(5), false));
    let mut body = pin!(response.into_body());
    body.frame().await.unwrap().unwrap();
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(0), true));

    let with_trailers = || Response::new(Frames::new([data("hello"), trailers(&[("x-sum", "abc")])]));
    let collected = answered(&layer, with_trailers).await.collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-sum"], "abc");
}

#[tokio::test]
async fn whatever_is_dropped_gives_back_what_it_holds() {
    let limiter = limiter(2);
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Empty<Bytes>>, Infallible>>());
    let mut service = LimitLayer::new(limiter.clone()).layer(never);
    for _ in 0..5000 {
        drop(service.call(get()));
    }
    assert_eq!((in_flight(&limiter), count(&limiter, Outcome::Cancelled)), (0, 5000), "before the first poll");

    let (first, second) = (service.call(get()), service.call(get()));
    let mut waits = Box::pin(service.call(get()));
    assert!(poll_fn(|cx| Poll::Ready(waits.as_mut().poll(cx))).await.is_pending());
    assert_eq!(limiter.snapshot().queued, 1);
    drop(waits);
    assert_eq!(limiter.snapshot().queued, 0, "a waiter that left is gone");
    drop((first, second));
    assert_eq!(in_flight(&limiter), 0);
}

#[tokio::test]
async fn a_panic_gives_the_permit_back() {
    let limiter = limiter(1);
    let layer = LimitLayer::new(limiter.clone());
    type Answer = Pin<Box<dyn Future<Output = Result<Response<Frames>, Infallible>> + Send>>;
    let in_call = service_fn(|_: Request<()>| -> Answer { panic!("in call") });
    let in_future = service_fn(|_: Request<()>| -> Answer { Box::pin(async { panic!("in the future") }) });
    for service in [
        layer.layer(tower::util::BoxCloneService::new(in_call)),
        layer.layer(tower::util::BoxCloneService::new(in_future)),
    ] {
        assert!(tokio::spawn(service.oneshot(get())).await.unwrap_err().is_panic());
        assert_eq!(in_flight(&limiter), 0);
    }

    struct PanickingBody;
    impl Body for PanickingBody {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("in the body")
        }
    }
    let response = answered(&layer, || Response::new(PanickingBody)).await;
    assert_eq!(in_flight(&limiter), 1);
    let (_, body) = response.into_parts();
    let mut body = Box::pin(body);
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(body.as_mut().poll_frame(&mut Context::from_waker(Waker::noop())));
    }));
    assert!(polled.is_err());
    drop(body);
    assert_eq!(in_flight(&limiter), 0);
}

// What an answer counts as

#[tokio::test]
async fn statuses_are_classified() {
    for (status, outcome) in [
        (200, Outcome::Success),
        (404, Outcome::Caller),
        (429, Outcome::Throttled),
        (500, Outcome::Fault),
        (503, Outcome::Fault),
        (504, Outcome::Overloaded),
    ] {
        let limiter = limiter(4);
        let answer = move || Response::builder().status(status).body(Full::new(Bytes::from_static(b"text"))).unwrap();
        answered(&LimitLayer::new(limiter.clone()), answer).await.collect().await.unwrap();
        assert_eq!((count(&limiter, outcome), limiter.snapshot().finished.total()), (1, 1), "{status}");
    }
}

#[tokio::test]
async fn grpc_status_is_read_in_trailers_and_in_trailers_only_heads() {
    let end = |status: &'static str| move || grpc(Frames::new([data("m"), trailers(&[("grpc-status", status)])]));
    for (status, outcome) in
        [("0", Outcome::Success), ("5", Outcome::Caller), ("8", Outcome::Overloaded), ("14", Outcome::Fault)]
    {
        let limiter = limiter(4);
        let layer = LimitLayer::new(limiter.clone()).sample_at(SampleAt::BodyEnd);
        let collected = answered(&layer, end(status)).await.collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], status);
        assert_eq!((count(&limiter, outcome), limiter.snapshot().finished.total()), (1, 1), "trailers {status}");

        let limiter = self::limiter(4);
        let only = move || {
            let mut response = grpc(Empty::<Bytes>::new());
            response.headers_mut().insert("grpc-status", status.parse().unwrap());
            response
        };
        answered(&LimitLayer::new(limiter.clone()), only).await;
        assert_eq!((count(&limiter, outcome), limiter.snapshot().finished.total()), (1, 1), "trailers-only {status}");
    }
}

#[tokio::test]
async fn a_grpc_answer_that_fails_late_counts_both_ways() {
    let limiter = limiter(4);
    let late = || grpc(Frames::new([data("m"), trailers(&[("grpc-status", "14")])]));
    answered(&LimitLayer::new(limiter.clone()), late).await.collect().await.unwrap();
    assert_eq!((count(&limiter, Outcome::Success), count(&limiter, Outcome::Fault)), (0, 1), "counted once");
    assert_eq!(in_flight(&limiter), 0);
}

#[tokio::test]
async fn a_grpc_answer_without_a_status_is_a_fault() {
    let limiter = limiter(4);
    let layer = LimitLayer::new(limiter.clone()).sample_at(SampleAt::BodyEnd);
    answered(&layer, || grpc(Frames::new([data("m")]))).await.collect().await.unwrap();
    assert_eq!((count(&limiter, Outcome::Fault), in_flight(&limiter)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn errors_are_classified_by_their_sources() {
    let limiter = limiter(4);
    let refused = service_fn(|_: Request<()>| {
        ready(Err::<Response<Empty<Bytes>>, _>(io::Error::from(io::ErrorKind::ConnectionRefused)))
    });
    for _ in 0..20 {
        let error = LimitLayer::new(limiter.clone()).layer(refused).oneshot(get()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "a server keeps the type");
    }
    assert_eq!((count(&limiter, Outcome::Fault), in_flight(&limiter)), (20, 0));

    let slow = service_fn(|_: Request<()>| pending::<Result<Response<Empty<Bytes>>, Infallible>>());
    let timed = tower::timeout::Timeout::new(slow, Duration::from_secs(1));
    let error = LimitLayer::client(limiter.clone()).layer(timed).oneshot(get()).await.unwrap_err();
    assert!(error.is::<tower::timeout::error::Elapsed>());
    let timed = tower::timeout::Timeout::new(slow, Duration::from_secs(1));
    LimitLayer::new(limiter.clone()).layer(timed).oneshot(get()).await.unwrap_err();
    assert_eq!((count(&limiter, Outcome::Overloaded), in_flight(&limiter)), (2, 0));
}

// What a refusal looks like

#[tokio::test]
async fn a_refusal_is_a_whole_answer() {
    let limiter = limiter(1);
    let held = limiter.try_acquire().unwrap();
    let called = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let called = called.clone();
        move |_: Request<()>| {
            called.store(true, Ordering::SeqCst);
            ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new()))))
        }
    });
    let layer = LimitLayer::new(limiter.clone()).never_wait().admit_by(|_| Admit::new().class("query"));
    let response = layer.layer(service.clone()).oneshot(get()).await.unwrap();
    assert_eq!(response.status(), 503);
    assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(response.headers()["tidegate-rejected"], "limit_reached");
    let length = response.size_hint().exact();
    let text = response.collect().await.unwrap().to_bytes();
    assert_eq!(length, Some(text.len() as u64));
    let text = std::str::from_utf8(&text).unwrap();
    for part in [r#""limiter":"tests""#, r#""class":"query""#, r#""limit":1,"in_flight":1"#, r#""side":"inbound""#] {
        assert!(text.contains(part), "{part} missing in {text}");
    }

    let layer = layer.refusal_status(RefusalStatus::TooManyRequests).refusal_body(RefusalBody::Plain);
    let response = layer.layer(service).oneshot(get()).await.unwrap();
    assert_eq!(
        (response.status().as_u16(), response.headers()["content-type"].to_str().unwrap()),
        (429, "text/plain; charset=utf-8")
    );
    assert!(!called.load(Ordering::SeqCst), "the inner service was not asked");
    assert_eq!(limiter.snapshot().rejected(RejectReason::LimitReached), 2, "each refusal counts once");
    held.finish(Outcome::Success);
}

#[tokio::test]
async fn a_grpc_refusal_is_trailers_only() {
    let limiter = limiter(1);
    let _held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(grpc(Full::new(Bytes::new())))));
    let call = Request::builder().header("content-type", "application/grpc").body(()).unwrap();
    let response = LimitLayer::new(limiter).never_wait().layer(service).oneshot(call).await.unwrap();
    assert_eq!((response.status().as_u16(), response.is_end_stream()), (200, true));
    assert_eq!(
        (&response.headers()["grpc-status"], &response.headers()["content-type"]),
        (&"8".parse().unwrap(), &"application/grpc".parse().unwrap())
    );
    assert!(response.headers().contains_key("grpc-retry-pushback-ms"));
}

#[tokio::test]
async fn a_client_may_take_the_refusal_as_an_error() {
    let limiter = limiter(1);
    let _held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, BoxError>(Response::new(Full::new(Bytes::new())))));
    let layer = LimitLayer::client(limiter).never_wait();
    let response = layer.clone().layer(service).oneshot(get()).await.unwrap();
    assert!(
        std::str::from_utf8(&response.collect().await.unwrap().to_bytes()).unwrap().contains(r#""side":"outbound""#)
    );
    let error = layer.refuse_by_error().layer(service).oneshot(get()).await.unwrap_err();
    assert_eq!(error.downcast_ref::<Rejected>().unwrap().reason, RejectReason::LimitReached);
}

#[tokio::test]
async fn a_refusal_further_in_is_overload_and_not_a_fault() {
    let (outer, inner) = (limiter(4), limiter(1));
    let _held = inner.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))));
    let stack = LimitLayer::new(outer.clone()).layer(LimitLayer::new(inner).never_wait().layer(service));
    stack.oneshot(get()).await.unwrap().collect().await.unwrap();
    assert_eq!((count(&outer, Outcome::Overloaded), in_flight(&outer)), (1, 0));
}

#[tokio::test]
async fn a_closed_limiter_refuses_those_who_wait_and_calls_nobody() {
    let limiter = limiter(1);
    let held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| async {
        unreachable!("nobody was admitted") as Result<Response<Full<Bytes>>, Infallible>
    });
    let service = LimitLayer::new(limiter.clone()).refusal_status(RefusalStatus::TooManyRequests).layer(service);
    let waiting: Vec<_> = (0..100).map(|_| tokio::spawn(service.clone().oneshot(get()))).collect();
    while limiter.snapshot().queued < 100 {
        tokio::task::yield_now().await;
    }
    limiter.close();
    for call in waiting {
        let response = call.await.unwrap().unwrap();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["tidegate-rejected"]),
            (503, &"closed".parse().unwrap())
        );
    }
    assert_eq!(limiter.snapshot().queued, 0);
    held.finish(Outcome::Success);
}

// Who asks

#[tokio::test]
async fn the_request_says_its_weight_and_exempt_requests_pass_uncounted() {
    let limiter = limiter(4);
    let never = service_fn(|_: Request<()>| pending::<Result<Response<Empty<Bytes>>, Infallible>>());
    let mut service = LimitLayer::new(limiter.clone())
        .never_wait()
        .admit_by(|request| {
            let weight = request.headers.get("x-weight").and_then(|w| w.to_str().ok()).and_then(|w| w.parse().ok());
            Admit::new().weight(weight.unwrap_or(1))
        })
        .exempt(|request| request.uri.path() == "/healthz")
        .layer(never);
    let heavy = Request::builder().header("x-weight", "3").body(()).unwrap();
    let _heavy = service.call(heavy);
    assert_eq!(in_flight(&limiter), 3);
    let _light = service.call(get());
    assert_eq!(service.call(get()).await.unwrap().status(), 503);
    let _probe = service.call(Request::builder().uri("/healthz").body(()).unwrap());
    assert_eq!((in_flight(&limiter), limiter.snapshot().rejected_total()), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_deadline_bounds_the_wait() {
    let limiter = limiter(1);
    let _held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))));
    let layer = LimitLayer::new(limiter.clone()).admit_by(|_| {
        #[expect(clippy::disallowed_methods, reason = "a deadline of the test's own")]
        let soon = tokio::time::Instant::now() + Duration::from_millis(200);
        Admit::new().deadline(soon.into_std())
    });
    let response = layer.layer(service).oneshot(get()).await.unwrap();
    assert_eq!(response.headers()["tidegate-rejected"], "client_deadline");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_travels_through_the_queue_to_the_inner_service() {
    let limiter = limiter(1);
    let held = limiter.try_acquire().unwrap();
    let service = service_fn(|request: Request<()>| {
        let left = request.headers()["x-timeout-ms"].clone();
        let known = request.extensions().get::<Deadline>().copied();
        let mut response = Response::new(Full::new(Bytes::new()));
        response.headers_mut().insert("left", left);
        response.extensions_mut().insert(known.expect("the deadline itself"));
        ready(Ok::<_, Infallible>(response))
    });
    let source = DeadlineSource::default().header(HeaderName::from_static("x-timeout-ms"), BudgetUnit::Millis);
    let mut service = LimitLayer::new(limiter.clone()).deadlines(source).layer(service);
    let request = Request::builder().header("x-timeout-ms", "1000").body(()).unwrap();
    let call = service.call(request);
    tokio::time::advance(Duration::from_millis(400)).await;
    held.finish(Outcome::Success);
    let response = call.await.unwrap();
    assert_eq!(response.headers()["left"], "600");
    let late = Request::builder().header("x-timeout-ms", "0").body(()).unwrap();
    let refused = service.call(late).await.unwrap();
    assert_eq!(refused.headers()["tidegate-rejected"], "deadline_unmeetable");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_in_the_extensions_holds_over_a_longer_one_in_the_headers() {
    let limiter = limiter(1);
    let _held = limiter.try_acquire().unwrap();
    let service = service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))));
    let mut service = LimitLayer::new(limiter.clone()).layer(service);
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test's own")]
    let now = tokio::time::Instant::now().into_std();
    let deadline = Deadline::after(now, Duration::from_millis(200));
    let request = Request::builder().header("grpc-timeout", "30S").extension(deadline).body(()).unwrap();
    let began = deadline.remaining(now);
    assert_eq!(service.call(request).await.unwrap().headers()["tidegate-rejected"], "client_deadline");
    #[expect(clippy::disallowed_methods, reason = "a deadline of the test's own")]
    let waited = tokio::time::Instant::now().into_std() - now;
    assert!(waited >= began && waited < Duration::from_secs(1), "{waited:?}");
}
