//! A shared ceiling at speed, and its callers while the store is stopped and killed.
//!
//! Run, with redis-server installed: `cargo bench --bench ceiling_store --features redis`. Prints how many
//! units a second one process is granted and for how many calls to the store; then, at 20,000 requests
//! a second, how long a take lasts before, during and after each loss.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tidegate::ceiling::{Ceiling, RedisStore, Sharing, Source};
use tokio::time::{MissedTickBehavior, interval, sleep};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let mut redis = Redis::start();
    speed(redis.port).await;
    println!("\nat 20,000 requests a second: how long a take lasts");
    println!("{:<28} {:>9} {:>9} {:>9} {:>9} {:>9}  source", "", "takes", "p50", "p99", "p99.9", "max");
    let ceiling = join(redis.port, 40_000.0, 8_000).await;
    let mut load = Load::start(&ceiling);
    load.report("before", &ceiling, 3).await;
    redis.signal("-STOP");
    load.report("stopped: the first second", &ceiling, 1).await;
    load.report("stopped: after it", &ceiling, 3).await;
    redis.signal("-CONT");
    back(&ceiling).await;
    load.report("continued", &ceiling, 3).await;
    redis.child.kill().expect("it runs");
    load.report("killed: the first second", &ceiling, 1).await;
    load.report("killed: after it", &ceiling, 3).await;
    let _ = redis.child.wait();
    redis.child = launch(redis.port);
    back(&ceiling).await;
    load.report("back, empty", &ceiling, 3).await;
}

/// Grants that tasks take as fast as they can.
async fn speed(port: u16) {
    let ceiling = join(port, 2_000_000.0, 200_000).await;
    let over = Arc::new(AtomicBool::new(false));
    let before = ceiling.snapshot();
    let began = Instant::now();
    let tasks: Vec<_> = (0..2)
        .map(|_| {
            let (ceiling, over) = (ceiling.clone(), over.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    for _ in 0..1000 {
                        let _ = ceiling.take(1, None).await;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    sleep(Duration::from_secs(3)).await;
    over.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.expect("no panic");
    }
    let (now, took) = (ceiling.snapshot(), began.elapsed().as_secs_f64());
    let (grants, trips) = (now.consumed - before.consumed, now.round_trips - before.round_trips);
    let for_100 = 100.0 * trips as f64 / grants as f64;
    println!(
        "{:.0} grants/s, {trips} calls to the store: {for_100:.3} for 100 grants ({})",
        grants as f64 / took,
        now.source
    );
}

async fn join(port: u16, rate: f64, burst: u32) -> Ceiling {
    let store = RedisStore::builder(format!("redis://127.0.0.1:{port}")).build(&format!("at-{rate}")).expect("a URL");
    let builder = Ceiling::builder("bench").rate(rate).burst(burst);
    let (ceiling, driver) = builder.build_shared(store, Sharing::new().members(1)).expect("valid");
    tokio::spawn(driver.run());
    back(&ceiling).await;
    ceiling
}

async fn back(ceiling: &Ceiling) {
    while ceiling.snapshot().source != Source::Shared {
        sleep(Duration::from_millis(10)).await;
    }
}

/// Twenty callers, a thousand requests a second each, on time whatever the last one took.
struct Load {
    times: tokio::sync::mpsc::UnboundedReceiver<Duration>,
}

impl Load {
    fn start(ceiling: &Ceiling) -> Self {
        let (sender, times) = tokio::sync::mpsc::unbounded_channel();
        for _ in 0..20 {
            let (ceiling, sender) = (ceiling.clone(), sender.clone());
            tokio::spawn(async move {
                let mut ticks = interval(Duration::from_millis(1));
                ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
                loop {
                    ticks.tick().await;
                    let began = Instant::now();
                    let _ = ceiling.take(1, None).await;
                    if sender.send(began.elapsed()).is_err() {
                        return;
                    }
                }
            });
        }
        Self { times }
    }

    async fn report(&mut self, what: &str, ceiling: &Ceiling, seconds: u64) {
        while self.times.try_recv().is_ok() {}
        sleep(Duration::from_secs(seconds)).await;
        let mut took = Vec::new();
        while let Ok(time) = self.times.try_recv() {
            took.push(time);
        }
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        println!(
            "{what:<28} {:>9} {:>6.3} ms {:>6.3} ms {:>6.3} ms {:>6.3} ms  {}",
            took.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0),
            ceiling.snapshot().source
        );
    }
}

/// Killed when dropped.
struct Redis {
    port: u16,
    child: Child,
}

impl Redis {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        Self { port, child: launch(port) }
    }

    fn signal(&self, signal: &str) {
        let _ = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(port: u16) -> Child {
    let args = ["--bind", "127.0.0.1", "--save", "", "--port"];
    let server = Command::new("redis-server").args(args).arg(port.to_string()).stdout(Stdio::null()).spawn();
    server.expect("redis-server is installed")
}
