//! Killed at any moment of a change: the log verifies, what is in force is the old config or the new
//! one, and the log says which.

use std::time::Duration;

use tidegate::audit::verify;
use tidegate::config::content_hash;

use super::daemon::{Place, config};
use super::harness::*;

/// How often; `TIDEGATE_KILLS` says another number.
fn times() -> u32 {
    std::env::var("TIDEGATE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(15)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_moment_leaves_the_old_config_or_the_new_one_and_a_log_that_agrees() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 10, ""));
    let (mut old, mut new, mut torn) = (0, 0, 0);
    let mut daemon = place.start(&[]);
    let mut max = 10;
    for round in 0..times() {
        // Spread over the time that a change takes, disk and all: from before it is asked for on.
        let delay = Duration::from_micros(u64::from(round % 50) * 600);
        let next = if max == 10 { 99 } else { max - 1 };
        let admin = daemon.admin;
        let body = format!("{{\"max\": {next}, \"reason\": \"round {round}\"}}");
        let asked = tokio::spawn(async move {
            let request = format!(
                "PUT /api/v1/limiters/default/bounds HTTP/1.1\r\nhost: a\r\nauthorization: Bearer let-me-in\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            raw(admin, request).await
        });
        tokio::time::sleep(delay).await;
        daemon.kill();
        // The answer, or what is left of one, is of no interest.
        drop(asked.await);
        let found = verify(&place.audit(), None).expect("readable");
        assert_eq!(found.first_broken, None, "round {round}");
        torn += u32::from(found.torn > 0);
        daemon = place.start(&[]);
        let running = u32::try_from(daemon.limiter().await["max"].as_u64().expect("a number")).expect("small");
        assert!(running == max || running == next, "round {round}: {running} is neither {max} nor {next}");
        if running == max {
            old += 1
        } else {
            new += 1
        }
        max = running;
        let hash = daemon.config().await["hash"].clone();
        assert_eq!(hash, content_hash(&std::fs::read(place.file()).expect("there")), "round {round}: the file");
        let last = place.records().pop().expect("a record");
        assert_eq!(last["in_force"], hash, "round {round}: the log");
    }
    let found = verify(&place.audit(), None).expect("readable");
    assert_eq!((found.broken, found.torn), (0, 0));
    println!("{} kills: {old} old, {new} new, {torn} torn lines, {} records", times(), found.lines);
}
