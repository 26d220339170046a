//! Runs an operation on several threads at once and compares the contestants of one run.
//!
//! The figure is wall time for each operation of a thread: with perfect scaling it stays the same
//! when a second thread joins, whatever they share makes it grow.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion};

/// The contestant that the others are measured against.
pub const YARDSTICK: &str = "tokio_semaphore_owned";

/// The best figure of each contestant and number of threads, in nanoseconds.
#[derive(Default)]
pub struct Table(Mutex<BTreeMap<(usize, &'static str), f64>>);

impl Table {
    /// Measures one contestant on one thread and on two. `make` gives each thread its operation.
    pub fn measure<F: FnMut()>(&self, c: &mut Criterion, name: &'static str, make: impl Fn() -> F + Sync) {
        let mut group = c.benchmark_group("acquire_and_finish");
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
        for threads in [1, 2] {
            group.bench_function(BenchmarkId::new(name, threads), |bencher| {
                bencher.iter_custom(|iterations| {
                    let wall = on_threads(threads, iterations, &make);
                    self.note(threads, name, iterations, wall);
                    wall
                });
            });
        }
        group.finish();
    }

    fn note(&self, threads: usize, name: &'static str, iterations: u64, wall: Duration) {
        // Short rounds measure the start of threads more than the operation.
        if iterations >= 10_000 {
            let each = wall.as_nanos() as f64 / iterations as f64;
            let mut best = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            best.entry((threads, name)).and_modify(|b| *b = b.min(each)).or_insert(each);
        }
    }

    /// Prints the best round of each, and its ratio to the yardstick's.
    pub fn print(&self) {
        let best = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        println!("\nbest round, ns per operation and thread, and ratio to {YARDSTICK}:");
        for ((threads, name), each) in &*best {
            let ratio = best.get(&(*threads, YARDSTICK)).map_or(f64::NAN, |yard| each / yard);
            println!("  {threads} thread(s)  {name:<32} {each:>8.1} ns  {ratio:>6.2}x");
        }
    }
}

/// The wall time of `iterations` operations on each of `threads` threads that start together.
fn on_threads<F: FnMut()>(threads: usize, iterations: u64, make: &(impl Fn() -> F + Sync)) -> Duration {
    let run = |operation: &mut F| {
        for _ in 0..iterations {
            operation();
        }
    };
    if threads == 1 {
        let mut operation = make();
        let start = Instant::now();
        run(&mut operation);
        return start.elapsed();
    }
    let start_line = Barrier::new(threads);
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let runners: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut operation = make();
                    start_line.wait();
                    let start = Instant::now();
                    run(&mut operation);
                    (start, Instant::now())
                })
            })
            .collect();
        runners.into_iter().map(|runner| runner.join().expect("an operation panicked")).collect()
    });
    let first = spans.iter().map(|span| span.0).min().expect("there are threads");
    let last = spans.iter().map(|span| span.1).max().expect("there are threads");
    last - first
}
