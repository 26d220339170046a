//! Shares of tenants and orders of the waiting room, in the simulator.

use std::time::Duration;

use tidegate::Order;
use tidegate::admission::TurnPolicy;
use tidegate::sim::fairness::{Case, Load, Served, jain, run};

fn load(rate: f64) -> Load {
    Load { rate, invents_names: false }
}

/// 400 requests a second can be served.
fn case(tenants: Vec<Load>) -> Case {
    Case {
        limit: 20,
        service_s: 0.05,
        room: (100, 1.0),
        deadline_s: 2.0,
        seconds: 60.0,
        order: Order::Fifo,
        turns: Some(TurnPolicy::default()),
        tenants,
        bursts: None,
    }
}

fn good(served: &[Served]) -> Vec<f64> {
    served.iter().map(|tenant| tenant.good as f64).collect()
}

#[test]
fn equal_tenants_get_equal_shares_under_overload() {
    let tenants = (0..10).map(|n| load(60.0 + 60.0 * f64::from(n))).collect();
    let fair = good(&run(&case(tenants), 1));
    assert!(jain(&fair) > 0.95, "{fair:?}");
    let tenants: Vec<_> = (0..10).map(|n| load(60.0 + 60.0 * f64::from(n))).collect();
    let unfair = good(&run(&Case { turns: None, ..case(tenants) }, 1));
    assert!(jain(&unfair) < 0.85, "and do not in order of arrival: {unfair:?}");
}

#[test]
fn shares_are_max_min_fair_and_one_tenant_alone_gets_everything() {
    let served = run(&case(vec![load(40.0), load(120.0), load(800.0)]), 2);
    for (tenant, wanted) in served.iter().zip([40.0, 120.0, 240.0]) {
        let rate = tenant.good as f64 / 60.0;
        assert!((rate - wanted).abs() < 0.1 * wanted, "{rate} where {wanted} is due");
    }
    let alone = run(&case(vec![load(800.0)]), 2);
    assert!(alone[0].good as f64 / 60.0 > 0.95 * 400.0);
}

#[test]
fn a_tenant_at_fifty_times_its_load_hardly_touches_a_quiet_ones_tail() {
    let alone = run(&case(vec![load(20.0)]), 3)[0].latency(0.99);
    let beside = &run(&case(vec![load(20.0), load(1000.0)]), 3)[0];
    assert!(beside.good as f64 > 0.99 * beside.arrived as f64, "{beside:?}");
    assert!(beside.latency(0.99) < 1.5 * alone, "{} where {alone} alone", beside.latency(0.99));
    let unfair = &run(&Case { turns: None, ..case(vec![load(20.0), load(1000.0)]) }, 3)[0];
    assert!(unfair.latency(0.99) > 1.5 * alone || (unfair.good as f64) < 0.9 * unfair.arrived as f64);
}

#[test]
fn inventing_a_name_for_each_request_wins_nothing() {
    let inventor = Load { rate: 1000.0, invents_names: true };
    let tenants = vec![load(200.0), load(200.0), load(200.0), inventor];
    let served = good(&run(&case(tenants), 4));
    assert!(served[3] < 1.2 * served[0], "{served:?}");
    assert!(jain(&served) > 0.95, "{served:?}");
}

#[test]
fn weights_divide_what_there_is() {
    // The names of the simulator's tenants 0 and 1.
    let name = |tenant: u64| (tenant + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let weights = [(name(0), 3.0), (name(1), 1.0)].into_iter().collect();
    let turns = Some(TurnPolicy { weights, ..TurnPolicy::default() });
    let served = good(&run(&Case { turns, ..case(vec![load(600.0), load(600.0)]) }, 5));
    assert!((2.7..3.3).contains(&(served[0] / served[1])), "{served:?}");
}

/// 100 requests a second can be served, 200 are asked for; clients wait for a second.
fn overload(order: Order) -> Case {
    Case {
        limit: 10,
        service_s: 0.1,
        room: (1000, 60.0),
        deadline_s: 1.0,
        order,
        turns: None,
        tenants: vec![load(200.0)],
        ..case(Vec::new())
    }
}

#[test]
fn under_sustained_overload_adaptive_order_does_useful_work_and_plain_order_does_not() {
    let adaptive = Order::Adaptive { target: Duration::from_millis(100) };
    let rate = |order| run(&overload(order), 6)[0].good as f64 / 60.0;
    let [fifo, adaptive] = [Order::Fifo, adaptive].map(rate);
    assert!(adaptive >= 90.0, "{adaptive} of 100");
    assert!(fifo < 0.7 * adaptive, "{fifo} of 100: the head of the queue is always about to give up");
}

#[test]
fn a_short_burst_is_served_in_order_by_adaptive_as_by_plain_order() {
    let burst = |order| {
        let bursts = Some((2.0, 0.1, 6.0));
        run(&Case { tenants: vec![load(50.0)], bursts, ..overload(order) }, 7)[0].clone()
    };
    let adaptive = burst(Order::Adaptive { target: Duration::from_millis(500) });
    let fifo = burst(Order::Fifo);
    assert!(adaptive.good as f64 >= 0.98 * fifo.good as f64, "{} and {}", adaptive.good, fifo.good);
    assert!(adaptive.latency(0.99) <= 1.1 * fifo.latency(0.99));
}
