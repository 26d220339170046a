use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate::RejectReason;
use tidegate::alerts::{Alerts, Form, Kind, Receiver, Secret, Settings, Subject, Webhook};

use super::receiver::{Answer, Hook, alerts, rejection, webhook};

const REASONS: [RejectReason; 3] = [RejectReason::LimitReached, RejectReason::QueueFull, RejectReason::QueueTimeout];

/// Refusals over five routes and three reasons, `each` a quarter of a second, for so long.
async fn outage(alerts: &Alerts, quarters: u64, each: u64) -> u64 {
    let tallies: Vec<_> = (0..5).map(|n| alerts.tally(&"payments".into(), &format!("/r{n}").into())).collect();
    let refusals = REASONS.map(rejection);
    let mut sent = 0_usize;
    for _ in 0..quarters {
        for _ in 0..each {
            tallies[sent % 5].rejected(&refusals[sent / 5 % 3], Some("acme"));
            sent += 1;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    sent as u64
}

fn quiet_for(seconds: u64) -> impl Future<Output = ()> {
    tokio::time::sleep(Duration::from_secs(seconds))
}

/// What each group said, in order.
fn by_key(messages: &[Value]) -> BTreeMap<String, Vec<Value>> {
    let mut groups: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for alert in messages.iter().flat_map(|message| message["alerts"].as_array().expect("a list")) {
        groups.entry(alert["key"].as_str().expect("a key").into()).or_default().push(alert.clone());
    }
    groups
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_and_ten_million_refusals_are_fifteen_groups_with_exact_totals_all_resolved() {
    let answers = [Answer::Status(500), Answer::Hang, Answer::Throttle { retry_after: 30 }, Answer::Status(503)];
    let (hook, url) = Hook::start(answers).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    let sent = outage(&alerts, 2400, 4170).await;
    assert!(sent >= 10_000_000);
    assert_eq!(alerts.status().firing[Kind::Rejections.index()], 15);
    quiet_for(300).await;
    let messages = hook.taken();
    let groups = by_key(&messages);
    assert_eq!(groups.len(), 15, "{:?}", groups.keys());
    let mut total = 0;
    for (key, told) in &groups {
        assert!(told.len() <= 13, "{key}: {}", told.len());
        let last = told.last().expect("told at least once");
        assert_eq!(last["state"], "resolved", "{key}");
        let counts: u64 = told.iter().map(|alert| alert["count"].as_u64().expect("a number")).sum();
        assert_eq!(last["total"], counts, "{key}: what was told adds up");
        assert_eq!(last["tenants"][0]["tenant"], "acme");
        total += counts;
    }
    assert_eq!(total, sent);
    assert_eq!(alerts.status().firing, [0; Kind::ALL.len()]);
    let status = &alerts.status().receivers[0];
    assert_eq!((status.failed, status.dropped, status.waiting), (4, 0, 0));
    assert_eq!(status.delivered, messages.len() as u64);
    assert!(messages.len() <= 13, "{} messages, each for many groups", messages.len());
    assert_eq!((&messages[0]["catch_up"], &messages[1]["catch_up"]), (&true.into(), &false.into()));
}

#[tokio::test(start_paused = true)]
async fn a_throttled_webhook_gets_nothing_before_the_time_and_then_all_in_one() {
    let (hook, url) = Hook::start([Answer::Throttle { retry_after: 30 }]).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    outage(&alerts, 1, 1).await;
    quiet_for(2).await;
    for n in 0..10 {
        alerts.raise(&Subject::limiter(Kind::GuardReverted, &format!("limiter-{n}").into()), "p99 rose");
        quiet_for(1).await;
    }
    quiet_for(30).await;
    let received = hook.received.lock().expect("no panic");
    assert_eq!(received.len(), 2);
    let waited = received[1].at - received[0].at;
    assert!(waited >= Duration::from_secs(30), "{waited:?}");
    let message = received[1].json();
    assert_eq!(message["alerts"].as_array().map(Vec::len), Some(11));
    assert_eq!(message["dropped"], 0);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_receiver_ends_in_one_catch_up() {
    let (hook, url) = Hook::start([Answer::Status(502); 40]).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    let sent = outage(&alerts, 4 * 7200, 1).await;
    quiet_for(1200).await;
    let messages = hook.taken();
    let first = &messages[0];
    assert_eq!(first["catch_up"], true);
    assert_eq!(first["alerts"].as_array().map(Vec::len), Some(15));
    let told: u64 = by_key(&messages).values().flatten().map(|alert| alert["count"].as_u64().expect("a number")).sum();
    assert_eq!(told, sent);
}

#[tokio::test(start_paused = true)]
async fn a_body_is_bounded_and_says_what_it_left_out() {
    let (hook, url) = Hook::start([]).await;
    let small = Webhook { most_bytes: 4096, ..webhook(&url) };
    let settings = Settings { most_groups: 500, ..Settings::default() };
    let alerts = alerts(Receiver::Webhook(small), settings);
    tokio::spawn(alerts.clone().run(Vec::new));
    for n in 0..500_u64 {
        let tally = alerts.tally(&"payments".into(), &format!("/r{n}").into());
        (0..=n).for_each(|_| tally.rejected(&rejection(RejectReason::QueueFull), None));
    }
    quiet_for(2).await;
    let message = &hook.taken()[0];
    let received = hook.received.lock().expect("no panic");
    assert!(received[0].body.len() <= 4096, "{}", received[0].body.len());
    let told = message["alerts"].as_array().expect("a list");
    assert!(!told.is_empty());
    assert_eq!(told[0]["route"], "/r499", "most events first");
    assert_eq!(message["more"]["alerts"], 500 - told.len());
    let counted: u64 = told.iter().map(|alert| alert["count"].as_u64().expect("a number")).sum();
    assert_eq!(message["more"]["count"], 500 * 501 / 2 - counted);
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_is_sent_once_more_as_a_summary() {
    let limits = [Answer::LargerThan { bytes: 1500 }, Answer::LargerThan { bytes: 1500 }];
    let (hook, url) = Hook::start(limits).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    let sent = outage(&alerts, 1, 150).await;
    quiet_for(1).await;
    assert_eq!(hook.received.lock().expect("no panic").len(), 2);
    let message = &hook.taken()[0];
    assert_eq!((message["more"]["alerts"].as_u64(), message["more"]["count"].as_u64()), (Some(15), Some(sent)));
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_in_every_form_is_dropped_and_counted() {
    let (hook, url) = Hook::start([Answer::Status(400), Answer::Status(400)]).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    outage(&alerts, 1, 15).await;
    quiet_for(3).await;
    assert_eq!(alerts.status().receivers[0].dropped, 15);
    alerts.raise(&Subject::process(Kind::GuardReverted), "p99 rose");
    quiet_for(3).await;
    assert_eq!(hook.taken()[0]["dropped"], 15);
}

#[tokio::test(start_paused = true)]
async fn a_chat_gets_a_text_and_a_secret_signs_it() {
    let (hook, url) = Hook::start([]).await;
    let dir = std::env::temp_dir().join(format!("tidegate-alerts-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    std::fs::write(dir.join("url"), format!("{url}\n")).expect("written");
    let chat = Webhook {
        url: Secret::File(dir.join("url")),
        form: Form::Chat,
        secret: Some(Secret::Text("key".into())),
        ..webhook("")
    };
    let alerts = alerts(Receiver::Webhook(chat), Settings::default());
    tokio::spawn(alerts.clone().run(Vec::new));
    outage(&alerts, 1, 1).await;
    quiet_for(2).await;
    std::fs::remove_dir_all(dir).expect("removed");
    let received = hook.received.lock().expect("no panic");
    let text = received[0].json()["text"].as_str().expect("a text").to_owned();
    for part in ["gw-1", "[began]", "payments: requests refused (limit_reached on /r0)", "acme"] {
        assert!(text.contains(part), "{part} missing in {text}");
    }
    let signature = received[0].headers["x-tidegate-signature"].to_str().expect("text");
    let (seconds, hex) = signature.split_once(",v1=").expect("two parts");
    let seconds: u64 = seconds.strip_prefix("t=").and_then(|s| s.parse().ok()).expect("a number");
    assert_eq!(hex, hmac_sha256("key", &format!("{seconds}.{}", received[0].body)));
}

/// HMAC as RFC 2104 writes it, for keys shorter than a block.
fn hmac_sha256(key: &str, text: &str) -> String {
    use sha2::{Digest, Sha256};
    let pad = |with: u8| {
        let mut block = [with; 64];
        key.bytes().enumerate().for_each(|(i, byte)| block[i] ^= byte);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(start_paused = true)]
async fn what_waits_when_the_process_ends_gets_one_more_chance() {
    let (hook, url) = Hook::start([]).await;
    let alerts = alerts(Receiver::Webhook(webhook(&url)), Settings::default());
    outage(&alerts, 1, 1).await;
    alerts.flush(Vec::new, Duration::from_secs(2)).await;
    assert_eq!(hook.taken().len(), 1);
    let (hung, url) = Hook::start([Answer::Hang]).await;
    alerts.set(Settings::default(), true, vec![("test".into(), Receiver::Webhook(webhook(&url)))]);
    let before = tokio::time::Instant::now();
    alerts.flush(Vec::new, Duration::from_secs(2)).await;
    assert!(before.elapsed() <= Duration::from_secs(3) && hung.taken().is_empty());
}
