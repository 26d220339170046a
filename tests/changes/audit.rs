//! What cannot be recorded is not applied, or is, as the config says; traffic goes on in any case.

use std::time::Duration;

use super::daemon::{Place, config};
use super::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_log_refuses_changes_and_never_stops_traffic() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    std::fs::remove_dir_all(place.audit()).expect("there");
    std::fs::write(place.audit(), "in the way").expect("writable");
    place.write(&config(&upstream, 30, ""));
    let refused = daemon.until("the refusal", |now| now["ok"] == false).await;
    assert!(refused["error"].as_str().expect("why").contains("cannot be recorded"), "{refused}");
    assert_eq!(daemon.limiter().await["max"], 20);
    assert_eq!(get(daemon.address, "/").await.status(), 200);
    let metrics = get(daemon.admin, "/metrics").await.text;
    assert!(metrics.lines().any(|line| line == "tidegate_audit_ok 0"), "{metrics}");
    let set = daemon.set("{\"max\": 40}").await;
    assert_eq!(set.status(), 409, "the file is not in force: {}", set.text);
    std::fs::remove_file(place.audit()).expect("there");
    daemon.until_max(30).await;
    let results: Vec<_> = place.results().into_iter().filter(|(_, actor)| *actor == owner()).collect();
    assert_eq!(results, ["refused", "applied"].map(|result| (result.to_owned(), owner())));
    let owed = &place.records()[0]["note"];
    assert!(owed.as_str().expect("why").contains("recorded later"), "{owed}");
    assert!(get(daemon.admin, "/metrics").await.text.lines().any(|line| line == "tidegate_audit_ok 1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_log_refuses_what_is_asked_for_and_puts_the_file_back() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    let before = std::fs::read(place.file()).expect("there");
    std::fs::remove_dir_all(place.audit()).expect("there");
    std::fs::write(place.audit(), "in the way").expect("writable");
    let set = daemon.set("{\"max\": 40}").await;
    assert_eq!(set.status(), 503, "{}", set.text);
    assert_eq!(std::fs::read(place.file()).expect("there"), before);
    assert_eq!(daemon.limiter().await["max"], 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn unrecorded_changes_are_applied_where_the_config_says_so() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let lax = |max| config(&upstream, max, "").replace("[audit]\n", "[audit]\non_failure = \"apply\"\n");
    let place = Place::new(&lax(20));
    let daemon = place.start(&[]);
    std::fs::remove_dir_all(place.audit()).expect("there");
    std::fs::write(place.audit(), "in the way").expect("writable");
    place.write(&lax(30));
    daemon.until_max(30).await;
    assert!(daemon.log().contains("the audit log cannot be written"), "{}", daemon.log());
    std::fs::remove_file(place.audit()).expect("there");
    daemon.until("a log again", |now| now["audit"]["error"].is_null()).await;
    assert_eq!(place.results(), [("applied".to_owned(), owner())], "what was owed is recorded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_gateway_with_the_same_log_runs_and_records_its_start_when_the_first_is_gone() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let mut first = place.start(&[]);
    let second = place.start(&[]);
    assert_eq!(get(second.address, "/").await.status(), 200);
    let now = second.config().await;
    assert!(now["audit"]["error"].as_str().expect("why").contains("another process"), "{now}");
    assert_eq!(place.records().len(), 1);
    first.kill();
    second.until("the log", |now| now["audit"]["error"].is_null()).await;
    assert_eq!(place.records().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_recorded_once_with_what_is_wrong() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    place.write(&config(&upstream, 20, "mode = \"sahdow\"\n"));
    daemon.until("the refusal", |now| now["ok"] == false).await;
    // Long enough for two more looks at the same file.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let records = place.records();
    assert_eq!(records.len(), 2, "{records:?}");
    assert!(records[1]["note"].as_str().expect("why").contains("did you mean \"shadow\"?"), "{}", records[1]);
    assert_eq!(records[1]["in_force"], records[0]["in_force"]);
}

fn owner() -> String {
    // Files that this test writes belong to whoever runs it.
    let dir = tempfile::tempdir().expect("a directory");
    format!("file:{}", tidegate::audit::owner_of(dir.path()).expect("an owner"))
}
