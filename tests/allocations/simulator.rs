//! A simulated request costs no allocation once slots, heap and queues have their sizes.

use tidegate::law::{Aimd, Law};
use tidegate::sim::engine::{Policy, run};
use tidegate::sim::scenario::Scenario;

#[test]
fn four_times_as_many_requests_cost_hardly_more_allocations() {
    let text = |seconds: u32| {
        format!(
            "service_s = 0.01\ndownstream = {{ kind = \"fifo\", backlog = 20 }}\nclients = {{ retries = 1 }}\n\
             limiter = {{ queue = 5, queue_s = 0.005 }}\n[[phase]]\nseconds = {seconds}\nrate = 1500\nworkers = 10\n"
        )
    };
    let law = || Box::new(Aimd::default()) as Box<dyn Law>;
    let policy = Policy::Law { law: &law, initial: &[20.0] };
    let count = |seconds| {
        let scenario = Scenario::parse("x", &text(seconds)).expect("valid");
        super::allocations(|| assert!(run(&scenario, &policy, 1).events > 1500 * u64::from(seconds)))
    };
    let (short, long) = (count(10), count(40));
    assert!(long < short + 20, "{short} allocations for 15,000 requests, {long} for 60,000");
}
