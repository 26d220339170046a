//! How fast the simulator is: simulated requests a second on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;

use tidegate::law;
use tidegate::sim::engine::{Policy, run};
use tidegate::sim::scenario::Scenario;

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulate");
    group.sample_size(10);
    for (name, text) in [
        ("fifo", include_str!("../config/scenarios/busy/overload2x.toml")),
        ("processor_sharing", include_str!("../config/scenarios/busy/ps_overload.toml")),
        ("calm_fifo", include_str!("../config/scenarios/busy/underload_burst.toml")),
    ] {
        let scenario = Scenario::parse(name, text).expect("valid");
        let default = || law::default_law();
        let policy = Policy::Law { law: &default, initial: &[20.0] };
        let requests = run(&scenario, &policy, 1).measure.sum(|slice| slice.tries);
        group.throughput(Throughput::Elements(requests));
        group.bench_function(name, |b| b.iter(|| black_box(run(&scenario, &policy, 1)).events));
    }
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
