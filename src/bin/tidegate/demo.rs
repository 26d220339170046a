//! `tidegate demo`: a simulated service whose capacity changes, an open-loop load, and the gateway,
//! in one process and over real sockets.
//!
//! The same load goes to two copies of the service, one behind the gateway and one bare, so that
//! the comparison is of the same seconds. Three phases: full capacity, a quarter of it, full again.

mod load;
mod service;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::Limiter;
use tidegate::config::{Config, Overrides};

use crate::cli::DemoArgs;
use crate::serve::Gateway;
use load::{Load, Tally};
use service::Service;

/// Workers of the service at full capacity, and while something is wrong with it.
const WORKERS: [usize; 3] = [20, 5, 20];
/// Mean time of one piece of work.
const WORK: Duration = Duration::from_millis(40);
/// Requests a second: more than full capacity (500 a second) serves.
const OFFERED: f64 = 600.0;
/// An answer is of use within this.
const USEFUL: Duration = Duration::from_millis(250);
const PHASES: [&str; 3] = ["full capacity", "a quarter of it", "full again"];

/// `tidegate demo`.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(show(Duration::from_secs(args.seconds.into())))?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

async fn show(length: Duration) -> anyhow::Result<()> {
    let (guarded, bare) = (Service::start(WORKERS[0], WORK).await?, Service::start(WORKERS[0], WORK).await?);
    let overrides = Overrides {
        listen: Some("127.0.0.1:0".to_owned()),
        upstream: Some(format!("http://{}", guarded.address())),
        min: Some(2),
        max: Some(200),
        ..Overrides::default()
    };
    let gateway = Gateway::start(Config::parse("demo", "", &overrides)?).await?;
    let limiter = gateway.live.limiters().remove(0);
    println!(
        "A service with {} workers and {} ms of work for each request: {:.0} a second at most. Offered: {OFFERED:.0} a second.\n\
         With: through tidegate, bounds 2 to 200, no other setting. Without: straight to a second copy.\n",
        WORKERS[0],
        WORK.as_millis(),
        WORKERS[0] as f64 / WORK.as_secs_f64(),
    );
    let with = Load::start(format!("http://{}/", gateway.address), OFFERED, USEFUL)?;
    let without = Load::start(format!("http://{}/", bare.address()), OFFERED, USEFUL)?;
    let sums = watch(length, &limiter, [&guarded, &bare], [&with, &without]).await;
    drop((with, without));
    table(&sums);
    gateway.stop(Duration::from_secs(1)).await;
    Ok(())
}

/// One line a second; returns the sums of each phase, with and without.
async fn watch(
    length: Duration,
    limiter: &Limiter,
    services: [&Arc<Service>; 2],
    loads: [&Load; 2],
) -> Vec<[Tally; 2]> {
    println!(
        "{:>4} {:>9} | {:>5} {:>9} {:>7} {:>9} {:>7} | {:>15} {:>7}",
        "s", "capacity", "limit", "in flight", "good/s", "refused/s", "p99 ms", "without: good/s", "p99 ms"
    );
    let mut sums = vec![[Tally::default(), Tally::default()]; PHASES.len()];
    let began = Instant::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.tick().await;
    let seconds = length.as_secs().max(1);
    for second in 0..seconds {
        let phase = (second as usize * PHASES.len() / seconds as usize).min(PHASES.len() - 1);
        for service in services {
            service.set_workers(WORKERS[phase]);
        }
        tick.tick().await;
        let [with, without] = loads.map(Load::take);
        let now = limiter.snapshot();
        println!(
            "{:>4} {:>7}/s | {:>5} {:>9} {:>7} {:>9} {:>7} | {:>15} {:>7}",
            began.elapsed().as_secs(),
            (WORKERS[phase] as f64 / WORK.as_secs_f64()) as u64,
            now.limit,
            now.in_flight,
            with.good,
            with.refused,
            shown_ms(with.p99()),
            without.good,
            shown_ms(without.p99()),
        );
        sums[phase][0].add(with);
        sums[phase][1].add(without);
    }
    sums
}

fn table(sums: &[[Tally; 2]]) {
    println!(
        "\n{:<16} {:<8} {:>9} {:>14} {:>9} {:>9} {:>7}",
        "phase", "", "offered", "within 250 ms", "too late", "refused", "p99 ms"
    );
    for (phase, both) in PHASES.iter().zip(sums) {
        for (name, tally) in ["with", "without"].iter().zip(both) {
            let sent = tally.sent.max(1);
            println!(
                "{phase:<16} {name:<8} {:>9} {:>7} {:>4} % {:>9} {:>9} {:>7}",
                tally.sent,
                tally.good,
                tally.good * 100 / sent,
                tally.late,
                tally.refused,
                shown_ms(tally.p99()),
            );
        }
    }
    println!("\nLatencies are of answered requests; who gave up after a second counts as too late, with a second.");
}

fn shown_ms(latency: Option<Duration>) -> String {
    latency.map_or_else(|| "-".to_owned(), |latency| latency.as_millis().to_string())
}
