//! Acquire, finish and sample, everything on, beside a bare tokio semaphore in the same run.
//!
//! Run: `cargo bench --bench acquire`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::{Limiter, Outcome};
use tokio::sync::Semaphore;

/// Runs `work` `iterations` times on each of `threads` threads; wall time a call on one thread.
fn on_threads(threads: usize, iterations: u64, work: impl Fn() + Sync) -> Duration {
    let barrier = std::sync::Barrier::new(threads);
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
                    let began = Instant::now();
                    for _ in 0..iterations {
                        work();
                    }
                    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
                    let took = began.elapsed();
                    took
                })
            })
            .collect();
        handles.into_iter().map(|h| h.join().expect("no panic")).collect()
    });
    times.iter().sum::<Duration>() / threads as u32
}

fn acquire(c: &mut Criterion) {
    let limiter = Limiter::builder("bench").bounds(1, 1000).initial(100).build().expect("valid");
    let semaphore = Arc::new(Semaphore::new(100));
    for threads in [1, 2] {
        let mut group = c.benchmark_group(format!("acquire/{threads}_threads"));
        group.bench_function("tokio_semaphore_owned", |b| {
            b.iter_custom(|n| on_threads(threads, n, || drop(black_box(Arc::clone(&semaphore).try_acquire_owned()))));
        });
        group.bench_function("tidegate_owned", |b| {
            b.iter_custom(|n| {
                on_threads(threads, n, || {
                    if let Ok(permit) = black_box(&limiter).try_acquire() {
                        permit.finish(Outcome::Success);
                    }
                })
            });
        });
        group.bench_function("tidegate_borrowed", |b| {
            b.iter_custom(|n| {
                on_threads(threads, n, || {
                    if let Ok(permit) = black_box(&limiter).try_acquire_ref() {
                        permit.finish(Outcome::Success);
                    }
                })
            });
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1));
    targets = acquire
}
criterion_main!(benches);
