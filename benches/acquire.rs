//! Acquire, finish and sample, everything on, beside a bare tokio semaphore in the same run.
//!
//! Run: `cargo bench --bench acquire`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::{Admit, Class, ClassId, Limiter, Outcome, Share};
use tokio::sync::Semaphore;

/// Runs `work` `iterations` times on each of `threads` threads; wall time a call on one thread.
fn on_threads(threads: usize, iterations: u64, work: impl Fn() + Sync) -> Duration {
    on_threads_with(threads, iterations, || (), |()| work())
}

/// The same with something that each thread makes for itself.
fn on_threads_with<T>(
    threads: usize,
    iterations: u64,
    own: impl Fn() -> T + Sync,
    work: impl Fn(&T) + Sync,
) -> Duration {
    let barrier = std::sync::Barrier::new(threads);
    let times: Vec<Duration> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let own = own();
                    barrier.wait();
                    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
                    let began = Instant::now();
                    for _ in 0..iterations {
                        work(&own);
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

/// 31 classes beside the default one. The first reserves what it needs, the last has a cap.
fn with_classes() -> (Limiter, Vec<ClassId>) {
    let class = |n: usize| Class::new(format!("class-{n}")).reserve(Share::Units(u32::from(n < 4) * 8));
    let builder = Limiter::builder("bench").bounds(1, 1000).initial(100);
    let builder = (0..30).map(class).fold(builder, |builder, class| builder.class(class));
    let limiter = builder.class(Class::new("class-30").cap(Share::Units(50))).build().expect("valid");
    let ids = (0..31).map(|n| limiter.class_id(&format!("class-{n}")).expect("a class")).collect();
    (limiter, ids)
}

/// The same with 32 classes: by handle through all of them in turn, by name, within a reserve, with a cap.
fn acquire_by_class(c: &mut Criterion) {
    let plain = Limiter::builder("bench").bounds(1, 1000).initial(100).build().expect("valid");
    let (limiter, ids) = with_classes();
    for threads in [1, 2] {
        let mut group = c.benchmark_group(format!("acquire_by_class/{threads}_threads"));
        let mut bench = |name: &str, limiter: &Limiter, admit: &(dyn Fn(u32) -> Admit<'static> + Sync)| {
            group.bench_function(name, |b| {
                b.iter_custom(|n| {
                    let next = std::cell::Cell::new;
                    on_threads_with(
                        threads,
                        n,
                        || next(0_u32),
                        |turn| {
                            turn.set(turn.get().wrapping_add(1));
                            if let Ok(permit) = black_box(limiter).try_acquire_with(&admit(turn.get())) {
                                permit.finish(Outcome::Success);
                            }
                        },
                    )
                });
            });
        };
        bench("no_classes", &plain, &|_| Admit::new());
        bench("all_in_turn", &limiter, &|turn| Admit::new().class_id(ids[turn as usize % ids.len()]));
        bench("within_reserve", &limiter, &|_| Admit::new().class_id(ids[0]));
        bench("without_reserve", &limiter, &|_| Admit::new().class_id(ids[10]));
        bench("with_cap", &limiter, &|_| Admit::new().class_id(ids[30]));
        bench("by_name_of_31", &limiter, &|_| Admit::new().class("class-30"));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1));
    targets = acquire, acquire_by_class
}
criterion_main!(benches);
