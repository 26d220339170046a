use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::rejection::RejectReason;

const SETTINGS: Settings =
    Settings { period: Duration::from_secs(60), quiet: Duration::from_secs(60), most_groups: 20, tenants: 3 };

fn at(secs: f64) -> Nanos {
    Nanos::from_secs_f64(secs)
}

fn subject(n: usize) -> Subject {
    let route: Arc<str> = format!("/r{n}").into();
    Subject::rejections(&"payments".into(), &route, RejectReason::ALL[n % 3])
}

fn events(count: u64) -> Seen {
    Seen { count, peak_in_flight: 20, limit: Some((18, 20)), ..Seen::default() }
}

/// Ticks four times a second from `from` to `to`, with `count` events of `subject(0)` each time.
fn run(aggregator: &mut Aggregator, from: f64, to: f64, count: u64) -> Vec<Notice> {
    let ticks = (from * 4.0) as u64..(to * 4.0) as u64;
    let one = |tick: u64| {
        let now = at(tick as f64 / 4.0);
        if count > 0 {
            aggregator.observe(&subject(0), &events(count), now);
        }
        aggregator.tick(now)
    };
    ticks.flat_map(one).collect()
}

fn states(notices: &[Notice]) -> Vec<State> {
    notices.iter().map(|notice| notice.state).collect()
}

#[test]
fn the_first_event_is_told_at_once_then_one_summary_a_period_then_the_end() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let mut notices = run(&mut aggregator, 100.0, 300.0, 5);
    assert_eq!((notices[0].state, notices[0].at, notices[0].total), (State::Began, at(100.0), 5));
    notices.extend(run(&mut aggregator, 300.0, 600.0, 0));
    let expected = [State::Began, State::Continues, State::Continues, State::Continues, State::Continues];
    assert_eq!(states(&notices)[..4], expected[..4]);
    let last = notices.last().expect("there are notices");
    assert_eq!((last.state, last.total), (State::Resolved, 200 * 4 * 5));
    assert_eq!((last.first, last.last), (at(100.0), at(299.75)));
    assert_eq!((last.peak_in_flight, last.limit), (20, Some((18, 20))));
    assert_eq!(notices.iter().map(|notice| notice.count).sum::<u64>(), 200 * 4 * 5);
    for pair in notices.windows(2) {
        assert!(pair[1].at.since(pair[0].at) >= SETTINGS.period);
    }
    assert!(aggregator.open().is_empty());
}

#[test]
fn flapping_within_the_quiet_time_is_one_episode() {
    let settings = Settings { period: Duration::from_secs(30), quiet: Duration::from_secs(30), ..SETTINGS };
    let mut aggregator = Aggregator::new(settings);
    let mut notices = Vec::new();
    for cycle in 0..17 {
        let from = f64::from(cycle) * 35.0;
        notices.extend(run(&mut aggregator, from, from + 20.0, 1));
        notices.extend(run(&mut aggregator, from + 20.0, from + 35.0, 0));
    }
    notices.extend(run(&mut aggregator, 595.0, 800.0, 0));
    let of = |state| notices.iter().filter(|notice| notice.state == state).count();
    assert_eq!((of(State::Began), of(State::Resolved)), (1, 1));
    assert_eq!(notices.last().map(|notice| notice.total), Some(17 * 80));
}

#[test]
fn what_comes_back_again_and_again_has_to_be_quiet_for_longer() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let mut began = 0;
    for cycle in 0..60 {
        let from = f64::from(cycle) * 200.0;
        let notices = [run(&mut aggregator, from, from + 10.0, 1), run(&mut aggregator, from + 10.0, from + 200.0, 0)];
        began += notices.iter().flatten().filter(|notice| notice.state == State::Began).count();
    }
    assert_eq!(began, 3, "then it has to be quiet for four minutes, and it never is");
}

#[test]
fn a_state_without_events_keeps_an_alert_open() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let subject = Subject::limiter(Kind::Fallback, &"payments".into());
    let mut notices = Vec::new();
    for second in 0..1000 {
        if second < 500 {
            aggregator.observe(&subject, &Seen { count: u64::from(second == 0), ..Seen::default() }, at(second as f64));
        }
        notices.extend(aggregator.tick(at(second as f64)));
    }
    assert_eq!(states(&notices).iter().filter(|state| **state == State::Resolved).count(), 1);
    assert!(notices.len() > 7 && notices.iter().all(|notice| notice.total == 1), "{notices:?}");
}

#[test]
fn what_finds_no_room_is_counted_together() {
    let mut aggregator = Aggregator::new(SETTINGS);
    for n in 0..500 {
        aggregator.observe(&subject(n), &events(2), at(1.0));
    }
    let notices = aggregator.tick(at(1.0));
    assert_eq!(notices.len(), 21);
    let other = notices.iter().find(|notice| notice.subject.kind == Kind::Other).expect("there is one for the rest");
    assert_eq!(other.total, 480 * 2);
    assert!(other.merged.abs_diff(480) < 50, "{}", other.merged);
    assert_eq!(notices.iter().map(|notice| notice.total).sum::<u64>(), 1000);
}

#[test]
fn a_resolved_group_makes_room_for_a_new_one() {
    let mut aggregator = Aggregator::new(SETTINGS);
    (0..20).for_each(|n| aggregator.observe(&subject(n), &events(1), at(0.0)));
    for second in 0..200 {
        aggregator.tick(at(f64::from(second)));
    }
    aggregator.observe(&subject(99), &events(1), at(200.0));
    let notices = aggregator.tick(at(200.0));
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].subject, subject(99));
}

#[test]
fn a_clock_that_stands_still_tells_the_first_and_loses_no_count() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let mut notices = Vec::new();
    for _ in 0..1000 {
        aggregator.observe(&subject(0), &events(1), at(5.0));
        notices.extend(aggregator.tick(at(5.0)));
    }
    assert_eq!(states(&notices), [State::Began]);
    assert_eq!(aggregator.open()[0].total, 1000);
}

#[test]
fn a_clock_that_jumps_forth_and_back_goes_on_from_there() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let mut notices = run(&mut aggregator, 0.0, 100.0, 1);
    aggregator.observe(&subject(0), &events(1), at(1e6));
    notices.extend(aggregator.tick(at(1e6)));
    notices.extend(run(&mut aggregator, 100.0, 400.0, 1));
    notices.extend(run(&mut aggregator, 400.0, 700.0, 0));
    let of = |state| notices.iter().filter(|notice| notice.state == state).count();
    assert_eq!((of(State::Began), of(State::Resolved)), (1, 1));
    assert_eq!(notices.last().map(|notice| notice.total), Some(400 + 1 + 1200));
}

#[test]
fn the_heaviest_tenants_are_named_in_order() {
    let mut aggregator = Aggregator::new(SETTINGS);
    let tenants = (0..100).map(|n: u64| (format!("t{n}").into(), if n == 42 { 500 } else { n })).collect();
    aggregator.observe(&subject(0), &Seen { tenants, ..events(5000) }, at(0.0));
    let notices = aggregator.tick(at(0.0));
    assert_eq!(notices[0].tenants.len(), 3);
    assert_eq!(&*notices[0].tenants[0].name, "t42");
}

#[derive(Clone, Debug)]
enum Step {
    See { subject: usize, count: u64 },
    Tick,
    Wait { ms: u64 },
    Back { ms: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_usize..40, 0_u64..1000).prop_map(|(subject, count)| Step::See { subject, count }),
        4 => Just(Step::Tick),
        4 => (0_u64..90_000).prop_map(|ms| Step::Wait { ms }),
        1 => (0_u64..200_000).prop_map(|ms| Step::Back { ms }),
    ]
}

proptest! {
    #[test]
    fn whatever_happens_counts_are_exact_groups_bounded_and_notices_a_period_apart(
        steps in prop::collection::vec(step(), 1..300),
    ) {
        let mut aggregator = Aggregator::new(SETTINGS);
        let (mut now, mut put_in, mut said) = (Nanos(0), 0, 0);
        let mut last: BTreeMap<Subject, Notice> = BTreeMap::new();
        let mut sequence = 0;
        for step in steps.into_iter().chain([Step::Tick]) {
            match step {
                Step::Wait { ms } => now = now + Duration::from_millis(ms),
                Step::Back { ms } => now = now - Duration::from_millis(ms),
                Step::See { subject: n, count } => {
                    put_in += count;
                    aggregator.observe(&subject(n), &events(count), now);
                }
                Step::Tick => for notice in aggregator.tick(now) {
                    said += notice.count;
                    prop_assert_eq!(notice.sequence, sequence + 1);
                    sequence = notice.sequence;
                    prop_assert!(notice.first <= notice.last && notice.last <= notice.at);
                    let before = last.insert(notice.subject.clone(), notice.clone());
                    match (notice.state, before) {
                        (State::Began, before) => {
                            prop_assert!(before.is_none_or(|before| before.state == State::Resolved));
                        }
                        (_, None) => prop_assert!(false, "it never began"),
                        (_, Some(before)) => {
                            prop_assert!(before.state != State::Resolved && before.episode == notice.episode);
                            prop_assert!(notice.at.since(before.at) >= SETTINGS.period);
                            prop_assert_eq!(notice.total, before.total + notice.count);
                        }
                    }
                },
            }
            prop_assert!(aggregator.groups.len() <= SETTINGS.most_groups);
        }
        let unsaid: u64 = aggregator.open().iter().map(|notice| notice.count).sum();
        prop_assert_eq!(put_in, said + unsaid);
    }
}
