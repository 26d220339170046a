//! Shared ceilings against a real redis-server: what all have together, and every way to lose the store.
#![allow(clippy::disallowed_methods, reason = "tests measure")]

#[path = "ceilings_shared/losses.rs"]
mod losses;
#[path = "ceilings_shared/sharing.rs"]
mod sharing;
#[path = "ceilings_shared/store.rs"]
mod store;

use std::time::Duration;

use tidegate::ceiling::{Ceiling, CeilingSnapshot, RedisStore, RedisStoreBuilder, Sharing};
use tokio::task::JoinHandle;

/// A ceiling and its driver's task.
struct Member {
    ceiling: Ceiling,
    driver: JoinHandle<()>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Member {
    /// 1,000 a second and 100 at once.
    fn join(store: RedisStoreBuilder) -> Self {
        Self::join_with(store, Sharing::new().members(8))
    }

    fn join_with(store: RedisStoreBuilder, sharing: Sharing) -> Self {
        let store = store.build("partner").unwrap();
        let builder = Ceiling::builder("partner").rate(1000.0).burst(100).bounds(10.0, 1000.0);
        let (ceiling, driver) = builder.build_shared(store, sharing).unwrap();
        Self { ceiling, driver: tokio::spawn(driver.run()) }
    }

    /// Waits until the snapshot is as it should be; panics with the last one when it never is.
    async fn until(&self, what: &str, is_so: impl Fn(&CeilingSnapshot) -> bool) {
        for _ in 0..3000 {
            if is_so(&self.ceiling.snapshot()) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("never {what}: {:?}", self.ceiling.snapshot());
    }

    async fn is_shared(&self) {
        self.until("shared", |now| now.source == tidegate::ceiling::Source::Shared).await;
    }
}

fn at(port: u16) -> RedisStoreBuilder {
    RedisStore::builder(format!("redis://127.0.0.1:{port}"))
}
