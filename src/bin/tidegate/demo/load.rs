//! An open-loop load: requests come when they come, whatever became of the ones before.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::task::JoinHandle;

/// Who waits for longer than this gives up.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Load {
    tally: Arc<Mutex<Tally>>,
    arrivals: JoinHandle<()>,
}

/// What became of requests.
#[derive(Clone, Default)]
pub(super) struct Tally {
    pub(super) sent: u64,
    pub(super) good: u64,
    pub(super) late: u64,
    pub(super) refused: u64,
    latencies: Vec<Duration>,
}

enum End {
    Answered,
    Refused,
    GivenUp,
}

impl Load {
    /// Sends `rate` requests a second, Poisson, until it is dropped.
    pub(super) fn start(url: String, rate: f64, useful: Duration) -> anyhow::Result<Self> {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().context("an HTTP client")?;
        let tally = Arc::<Mutex<Tally>>::default();
        let arrivals = tokio::spawn(arrive(client, url, rate, useful, tally.clone()));
        Ok(Self { tally, arrivals })
    }

    /// What became of requests since the last time.
    pub(super) fn take(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.arrivals.abort();
    }
}

async fn arrive(client: reqwest::Client, url: String, rate: f64, useful: Duration, tally: Arc<Mutex<Tally>>) {
    let mut random = Random::new(42);
    let mut next = tokio::time::Instant::now();
    loop {
        next += Duration::from_secs_f64(random.exponential() / rate);
        tokio::time::sleep_until(next).await;
        let (request, tally) = (client.get(&url).send(), tally.clone());
        // At most the rate times the patience of these at a time.
        tokio::spawn(async move {
            let began = Instant::now();
            let end = match request.await {
                Ok(response) if response.status().is_success() => End::Answered,
                Ok(_) => End::Refused,
                Err(_) => End::GivenUp,
            };
            tally.lock().unwrap_or_else(PoisonError::into_inner).note(&end, began.elapsed(), useful);
        });
    }
}

impl Tally {
    fn note(&mut self, end: &End, took: Duration, useful: Duration) {
        self.sent += 1;
        match end {
            End::Refused => self.refused += 1,
            End::Answered if took <= useful => self.good += 1,
            End::Answered | End::GivenUp => self.late += 1,
        }
        if !matches!(end, End::Refused) {
            self.latencies.push(took);
        }
    }

    pub(super) fn add(&mut self, other: Tally) {
        self.sent += other.sent;
        self.good += other.good;
        self.late += other.late;
        self.refused += other.refused;
        self.latencies.extend(other.latencies);
    }

    pub(super) fn p99(&self) -> Option<Duration> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() * 99 / 100).copied()
    }
}

/// Numbers that look random and are the same in every run (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Exponential, with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11;
        // 53 bits, shifted off zero: the logarithm is finite.
        -((bits as f64 + 0.5) / (1_u64 << 53) as f64).ln()
    }
}
