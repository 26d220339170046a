//! Tables of who is served when there is not enough: `cargo run --release --features sim --example fairness`.

use std::time::Duration;

use tidegate::Order;
use tidegate::admission::TurnPolicy;
use tidegate::sim::fairness::{Case, Load, jain, run};

fn main() {
    tenants();
    orders();
}

fn case() -> Case {
    Case {
        limit: 20,
        service_s: 0.05,
        room: (100, 1.0),
        deadline_s: 2.0,
        seconds: 120.0,
        order: Order::Fifo,
        turns: Some(TurnPolicy::default()),
        tenants: Vec::new(),
        bursts: None,
    }
}

fn tenants() {
    let load = |rate| Load { rate, invents_names: false };
    println!("| case | turns | answered in time, a second, by tenant | Jain | first tenant: in time, p99 |");
    println!("|---|---|---|---|---|");
    let ten = (1..=10).map(|n| load(60.0 * f64::from(n))).collect();
    let inventor = Load { rate: 1000.0, invents_names: true };
    for (name, tenants) in [
        ("ten, 60 to 600 a second", ten),
        ("quiet alone (20)", vec![load(20.0)]),
        ("quiet (20) beside loud (1000)", vec![load(20.0), load(1000.0)]),
        ("three (200) beside one that invents names (1000)", vec![load(200.0), load(200.0), load(200.0), inventor]),
    ] {
        for (turns, policy) in [("by arrival", None), ("by tenant", Some(TurnPolicy::default()))] {
            let served = run(&Case { tenants: tenants.clone(), turns: policy, ..case() }, 1);
            let rates: Vec<_> = served.iter().map(|tenant| tenant.good as f64 / 120.0).collect();
            let shown: Vec<_> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
            let first = &served[0];
            let share = 100.0 * first.good as f64 / first.arrived as f64;
            let p99 = first.latency(0.99) * 1e3;
            println!("| {name} | {turns} | {} | {:.2} | {share:.0} %, {p99:.0} ms |", shown.join(", "), jain(&rates));
        }
    }
}

fn orders() {
    println!("\n| load | order | answered in time, of 100 a second | p50 | p99 |\n|---|---|---|---|---|");
    let steady = |rate| (vec![Load { rate, invents_names: false }], None);
    let bursts = (vec![Load { rate: 50.0, invents_names: false }], Some((2.0, 0.1, 6.0)));
    for (name, (tenants, bursts)) in [
        ("90 a second", steady(90.0)),
        ("bursts", bursts),
        ("150 a second", steady(150.0)),
        ("200 a second", steady(200.0)),
    ] {
        for (order, says) in [
            (Order::Fifo, "fifo"),
            (Order::Lifo, "lifo"),
            (Order::Adaptive { target: Duration::from_millis(20) }, "adaptive, 20 ms"),
            (Order::Adaptive { target: Duration::from_millis(100) }, "adaptive, 100 ms"),
        ] {
            let case = Case {
                limit: 10,
                service_s: 0.1,
                room: (1000, 60.0),
                deadline_s: 1.0,
                order,
                turns: None,
                tenants: tenants.clone(),
                bursts,
                ..case()
            };
            let served = &run(&case, 1)[0];
            let (rate, ms) = (served.good as f64 / 120.0, |q| served.latency(q) * 1e3);
            println!("| {name} | {says} | {rate:.0} | {:.0} ms | {:.0} ms |", ms(0.5), ms(0.99));
        }
    }
}
