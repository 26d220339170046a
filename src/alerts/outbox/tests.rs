use std::sync::Arc;

use super::*;
use crate::alerts::notice::Seen;
use crate::alerts::{Aggregator, Settings};
use crate::rejection::RejectReason;

fn at(secs: f64) -> Nanos {
    Nanos::from_secs_f64(secs)
}

fn subject(n: usize) -> Subject {
    let route: Arc<str> = format!("/r{n}").into();
    Subject::rejections(&"payments".into(), &route, RejectReason::QueueFull)
}

/// What a busy subject tells from `from` on, for so many periods of a minute; and then its end.
fn story(n: usize, periods: u64) -> Vec<Notice> {
    let mut aggregator = Aggregator::new(Settings::default());
    let mut notices = Vec::new();
    for second in 0..(periods + 4) * 60 {
        if second < periods * 60 {
            aggregator.observe(&subject(n), &Seen { count: 10, ..Seen::default() }, at(second as f64));
        }
        notices.extend(aggregator.tick(at(second as f64)));
    }
    notices
}

#[test]
fn what_is_there_together_goes_together_after_a_moment() {
    let mut outbox = Outbox::new(100);
    assert_eq!(outbox.due_at(), None);
    outbox.put(story(1, 1)[0].clone(), at(1.0));
    outbox.put(story(2, 1)[0].clone(), at(1.1));
    assert_eq!(outbox.take(at(1.1)), None);
    let batch = outbox.take(at(1.2)).expect("it is time");
    assert_eq!((batch.notices.len(), batch.catch_up), (2, false));
    outbox.delivered();
    assert_eq!(outbox.due_at(), None);
}

#[test]
fn an_outage_of_the_receiver_ends_in_one_message_with_the_exact_count() {
    let mut outbox = Outbox::new(100);
    let (story, mut attempts) = (story(1, 120), 0);
    for notice in &story {
        let now = notice.at + Duration::from_secs(1);
        outbox.put(notice.clone(), notice.at);
        if let Some(batch) = outbox.take(now) {
            attempts += 1;
            outbox.failed(batch, now, None, 0.5);
        }
        assert_eq!(outbox.waiting(), 1);
    }
    assert!(attempts > 10);
    let batch = outbox.take(at(1e6)).expect("it is time");
    assert!(batch.catch_up);
    let only = &batch.notices[0];
    assert_eq!((only.state, only.total, only.count), (State::Resolved, 120 * 600, 120 * 600));
    assert_eq!((only.first, only.last), (at(0.0), at(7199.0)));
}

#[test]
fn nothing_is_sent_before_the_receiver_wants_it_and_all_is_merged_then() {
    let mut outbox = Outbox::new(100);
    outbox.put(story(0, 1)[0].clone(), at(0.0));
    let batch = outbox.take(at(0.5)).expect("it is time");
    outbox.failed(batch, at(0.5), Some(Duration::from_secs(30)), 0.0);
    for n in 1..10 {
        outbox.put(story(n, 1)[0].clone(), at(n as f64));
        assert_eq!(outbox.take(at(n as f64 + 0.9)), None);
    }
    assert_eq!(outbox.take(at(30.49)), None);
    let batch = outbox.take(at(30.5)).expect("it is time");
    assert_eq!(batch.notices.len(), 10);
}

#[test]
fn several_episodes_that_nobody_heard_of_add_up() {
    let mut outbox = Outbox::new(100);
    let mut again = story(1, 2);
    for notice in story(1, 1) {
        outbox.put(notice, at(0.0));
    }
    again.iter_mut().for_each(|notice| notice.episode = 2);
    again.into_iter().for_each(|notice| outbox.put(notice, at(0.0)));
    let batch = outbox.take(at(1.0)).expect("it is time");
    assert_eq!((batch.notices[0].total, batch.notices[0].episode), (600 + 1200, 2));
}

#[test]
fn beyond_the_bound_the_least_is_dropped_and_counted_and_the_next_message_says_so() {
    let mut outbox = Outbox::new(3);
    for n in 0..10 {
        outbox.put(Notice { count: n as u64, ..story(n, 1)[0].clone() }, at(0.0));
    }
    assert_eq!((outbox.waiting(), outbox.dropped()), (3, 7));
    let batch = outbox.take(at(1.0)).expect("it is time");
    assert_eq!(batch.dropped, 7);
    assert_eq!(batch.notices.iter().map(|notice| notice.count).min(), Some(7));
    outbox.failed(batch, at(1.0), None, 0.0);
    let batch = outbox.take(at(100.0)).expect("it is time");
    assert_eq!(batch.dropped, 7, "it was not heard yet");
    outbox.refused(&batch, at(100.0), 0.0);
    assert_eq!((outbox.waiting(), outbox.dropped()), (0, 10));
}
