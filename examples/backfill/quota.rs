//! The other side: so many calls in each second, 30 ms each, 429 for what is above.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

pub(crate) struct Quota {
    pub(crate) url: String,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    allowed: AtomicU64,
    left: AtomicU64,
    passed: AtomicU64,
    refused: AtomicU64,
}

impl Quota {
    pub(crate) async fn start(allowed: u64) -> std::io::Result<Self> {
        let counts = Arc::new(Counts::default());
        counts.allowed.store(allowed, Ordering::Relaxed);
        let by_the_second = counts.clone();
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                by_the_second.left.store(by_the_second.allowed.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/", listener.local_addr()?);
        let serving = counts.clone();
        let call = move || {
            let left = serving.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            let (count, status) = match left {
                Ok(_) => (&serving.passed, StatusCode::OK),
                Err(_) => (&serving.refused, StatusCode::TOO_MANY_REQUESTS),
            };
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(Duration::from_millis(30)).await;
                status
            }
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().route("/", get(call))).await });
        Ok(Self { url, counts })
    }

    /// From the next second on; what is left of this one is cut to it.
    pub(crate) fn set(&self, allowed: u64) {
        self.counts.allowed.store(allowed, Ordering::Relaxed);
        self.counts.left.fetch_min(allowed, Ordering::Relaxed);
    }

    /// Counts for a while and prints a line of the table.
    pub(crate) async fn measure(&self, what: &str, span: Duration) {
        let read = || (self.counts.passed.load(Ordering::Relaxed), self.counts.refused.load(Ordering::Relaxed));
        let before = read();
        tokio::time::sleep(span).await;
        let (passed, refused) = (read().0 - before.0, read().1 - before.1);
        let calls = passed + refused;
        println!(
            "{what:<44} {:>6} {:>10.1} {:>9.1} {refused:>9} {:>8.2}%",
            self.counts.allowed.load(Ordering::Relaxed),
            calls as f64 / span.as_secs_f64(),
            passed as f64 / span.as_secs_f64(),
            100.0 * refused as f64 / calls.max(1) as f64,
        );
    }
}
