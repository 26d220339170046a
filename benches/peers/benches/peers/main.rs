//! tidegate beside the published limiters: acquire, finish, and whatever each does with the sample.
//!
//! Every contestant has far more room than it needs, so nobody waits and nobody is refused. Those
//! that exist only as tower layers are driven through a service that answers at once; what that
//! service costs is shown by "tower_bare_service". The others get a limit that their algorithm cannot
//! move; tidegate runs its default law over wide bounds, windows and decisions included.
//!
//! Run, in `benches/peers`, on an idle machine: `cargo bench`. On two threads the bare service must
//! cost what it costs on one; where it costs twice as much, the threads did not run side by side.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use congestion_limiter::limiter::{DefaultLimiter, Limiter as _};
use criterion::Criterion;
use http::{Request, Response};
use http_body_util::Empty;
use tidegate::tower::LimitLayer;
use tidegate::{Limiter, Outcome};
use tokio::sync::Semaphore;
use tower::{Layer, Service};

mod rounds;

const ROOM: usize = 1000;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let table = rounds::Table::default();
    plain(&mut criterion, &table);
    layers(&mut criterion, &table);
    http_layer(&mut criterion, &table);
    criterion.final_summary();
    table.print();
}

fn plain(c: &mut Criterion, table: &rounds::Table) {
    let semaphore = Arc::new(Semaphore::new(ROOM));
    table.measure(c, rounds::YARDSTICK, || {
        let semaphore = Arc::clone(&semaphore);
        move || drop(black_box(Arc::clone(&semaphore).try_acquire_owned().expect("there is room")))
    });

    let limiter = Limiter::builder("bench").bounds(16, ROOM as u32).build().expect("valid bounds");
    table.measure(c, "tidegate_owned", || {
        let limiter = limiter.clone();
        move || black_box(limiter.try_acquire().expect("there is room")).finish(Outcome::Success)
    });
    table.measure(c, "tidegate_borrowed", || {
        let limiter = limiter.clone();
        move || black_box(limiter.try_acquire_ref().expect("there is room")).finish(Outcome::Success)
    });

    let congestion = Arc::new(DefaultLimiter::new(congestion_limiter::limits::Aimd::new(ROOM, ROOM..=ROOM)));
    table.measure(c, "congestion_limiter_aimd", || {
        let limiter = Arc::clone(&congestion);
        move || {
            let token = at_once(limiter.try_acquire()).expect("there is room");
            black_box(at_once(limiter.release(token, Some(congestion_limiter::limiter::Outcome::Success))));
        }
    });
}

fn layers(c: &mut Criterion, table: &rounds::Table) {
    table.measure(c, "tower_bare_service", || call_again_and_again(AtOnce));

    let tower = tower::limit::GlobalConcurrencyLimitLayer::new(ROOM).layer(AtOnce);
    table.measure(c, "tower_concurrency_limit", || call_again_and_again(tower.clone()));

    let aimd = tower_acc::Aimd::builder().initial_limit(ROOM).min_limit(ROOM).max_limit(ROOM).build();
    let acc = tower_acc::ConcurrencyLimitLayer::new(aimd).layer(AtOnce);
    table.measure(c, "tower_acc_aimd", || call_again_and_again(acc.clone()));

    let aimd = tower_resilience_adaptive::Aimd::builder()
        .initial_limit(ROOM)
        .min_limit(ROOM)
        .max_limit(ROOM)
        .latency_threshold(Duration::from_secs(1))
        .build()
        .expect("valid bounds");
    let resilience = tower_resilience_adaptive::AdaptiveLimiterLayer::new(aimd).layer(AtOnce);
    table.measure(c, "tower_resilience_adaptive_aimd", || call_again_and_again(resilience.clone()));
}

/// Our own layer speaks HTTP, so it is measured against a bare service that does.
fn http_layer(c: &mut Criterion, table: &rounds::Table) {
    let bare = tower::service_fn(|_: Request<()>| ready(Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))));
    table.measure(c, "http_bare_service", || answer_again_and_again(bare));
    let limiter = Limiter::builder("layer").bounds(16, ROOM as u32).build().expect("valid bounds");
    let limited = LimitLayer::new(limiter).layer(bare);
    table.measure(c, "http_tidegate_layer", || answer_again_and_again(limited.clone()));
}

fn answer_again_and_again<S, B>(mut service: S) -> impl FnMut()
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible>,
{
    move || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))), "there is room");
        let response = at_once(service.call(black_box(Request::new(()))));
        assert!(black_box(response).is_ok_and(|response| response.status() == 200), "nobody is refused");
    }
}

#[derive(Clone)]
struct AtOnce;

impl Service<()> for AtOnce {
    type Response = ();
    type Error = Infallible;
    type Future = Ready<Result<(), Infallible>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

/// One whole call: made ready, called, answered.
fn call_again_and_again<S: Service<(), Response = ()>>(mut service: S) -> impl FnMut() {
    move || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(matches!(service.poll_ready(&mut cx), Poll::Ready(Ok(()))), "there is room");
        black_box(at_once(service.call(()))).ok().expect("it never fails");
    }
}

fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing has to wait"),
    }
}
