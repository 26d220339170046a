//! A backfill against a quota: 50 workers that would make 1,650 calls a second, and the rate that the
//! other side really allows.
//!
//! ```text
//! cargo run --release --example backfill --features redis,reqwest
//! ```
//!
//! First one process: the quota of 100 calls a second falls to 5 in the middle and comes back. Then four
//! processes that share the rate through a redis-server of their own, which is killed half-way and comes
//! back. The quota counts by the second and answers what is above it with 429. Prints a table.

mod member;
mod quota;

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use quota::Quota;

/// Seconds of each stretch.
const STRETCHES: [u64; 3] = [20, 40, 40];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [url, redis, seconds] = &args[..] {
        let store = redis.parse().ok().filter(|port| *port != 0);
        return member::run(url, store, Duration::from_secs(seconds.parse()?)).await;
    }
    println!("{:<44} {:>6} {:>10} {:>9} {:>9} {:>9}", "", "quota", "calls/s", "passed/s", "429s", "share");
    alone().await?;
    together().await
}

async fn alone() -> Result<(), Box<dyn std::error::Error>> {
    let quota = Quota::start(100).await?;
    let mut member = spawn(&quota, 0, STRETCHES.iter().sum())?;
    for (stretch, (seconds, allowed)) in STRETCHES.into_iter().zip([100, 5, 100]).enumerate() {
        quota.set(allowed);
        // The first second after a change is for finding out.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let what = ["one process", "  the quota falls", "  and comes back"][stretch];
        quota.measure(what, Duration::from_secs(seconds - 1)).await;
    }
    member.wait()?;
    Ok(())
}

async fn together() -> Result<(), Box<dyn std::error::Error>> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut redis = Redis::start(port)?;
    let quota = Quota::start(100).await?;
    let mut members = Vec::new();
    for _ in 0..4 {
        members.push(spawn(&quota, port, 64)?);
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    quota.measure("four processes, shared through Redis", Duration::from_secs(20)).await;
    redis.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    quota.measure("  Redis is killed", Duration::from_secs(15)).await;
    redis = Redis::start(port)?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    quota.measure("  and comes back, empty", Duration::from_secs(20)).await;
    for mut member in members {
        member.wait()?;
    }
    redis.stop();
    Ok(())
}

fn spawn(quota: &Quota, redis: u16, seconds: u64) -> std::io::Result<Child> {
    let args = [quota.url.clone(), redis.to_string(), seconds.to_string()];
    Command::new(std::env::current_exe()?).args(args).spawn()
}

/// Killed when dropped.
struct Redis(Child);

impl Redis {
    fn start(port: u16) -> std::io::Result<Self> {
        let args = ["--bind", "127.0.0.1", "--save", "", "--port"];
        let child = Command::new("redis-server").args(args).arg(port.to_string()).stdout(Stdio::null()).spawn()?;
        Ok(Self(child))
    }

    fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}
