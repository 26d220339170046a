//! What a decision costs, and what sampler and law cost a request at a rate.
//!
//! `cargo bench --bench decide`. `decide/*`: one decision on a window of 16 samples.
//! `request/*`: all of the law's bookkeeping for one request, decisions included: the table of
//! unfinished requests, the sampler, closing windows. The closing lines give the time a request.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use tidegate::Bounds;
use tidegate::control::Control;
use tidegate::law;
use tidegate::outcome::{Outcome, OutcomeCounts};
use tidegate::time::Nanos;
use tidegate::window::{Sample, Totals, Unfinished, Window, level_of};

/// A cheap generator: the bench must not measure it.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Requests that come at `rate` a second and take `latency` on average, under a control.
struct Stream {
    control: Control,
    unfinished: Unfinished,
    totals: Totals,
    now: f64,
    rate: f64,
    latency: f64,
    running: VecDeque<(Nanos, u32, bool)>,
    arrived: u32,
    random: Random,
}

impl Stream {
    fn new(name: &str, rate: f64, latency: f64) -> Self {
        let bounds = Bounds::new(1, 2000).expect("valid");
        let law = law::by_name(name).expect("a law");
        let mut stream = Self {
            control: Control::new(Nanos(0), bounds, 1.2 * rate * latency, law),
            unfinished: Unfinished::default(),
            totals: Totals::default(),
            now: 0.0,
            rate,
            latency,
            running: VecDeque::new(),
            arrived: 0,
            random: Random(7),
        };
        for _ in 0..(5.0 * rate) as u32 {
            stream.request();
        }
        stream
    }

    /// One arrival, and the request that finishes meanwhile.
    fn request(&mut self) {
        self.now += (0.5 + self.random.unit()) / self.rate;
        let now = Nanos::from_secs_f64(self.now);
        let timed = self.arrived & (self.control.sampler().one_in() - 1) == 0;
        self.arrived = self.arrived.wrapping_add(1);
        let in_flight = self.running.len() as u32 + 1;
        if timed {
            self.unfinished.start(level_of(in_flight), now);
        }
        self.running.push_back((now, in_flight, timed));
        if f64::from(in_flight) < self.rate * self.latency * (0.8 + 0.4 * self.random.unit()) {
            return;
        }
        let (start, in_flight, timed) = self.running.pop_front().expect("just pushed");
        self.totals.finished.add(Outcome::Success, 1);
        if timed {
            self.unfinished.finish(level_of(in_flight), start);
            self.control.push(Sample { start, end: now, in_flight, outcome: Outcome::Success });
            if self.control.is_due(now) {
                let in_flight = self.running.len() as u32;
                black_box(self.control.close(now, &self.totals, in_flight, &self.unfinished));
            }
        }
    }
}

fn requests(c: &mut Criterion) {
    let mut group = c.benchmark_group("request");
    group.throughput(Throughput::Elements(1));
    for (label, rate, latency) in [("1k", 1_000.0, 0.05), ("50k", 50_000.0, 0.001)] {
        for name in law::NAMES {
            let mut stream = Stream::new(name, rate, latency);
            group.bench_function(format!("{label}/{name}"), |b| b.iter(|| stream.request()));
        }
        // The stream alone, whose cost is to be taken off.
        let mut stream = Stream::new("fixed", rate, latency);
        group.bench_function(format!("{label}/nothing"), |b| {
            b.iter(|| {
                stream.now += (0.5 + stream.random.unit()) / stream.rate;
                stream.running.push_back((Nanos::from_secs_f64(stream.now), 1, false));
                black_box((stream.random.unit(), stream.running.pop_front()));
            });
        });
    }
    group.finish();
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide");
    for &name in law::NAMES {
        let mut law = law::by_name(name).expect("a law");
        let mut random = Random(7);
        let (unfinished, mut now, mut limit) = (Unfinished::default(), Nanos(1_000_000_000), 50.0);
        let step = Duration::from_millis(10);
        let mut window = |now: Nanos| -> (Nanos, Vec<Sample>, OutcomeCounts) {
            let samples = (0..16_u32)
                .map(|i| {
                    let latency = Duration::from_secs_f64(0.02 * (0.5 + random.unit()));
                    let end = now + step * i / 16;
                    let in_flight = 30 + (20.0 * random.unit()) as u32;
                    Sample { start: end - latency, end, in_flight, outcome: Outcome::Success }
                })
                .collect();
            let mut finished = OutcomeCounts::default();
            finished.add(Outcome::Success, 16);
            (now, samples, finished)
        };
        group.bench_function(name, |b| {
            b.iter_batched(
                || {
                    now = now + step;
                    window(now)
                },
                |(opened, samples, finished)| {
                    let decision = law.decide(
                        limit,
                        &Window {
                            opened,
                            closed: opened + step,
                            finished,
                            turned_away: 4,
                            waited: 0,
                            in_flight_open: 50,
                            in_flight_close: 50,
                            one_in: 1,
                            samples: &samples,
                            unfinished: &unfinished,
                            quiet: Duration::ZERO,
                            stalled: false,
                        },
                    );
                    limit = decision.limit.clamp(40.0, 60.0);
                    samples
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, requests, decisions);
criterion_main!(benches);
