//! Takes from a ceiling that has plenty, beside governor and leaky-bucket where their package runs it.
//!
//! Run: `cargo bench --bench ceiling`; the others: `cargo bench --bench ceilings` in `benches/peers`.
#![allow(missing_docs, reason = "criterion's macros make public items")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::{Ceiling, Outcome};

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

fn ceiling(c: &mut Criterion) {
    let plenty = Ceiling::builder("bench").rate(1e7).burst(1 << 30).build().expect("valid");
    let empty = Ceiling::builder("bench").rate(0.001).burst(1).build().expect("valid");
    drop(empty.try_take(1));
    for threads in [1, 2] {
        let mut group = c.benchmark_group(format!("ceiling/{threads}_threads"));
        group.bench_function("try_take", |b| {
            b.iter_custom(|n| on_threads(threads, n, || drop(black_box(plenty.try_take(1)))));
        });
        group.bench_function("try_take_and_observe", |b| {
            b.iter_custom(|n| {
                on_threads(threads, n, || {
                    if let Ok(charge) = black_box(&plenty).try_take(1) {
                        charge.observe(Outcome::Success);
                    }
                })
            });
        });
        group.bench_function("refused", |b| {
            b.iter_custom(|n| on_threads(threads, n, || drop(black_box(empty.try_take(1)))));
        });
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_secs(1));
    targets = ceiling
}
criterion_main!(benches);
