//! A change for a share of the instances, with nothing but the file that everyone gets.

use std::time::Duration;

use super::daemon::{Place, config};
use super::harness::*;

#[tokio::test(flavor = "multi_thread")]
async fn only_instances_in_the_share_take_a_change_also_after_a_restart() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let rollout = |percent: u32| config(&upstream, 30, &format!("[change]\nrollout = {{ percent = {percent} }}\n"));
    let place = Place::new(&config(&upstream, 20, ""));
    let mut daemon = place.start(&["--instance", "gateway-7"]);
    place.write(&rollout(0));
    let now = daemon.until("the pending change", |now| now["pending"]["why"] == "not_in_share").await;
    assert_eq!((&now["ok"], &now["version"]), (&true.into(), &1.into()), "{now}");
    assert_eq!(daemon.limiter().await["max"], 20);
    let record = place.records().pop().expect("a record");
    assert_eq!((&record["result"], &record["changes"][0]["new"]), (&"not_in_share".into(), &"30".into()), "{record}");
    daemon.kill();
    let daemon = place.start(&["--instance", "gateway-7"]);
    assert_eq!(daemon.limiter().await["max"], 20, "what was in force before the restart stays");
    assert_eq!(daemon.config().await["pending"]["why"], "not_in_share");
    place.write(&rollout(100));
    daemon.until_max(30).await;
    let now = daemon.config().await;
    assert_eq!((&now["pending"], &now["instance"]), (&serde_json::Value::Null, &"gateway-7".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_instance_without_a_past_takes_the_file_as_it_is() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 30, "[change]\nrollout = { percent = 0 }\n"));
    let daemon = place.start(&[]);
    assert_eq!(daemon.limiter().await["max"], 30);
}
