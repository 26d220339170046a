//! Bounds set over the admin port: in the file itself, by name, never over somebody else's change.

use std::time::Duration;

use super::daemon::{Place, config};
use super::harness::*;

async fn started() -> (Upstream, Place, super::daemon::Daemon) {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    (upstream, place, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn new_bounds_stand_in_the_file_with_its_comments_and_in_the_log_with_a_name() {
    let (_upstream, place, daemon) = started().await;
    let before = std::fs::read_to_string(place.file()).expect("there");
    let answer = daemon.set("{\"max\": 60, \"reason\": \"more room\"}").await;
    assert_eq!((answer.status(), &answer.json()["result"]), (200, &"applied".into()), "{}", answer.text);
    let now = daemon.limiter().await;
    assert_eq!((&now["min"], &now["max"]), (&1.into(), &60.into()));
    let after = std::fs::read_to_string(place.file()).expect("there");
    assert_eq!(
        after,
        before.replace("max = 20 # agreed", "max = 60 # agreed") + "\n[change]\nreason = \"more room\"\n"
    );
    let record = place.records().pop().expect("a record");
    assert_eq!((&record["actor"], &record["reason"]), (&"token:alice".into(), &"more room".into()), "{record}");
    let changes = serde_json::json!([{ "key": "limiters.default.max", "old": "20", "new": "60" }]);
    assert_eq!(record["changes"], changes);
    // The watch sees the file too, and has nothing to do.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!((&daemon.config().await["version"], place.records().len()), (&2.into(), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_change_is_not_overwritten() {
    let (upstream, place, daemon) = started().await;
    let seen = daemon.config().await["hash"].as_str().expect("a hash").to_owned();
    place.write(&config(&upstream, 30, ""));
    daemon.until_max(30).await;
    let answer = daemon.set(&format!("{{\"max\": 60, \"if_hash\": \"{seen}\"}}")).await;
    assert_eq!(answer.status(), 409, "{}", answer.text);
    assert!(answer.json()["error"].as_str().expect("why").contains("changed by someone else"));
    place.write("not a config");
    let answer = daemon.set("{\"max\": 60}").await;
    assert_eq!(answer.status(), 409, "{}", answer.text);
    assert_eq!(std::fs::read_to_string(place.file()).expect("there"), "not a config");
    assert_eq!(daemon.limiter().await["max"], 30);
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_bounds_change_nothing_and_are_recorded() {
    let (_upstream, place, daemon) = started().await;
    let before = std::fs::read_to_string(place.file()).expect("there");
    let answer = daemon.set("{\"min\": 50}").await;
    assert_eq!(answer.status(), 422, "{}", answer.text);
    let violation = &answer.json()["violations"][0];
    assert_eq!(violation["key"], "limiters.default.max", "{violation}");
    assert_eq!(std::fs::read_to_string(place.file()).expect("there"), before);
    assert_eq!(place.results().pop().expect("a record"), ("refused".into(), "token:alice".into()));
    assert_eq!(daemon.config().await["ok"], true, "the file is as good as before");
    for (body, status) in [("{\"maxx\": 3}", 400), ("{", 400), ("{\"max\": -1}", 400)] {
        assert_eq!(daemon.set(body).await.status(), status, "{body}");
    }
    let nobody = daemon.ask("PUT", "/api/v1/limiters/other/bounds", "let-me-in", "{\"max\": 3}").await;
    assert_eq!(nobody.status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_token_nothing_is_written_and_guessing_is_slow() {
    let (_upstream, place, daemon) = started().await;
    let mut statuses = Vec::new();
    for token in ["", "let-me", "let-me-in!", "alice", "alice: let-me-in"] {
        let answer = daemon.ask("PUT", "/api/v1/limiters/default/bounds", token, "{\"max\": 3}").await;
        statuses.push(answer.status());
    }
    assert_eq!(statuses, [403; 5]);
    let mut slowed = false;
    for _ in 0..30 {
        let answer = daemon.ask("POST", "/api/v1/reload", "guess", "").await;
        slowed |= answer.status() == 429 && answer.header("retry-after").is_some();
    }
    assert!(slowed);
    assert_eq!((daemon.limiter().await["max"].clone(), place.records().len()), (20.into(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_sets_checks_and_restores() {
    let (upstream, place, daemon) = started().await;
    let url = format!("http://{}", daemon.admin);
    let (good, said) = place.tool(&["set", "default", "min=4", "max=60", "--reason", "sale", "--against", &url]);
    assert!(good && said.starts_with("applied; config "), "{said}");
    assert_eq!(place.results().pop().expect("a record"), ("applied".into(), "token:bob".into()));
    let first = place.records()[0]["in_force"].as_str().expect("a hash").to_owned();
    std::fs::write(place.dir.path().join("other.toml"), place.fill(&config(&upstream, 5, ""))).expect("writable");
    let (good, said) = place.tool(&["check", "other.toml", "--against", &url]);
    assert!(good && said.contains("limiters.default.max: 60 -> 5"), "{said}");
    assert!(said.contains("now: limiter default: its limit falls from 20 to 5 at once"), "{said}");
    let (good, said) = place.tool(&["audit", "restore", &first[..10], "--against", &url, "--reason", "sale is over"]);
    assert!(good, "{said}");
    daemon.until_max(20).await;
    let record = place.records().pop().expect("a record");
    assert_eq!((&record["result"], &record["reason"]), (&"restored".into(), &"sale is over".into()), "{record}");
    let (good, said) = place.tool(&["set", "default", "max=31", "--config", "tidegate.toml"]);
    assert!(good, "{said}");
    daemon.until_max(31).await;
    let (good, said) = place.tool(&["audit", "verify", "--config", "tidegate.toml"]);
    assert!(good && said.starts_with("whole: 4 records from 1"), "{said}");
    let (good, said) = place.tool(&["audit", "show", "--dir", "audit", "--limiter", "default", "--since", "1h"]);
    assert!(good && said.contains("reason: sale\n") && said.contains("limiters.default.max: 20 -> 31"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_that_what_is_in_flight_is_above_the_new_maximum() {
    let upstream = Upstream::slow(Duration::from_secs(600)).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    let address = daemon.address;
    let held: Vec<_> = (0..8).map(|_| tokio::spawn(get(address, "/"))).collect();
    upstream.inside.until("eight", |inside| inside.now() == 8).await;
    let answer = daemon.ask("POST", "/api/v1/check", "", &place.fill(&config(&upstream, 5, ""))).await.json();
    let effects = answer["effects"].to_string();
    assert!(
        effects.contains("is at 8 in flight, the new maximum is 5: newcomers are refused until it drains"),
        "{answer}"
    );
    // And so it is.
    place.write(&config(&upstream, 5, ""));
    daemon.until_max(5).await;
    assert_eq!(get(address, "/").await.status(), 503);
    assert_eq!(daemon.limiter().await["in_flight"], 8);
    held.iter().for_each(|held| held.abort());
}
