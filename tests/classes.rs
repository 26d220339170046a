//! Classes and tenants through the limiter's public face.

#![allow(clippy::disallowed_methods, reason = "tests may read the clock")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::law::Fixed;
use tidegate::{Admit, Class, Lend, Limiter, Order, Outcome, Permit, RejectReason, Share, Tenants};
use tokio::task::JoinHandle;
use tokio::time::{advance, sleep};

const MS: Duration = Duration::from_millis(1);

fn fixed(limit: u32, classes: impl IntoIterator<Item = Class>) -> Limiter {
    let builder = Limiter::builder("test").bounds(1, 1000).initial(limit).law(Box::new(Fixed));
    let builder = builder.waiting_room(100, 10_000 * MS);
    classes.into_iter().fold(builder, |builder, class| builder.class(class)).build().expect("valid")
}

fn fill(limiter: &Limiter, class: &str) -> Vec<Permit> {
    std::iter::from_fn(|| limiter.try_acquire_with(&Admit::new().class(class)).ok()).collect()
}

/// Waits for a place in the background and notes its name when it gets one.
fn waiter(limiter: &Limiter, class: &'static str, tenant: &'static str, order: &Served, name: u32) -> JoinHandle<()> {
    let (limiter, order) = (limiter.clone(), Arc::clone(order));
    tokio::spawn(async move {
        let admit = Admit::new().class(class).tenant(tenant);
        match limiter.acquire(admit).await {
            Ok(permit) => {
                order.lock().expect("no panic").push(i64::from(name));
                sleep(MS).await;
                permit.finish(Outcome::Success);
            }
            Err(_) => {
                order.lock().expect("no panic").push(-i64::from(name));
            }
        }
    })
}

type Served = Arc<Mutex<Vec<i64>>>;

#[test]
fn heavy_requests_do_not_push_out_light_ones() {
    let limiter = fixed(10, [Class::new("query").reserve(Share::Fraction(0.3)), Class::new("generate")]);
    let generations = fill(&limiter, "generate");
    assert_eq!(generations.len(), 7);
    let refused = limiter.try_acquire_with(&Admit::new().class("generate")).expect_err("the rest is reserved");
    assert_eq!((refused.reason, refused.class.as_deref()), (RejectReason::LimitReached, Some("generate")));
    assert_eq!(fill(&limiter, "query").len(), 3);
}

#[test]
fn the_snapshot_tells_who_has_what() {
    let lending = Class::new("lends").reserve(Share::Units(4)).lend(Lend::Allowed).priority(200);
    let limiter =
        fixed(10, [lending, Class::new("capped").cap(Share::Units(2)), Class::new("keeps").reserve(Share::Units(1))]);
    let _capped = fill(&limiter, "capped");
    let others = fill(&limiter, "nobody knows it");
    assert_eq!(others.len(), 7);
    let now = limiter.snapshot();
    let class = |name: &str| now.classes.iter().find(|class| *class.name == *name).expect("a class");
    assert_eq!(now.classes.len(), 4, "the default one too");
    assert_eq!((now.in_flight, class("default").in_flight, class("capped").in_flight), (9, 7, 2));
    let lends = class("lends");
    assert_eq!((lends.reserve, lends.held, lends.lent, lends.priority), (4, 0, 4, 200));
    assert_eq!((class("keeps").held, class("keeps").lent), (1, 0));
    assert_eq!(class("default").borrowed + class("capped").borrowed, 3, "in whole units, rounded down");
    assert_eq!(class("capped").cap, Some(2));
    assert_eq!(class("capped").rejected(RejectReason::ClassCap), 1);
    assert_eq!(class("default").rejected(RejectReason::LimitReached), 1);
    assert_eq!(now.rejected(RejectReason::ClassCap), 1);
}

#[test]
fn classes_change_while_permits_are_out() {
    let limiter = fixed(4, []);
    let unclassed = limiter.try_acquire().expect("room");
    limiter.set_classes(&[Class::new("a").reserve(Share::Units(2))]).expect("valid");
    let a = fill(&limiter, "a");
    assert_eq!(a.len(), 3, "two of its own and what is free");
    limiter.set_classes(&[Class::new("b").reserve(Share::Units(1))]).expect("valid");
    assert!(limiter.class_id("a").is_none());
    drop(unclassed);
    assert_eq!(fill(&limiter, "b").len(), 1);
    drop(a);
    assert_eq!((limiter.snapshot().in_flight, fill(&limiter, "a").len()), (0, 3), "a counts as default now");
    limiter.set_classes(&[Class::new("b"), Class::new("b")]).expect_err("twice");
}

#[tokio::test(start_paused = true)]
async fn priorities_decide_who_enters_first_and_who_makes_room() {
    let limiter = fixed(1, [Class::new("high").priority(200), Class::new("low").priority(10)]);
    limiter.set_waiting_room(3, 10_000 * MS);
    let permit = limiter.try_acquire().expect("room");
    let order = Served::default();
    let mut tasks = Vec::new();
    for (class, name) in [("low", 1), ("low", 2), ("low", 3), ("high", 4), ("low", 5)] {
        tasks.push(waiter(&limiter, class, "t", &order, name));
        tokio::task::yield_now().await;
    }
    tokio::task::yield_now().await;
    permit.finish(Outcome::Success);
    for task in tasks {
        task.await.expect("no panic");
    }
    let order = order.lock().expect("no panic").clone();
    let (mut refused, served): (Vec<i64>, Vec<i64>) = order.into_iter().partition(|name| *name < 0);
    assert_eq!(served, [4, 1, 2], "3 made room for 4");
    refused.sort_unstable();
    assert_eq!(refused, [-5, -3]);
}

#[tokio::test(start_paused = true)]
async fn tenants_take_turns_and_one_alone_gets_everything() {
    let limiter = fixed(1, []);
    limiter.set_tenants(&Tenants::new().weight("loud", 1.0).weight("quiet", 1.0));
    let permit = limiter.try_acquire().expect("room");
    let order = Served::default();
    let mut tasks = Vec::new();
    for name in 1..=20 {
        tasks.push(waiter(&limiter, "none", "loud", &order, name));
        tokio::task::yield_now().await;
    }
    tasks.push(waiter(&limiter, "none", "quiet", &order, 100));
    tokio::task::yield_now().await;
    permit.finish(Outcome::Success);
    for task in tasks {
        task.await.expect("no panic");
    }
    let order = order.lock().expect("no panic").clone();
    assert!(order.iter().position(|name| *name == 100).expect("served") <= 2, "{order:?}");
    assert_eq!(order.iter().filter(|name| **name > 0).count(), 21);
}

#[tokio::test(start_paused = true)]
async fn an_adaptive_class_serves_the_newest_while_its_queue_stands() {
    let limiter = fixed(1, [Class::new("a").order(Order::Adaptive { target: 10 * MS })]);
    let permit = limiter.try_acquire().expect("room");
    let order = Served::default();
    let mut tasks = Vec::new();
    for name in 1..=3 {
        tasks.push(waiter(&limiter, "a", "t", &order, name));
        tokio::task::yield_now().await;
        advance(4 * MS).await;
    }
    permit.finish(Outcome::Success);
    for task in tasks {
        task.await.expect("no panic");
    }
    assert_eq!(*order.lock().expect("no panic"), [-1, 3, 2], "the oldest has waited for more than the target");
}
