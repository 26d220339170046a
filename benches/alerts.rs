//! What an alert costs the request path: a refusal alone, and a refusal that is counted for alerts
//! while somebody drains the counts, from one thread and from two.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tidegate::Limiter;
use tidegate::alerts::{Aggregator, Settings, Tallies, Tally};
use tidegate::time::Nanos;

fn full() -> (Limiter, tidegate::Permit) {
    let limiter = Limiter::builder("payments").bounds(1, 1).build().expect("valid");
    let permit = limiter.try_acquire().expect("there is room");
    (limiter, permit)
}

fn refuse(limiter: &Limiter, tally: Option<&Tally>, tenant: Option<&str>) {
    let Err(rejected) = limiter.try_acquire() else { panic!("it is full") };
    if let Some(tally) = tally {
        tally.rejected(&rejected, tenant);
    }
    black_box(rejected);
}

/// Drains every 250 ms, as the gateway does, until told to stop.
fn drain(tallies: &Tallies, stop: &AtomicBool) {
    let mut aggregator = Aggregator::new(Settings::default());
    let mut now = Nanos(0);
    while !stop.load(Ordering::Relaxed) {
        tallies.drain(|subject, seen| aggregator.observe(subject, &seen, now));
        black_box(aggregator.tick(now));
        now = now + Duration::from_millis(250);
        std::thread::sleep(Duration::from_millis(250));
    }
}

fn counting(c: &mut Criterion) {
    let (limiter, _held) = full();
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    let refusal = limiter.try_acquire().expect_err("it is full");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| drain(&tallies, &stop));
        let mut group = c.benchmark_group("alerts");
        group.bench_function("count", |b| b.iter(|| tally.rejected(black_box(&refusal), None)));
        group.bench_function("count_tenant", |b| b.iter(|| tally.rejected(black_box(&refusal), Some("acme"))));
        group.bench_function("refuse", |b| b.iter(|| refuse(&limiter, None, None)));
        group.bench_function("refuse_and_count", |b| b.iter(|| refuse(&limiter, Some(&tally), None)));
        for (name, counted) in [("refuse/2_threads", false), ("refuse_and_count/2_threads", true)] {
            let tally = counted.then_some(&tally);
            group.bench_function(name, |b| b.iter_custom(|n| two_threads(n, &limiter, tally)));
        }
        group.finish();
        stop.store(true, Ordering::Relaxed);
    });
}

/// The time that two threads take for `n` refusals each.
#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn two_threads(n: u64, limiter: &Limiter, tally: Option<&Arc<Tally>>) -> Duration {
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..n).for_each(|_| refuse(limiter, tally.map(|tally| &**tally), None)));
        }
    });
    begin.elapsed()
}

criterion_group!(benches, counting);
criterion_main!(benches);
