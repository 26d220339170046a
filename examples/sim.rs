//! The simulator alone, without the gateway: builds in seconds. Same options as `tidegate sim`.
//!
//! `cargo run --release --no-default-features --features sim,cli --example sim -- config/scenarios`

#[path = "../src/bin/tidegate/sim.rs"]
mod sim;

#[derive(clap::Parser)]
struct Args {
    #[command(flatten)]
    sim: sim::SimArgs,
}

fn main() -> anyhow::Result<std::process::ExitCode> {
    let args: Args = clap::Parser::parse();
    sim::run(args.sim)
}
