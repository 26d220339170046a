//! What a scrape of many limiters costs: reading every counter and writing the Prometheus text.
//!
//! `cargo bench --bench scrape --features daemon`
#![allow(clippy::disallowed_methods, reason = "a bench reads the clock")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use metrics_exporter_prometheus::PrometheusBuilder;
use tidegate::{Limiter, Outcome, metrics};

fn busy(name: &str) -> Limiter {
    let limiter = Limiter::builder(name).build().expect("the defaults are valid");
    for _ in 0..100 {
        limiter.try_acquire().expect("not full").finish(Outcome::Success);
    }
    limiter
}

fn scrape(limiters: &[Limiter]) -> String {
    let mut text = metrics::Text::default();
    limiters.iter().for_each(|limiter| text.limiter(&limiter.snapshot()));
    text.render("")
}

fn through_the_facade(limiters: &[Limiter]) -> String {
    let recorder = PrometheusBuilder::new().build_recorder();
    ::metrics::with_local_recorder(&recorder, || {
        metrics::describe();
        limiters.iter().for_each(|limiter| metrics::record(&limiter.snapshot()));
    });
    recorder.handle().render()
}

fn bench(c: &mut Criterion) {
    let mut group = c.benchmark_group("scrape");
    group.sample_size(10).measurement_time(Duration::from_secs(5));
    for count in [1, 100, 1000] {
        let limiters: Vec<_> = (0..count).map(|i| busy(&format!("limiter-{i}"))).collect();
        println!("{count} limiters: {} lines, {} bytes", scrape(&limiters).lines().count(), scrape(&limiters).len());
        group.bench_function(format!("{count} limiters"), |b| b.iter(|| black_box(scrape(&limiters))));
        group.bench_function(format!("{count} limiters, through the facade"), |b| {
            b.iter(|| black_box(through_the_facade(&limiters)));
        });
        group.bench_function(format!("{count} limiters, snapshots alone"), |b| {
            b.iter(|| limiters.iter().for_each(|limiter| drop(black_box(limiter.snapshot()))));
        });
    }
}

criterion_group!(benches, bench);
criterion_main!(benches);
