//! The `tidegate` binary: the gateway and its tools. It uses the library's public face only.
#![allow(clippy::disallowed_methods, reason = "a shell around sockets reads the clock where it needs it")]

mod admin;
mod alerting;
mod ask;
mod bake;
mod ceilings;
mod cli;
mod client;
mod demo;
mod history;
mod live;
mod page;
mod proxy;
mod reload;
mod route;
mod serve;
mod sim;
mod tools;
mod top;
mod trail;
mod upstream;
mod why;
mod worker;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(cli.log.as_str())
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    subscriber.init();
    // Whoever uses TLS finds this one; none is chosen by chance.
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        tracing::warn!("another TLS provider was installed first");
    }
    let done = match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(args),
        Command::Check(args) => tools::check::run(&args),
        Command::Set(args) => tools::set::run(&args),
        Command::Audit(args) => tools::audit::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Why(args) => why::run(&args),
    };
    match done {
        Ok(code) => code,
        Err(err) => {
            eprintln!("tidegate: {err:#}");
            ExitCode::FAILURE
        }
    }
}
