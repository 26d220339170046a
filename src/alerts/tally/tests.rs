use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::alerts::{Aggregator, Notice, Settings, State};
use crate::time::Nanos;

fn rejection(reason: RejectReason) -> Rejection {
    Rejection {
        limiter: "payments".into(),
        class: None,
        reason,
        limit: 20,
        in_flight: 20,
        queued: 8,
        retry_after: Duration::from_secs(1),
    }
}

fn drained(tallies: &Tallies) -> BTreeMap<Subject, Seen> {
    let mut all = BTreeMap::new();
    tallies.drain(|subject, seen| drop(all.insert(subject.clone(), seen)));
    all
}

#[test]
fn counts_of_many_threads_arrive_once_and_exactly() {
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    let (mut total, mut peak) = (0, 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| (0..10_000).for_each(|_| tally.rejected(&rejection(RejectReason::QueueFull), None)))
            })
            .collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            total += drained(&tallies).values().map(|seen| seen.count).sum::<u64>();
        }
    });
    for seen in drained(&tallies).values() {
        total += seen.count;
        peak = seen.peak_in_flight;
    }
    assert_eq!(total, 80_000);
    assert!(peak == 20 || peak == 0);
    assert!(drained(&tallies).is_empty());
}

#[test]
fn the_numbers_behind_the_refusals_come_along() {
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    for (limit, in_flight) in [(20, 25), (18, 30), (22, 22)] {
        let refusal = Rejection { limit, in_flight, ..rejection(RejectReason::LimitReached) };
        tally.rejected(&refusal, Some("acme"));
    }
    let seen = drained(&tallies).into_values().next().expect("one");
    assert_eq!((seen.count, seen.peak_in_flight, seen.limit), (3, 30, Some((18, 22))));
    assert_eq!(seen.tenants, [("acme".into(), 1), ("acme".into(), 1), ("acme".into(), 1)]);
}

#[test]
fn a_flood_of_tenants_is_sampled_in_bounded_memory_and_the_heavy_one_stands_out() {
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    let mut aggregator = Aggregator::new(Settings::default());
    for tick in 0..40 {
        for n in 0..10_000 {
            let tenant = if n % 3 == 0 { "heavy".to_owned() } else { format!("t{}", n + tick * 10_000) };
            tally.rejected(&rejection(RejectReason::QueueFull), Some(&tenant));
        }
        assert!(tally.tenants.len() <= SAMPLES);
        tallies.drain(|subject, seen| aggregator.observe(subject, &seen, Nanos(tick)));
    }
    let open = aggregator.tick(Nanos(41));
    assert_eq!((&*open[0].tenants[0].name, open[0].total), ("heavy", 400_000));
    let estimate = open[0].tenants[0].count as f64 / 400_000.0;
    assert!((0.15..0.7).contains(&estimate), "{estimate} where a third is true");
}

#[tokio::test(start_paused = true)]
async fn the_first_event_wakes_and_the_next_ones_do_not_until_it_is_quiet_again() {
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    let wakes = async || tokio::time::timeout(Duration::from_secs(1), tallies.woken()).await.is_ok();
    assert!(!wakes().await);
    tally.rejected(&rejection(RejectReason::QueueFull), None);
    tally.rejected(&rejection(RejectReason::QueueFull), None);
    assert!(wakes().await);
    assert!(!wakes().await);
    tallies.arm(|_| false);
    tally.rejected(&rejection(RejectReason::QueueFull), None);
    assert!(!wakes().await, "it is not quiet");
    tallies.arm(|_| true);
    tally.rejected(&rejection(RejectReason::QueueFull), None);
    assert!(wakes().await);
}

#[test]
fn who_is_held_by_nobody_is_forgotten_after_its_last_counts() {
    let tallies = Tallies::default();
    let tally = tallies.of(&"payments".into(), &"/api".into());
    let same = tallies.of(&"payments".into(), &"/api".into());
    assert!(Arc::ptr_eq(&tally, &same));
    tally.rejected(&rejection(RejectReason::QueueFull), None);
    drop((tally, same));
    assert_eq!(drained(&tallies).len(), 1);
    assert!(lock(&tallies.known).is_empty());
}

#[test]
fn tallies_past_the_bound_share_one() {
    let tallies = Tallies::default();
    let held: Vec<_> = (0..MOST_TALLIES + 5).map(|n| tallies.of(&"l".into(), &n.to_string().into())).collect();
    assert!(Arc::ptr_eq(&held[MOST_TALLIES], &held[MOST_TALLIES + 4]));
    assert_eq!(lock(&tallies.known).len(), MOST_TALLIES);
}

/// Ten minutes, ten million refusals, five routes and three reasons: 15 groups, each with no more
/// than one notice a period, exact totals at the end, all resolved.
#[test]
fn ten_million_refusals_in_ten_minutes_are_fifteen_groups() {
    const TICKS: u64 = 2400;
    let tallies = Tallies::default();
    let routes: Vec<_> = (0..5).map(|n| tallies.of(&"payments".into(), &format!("/r{n}").into())).collect();
    let reasons = [RejectReason::LimitReached, RejectReason::QueueFull, RejectReason::QueueTimeout];
    let refusals = reasons.map(rejection);
    let mut aggregator = Aggregator::new(Settings::default());
    let mut notices: Vec<Notice> = Vec::new();
    let mut sent = 0_u64;
    for tick in 0..TICKS + 1000 {
        let now = Nanos(1_000_000_000 + tick * 250_000_000);
        while tick < TICKS && sent < (tick + 1) * 10_000_000 / TICKS {
            routes[sent as usize % 5].rejected(&refusals[sent as usize / 5 % 3], None);
            sent += 1;
        }
        tallies.drain(|subject, seen| aggregator.observe(subject, &seen, now));
        notices.extend(aggregator.tick(now));
        tallies.arm(|subject| aggregator.is_quiet(subject));
    }
    let mut groups: BTreeMap<Subject, Vec<&Notice>> = BTreeMap::new();
    notices.iter().for_each(|notice| groups.entry(notice.subject.clone()).or_default().push(notice));
    assert_eq!((sent, groups.len()), (10_000_000, 15));
    for told in groups.values() {
        assert_eq!(told[0].at, Nanos(1_000_000_000), "the first at once");
        assert!(told.windows(2).all(|pair| pair[1].at.since(pair[0].at) >= Duration::from_secs(60)));
        assert!(told.len() <= 12, "{}", told.len());
        assert_eq!(told.last().map(|last| last.state), Some(State::Resolved));
        assert_eq!(told.iter().filter(|notice| notice.state == State::Began).count(), 1);
    }
    let totals: u64 = groups.values().map(|told| told.last().map_or(0, |last| last.total)).sum();
    assert_eq!(totals, 10_000_000);
    assert!(aggregator.open().is_empty());
}
