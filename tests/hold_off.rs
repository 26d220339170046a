//! What a hold-off promises its callers, under a paused clock.
#![expect(clippy::disallowed_methods, reason = "a test's paused clock")]

use std::time::{Duration, SystemTime};

use tidegate::classify::{Classifier, Seen, Verdict, Wait, WaitSource};
use tidegate::{HoldOff, Outcome, RejectReason};
use tokio::time::Instant;

fn hold_off() -> HoldOff {
    HoldOff::builder("partner").cap(Duration::from_secs(60)).build()
}

fn see(hold_off: &HoldOff, status: u16, headers: &[(&str, &str)], text: &str, key: &str) -> Option<Duration> {
    let classifier = Classifier::default();
    hold_off.see(&classifier.judge(Seen::Http(status), headers, text, SystemTime::UNIX_EPOCH), key)
}

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test(start_paused = true)]
async fn one_answer_keeps_every_caller_away_and_no_longer_than_it_asked_plus_the_jitter() {
    let hold_off = hold_off();
    see(&hold_off, 429, &[("retry-after", "2")], "", "acme");
    let began = Instant::now();
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let hold_off = hold_off.clone();
            tokio::spawn(async move {
                hold_off.wait("acme", None).await.expect("it ends");
                Instant::now()
            })
        })
        .collect();
    let mut back = Vec::new();
    for caller in callers {
        back.push(caller.await.expect("no panic").duration_since(began));
    }
    assert!(back.iter().all(|back| *back >= secs(2) && *back <= Duration::from_millis(2500)), "{back:?}");
    back.dedup();
    assert!(back.len() > 5, "they do not come back all at once: {back:?}");
    assert_eq!(hold_off.snapshot().opened(WaitSource::RetryAfter), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_why_and_what_remains() {
    let hold_off = hold_off();
    see(&hold_off, 503, &[("retry-after", "10")], "", "a");
    tokio::time::advance(secs(4)).await;
    let refused = hold_off.check("any key: a 503 is about the destination").expect_err("held");
    assert_eq!((refused.reason, &*refused.limiter), (RejectReason::HoldOff, "partner"));
    assert!(refused.retry_after >= secs(6) && refused.retry_after <= Duration::from_millis(7800), "{refused}");
    assert!(refused.to_string().contains("asked to be left alone") && !refused.to_string().contains("limit 0"));
    assert_eq!(hold_off.snapshot().refused, 1);
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_so_long_is_told_at_once() {
    let hold_off = hold_off();
    see(&hold_off, 429, &[("retry-after", "30")], "", "a");
    let began = Instant::now();
    let refused = hold_off.wait("a", Some((began + secs(10)).into_std())).await.expect_err("too long");
    assert_eq!((refused.reason, began.elapsed()), (RejectReason::HoldOff, Duration::ZERO));
    hold_off.wait("b", Some(began.into_std())).await.expect("another key");
    hold_off.wait("a", Some((began + secs(40)).into_std())).await.expect("long enough");
}

#[tokio::test(start_paused = true)]
async fn a_day_is_cut_to_the_cap_and_then_one_asks_for_all() {
    let hold_off = hold_off();
    let opened = see(&hold_off, 429, &[("retry-after", "86400")], "", "a").expect("opened");
    assert!(opened <= secs(60), "{opened:?}");
    tokio::time::advance(secs(60)).await;
    hold_off.check("a").expect("the probe");
    hold_off.check("a").expect_err("one at a time");
    let waiting = tokio::spawn({
        let hold_off = hold_off.clone();
        async move { hold_off.wait("a", None).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    see(&hold_off, 200, &[], "", "a");
    waiting.await.expect("no panic").expect("free");
    assert_eq!(began.elapsed(), Duration::ZERO, "the probe's good answer lets everybody go at once");
    assert_eq!((hold_off.snapshot().capped, hold_off.snapshot().open), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn what_waiting_does_not_help_opens_nothing() {
    let hold_off = hold_off();
    let quota = r#"{"error":{"code":"insufficient_quota"}}"#;
    assert_eq!(see(&hold_off, 429, &[("retry-after", "30")], quota, "a"), None);
    assert_eq!(see(&hold_off, 429, &[], "", "a"), None, "nothing was asked for");
    assert_eq!(see(&hold_off, 404, &[("retry-after", "30")], "", "a"), None);
    assert_eq!(see(&hold_off, 503, &[("tidegate-rejected", "queue_full"), ("retry-after", "1")], "", "a"), None);
    hold_off.check("a").expect("free");
}

#[tokio::test(start_paused = true)]
async fn a_caller_may_open_one_itself_and_anybody_may_end_it() {
    let hold_off = hold_off();
    let wait = Wait { length: secs(20), source: WaitSource::Caller };
    hold_off.see(&Verdict::of(Outcome::Throttled).with_wait(wait), "a").expect("opened");
    hold_off.open("", wait).expect("opened");
    assert!(hold_off.remaining("b").is_some());
    let waiting = tokio::spawn({
        let hold_off = hold_off.clone();
        async move { hold_off.wait("a", None).await }
    });
    tokio::task::yield_now().await;
    hold_off.clear();
    waiting.await.expect("no panic").expect("free");
    assert_eq!(hold_off.remaining("a"), None);
}
