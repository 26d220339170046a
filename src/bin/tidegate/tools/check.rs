//! `tidegate check`: what is wrong with a config, or what it would change and what that means now.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::Value;
use tidegate::config::Overrides;

use super::{Against, refused};
use crate::cli::{Unusable, parse};

/// What `tidegate check` takes.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The file to check.
    file: PathBuf,
    /// Checked as if `serve` had it too.
    #[arg(long, value_name = "URL")]
    upstream: Option<String>,
    #[command(flatten)]
    against: Against,
}

/// `tidegate check`.
pub(crate) fn run(args: &CheckArgs) -> anyhow::Result<ExitCode> {
    let text = std::fs::read(&args.file).with_context(|| format!("config file {}", args.file.display()))?;
    if args.against.against.is_some() {
        return against(args, text);
    }
    let overrides = Overrides { upstream: args.upstream.clone(), ..Overrides::default() };
    match parse(&args.file, &text, &overrides) {
        Ok(config) => {
            let (limiters, routes) = (config.limiters().len(), config.routes().len());
            println!("{}: good; {limiters} limiters, {routes} routes", args.file.display());
            Ok(ExitCode::SUCCESS)
        }
        Err(err) => Ok(wrong(&args.file, &err)),
    }
}

/// The running gateway knows its command line, so it is the one to say what is good for it.
fn against(args: &CheckArgs, text: Vec<u8>) -> anyhow::Result<ExitCode> {
    let (status, answer) = args.against.ask(Method::POST, "/api/v1/check", text.clone(), false)?;
    if status == StatusCode::UNPROCESSABLE_ENTITY {
        // Drawn from the file here when it is wrong here too.
        if let Err(err) = parse(&args.file, &text, &Overrides::default()) {
            return Ok(wrong(&args.file, &err));
        }
        println!("{}", answer["error"].as_str().unwrap_or_default());
        return Ok(ExitCode::FAILURE);
    }
    if status != StatusCode::OK {
        return Err(refused(status, &answer));
    }
    tell(&args.file, &answer);
    Ok(ExitCode::SUCCESS)
}

fn tell(file: &Path, answer: &Value) {
    let none = Vec::new();
    let changes = answer["changes"].as_array().unwrap_or(&none);
    println!("{}: good; {} keys differ from what runs", file.display(), changes.len());
    for change in changes {
        let side = |side: &str| change[side].as_str().unwrap_or("(none)").to_owned();
        println!("  {}: {} -> {}", change["key"].as_str().unwrap_or_default(), side("old"), side("new"));
    }
    for effect in answer["effects"].as_array().unwrap_or(&none).iter().filter_map(Value::as_str) {
        println!("now: {effect}");
    }
    if answer["in_share"] == false {
        println!("now: that instance is not in the share of the rollout and would not take it");
    }
    if let Some(bake) = answer["bake_s"].as_f64() {
        println!("now: it would be watched for {bake} s and taken back when things get worse");
    }
}

fn wrong(file: &Path, err: &Unusable) -> ExitCode {
    match err {
        Unusable::Invalid(invalid) => {
            print!("{}", invalid.drawn());
            for line in invalid.lines() {
                println!("{line}");
            }
        }
        Unusable::NotText => println!("{}: {err}", file.display()),
    }
    ExitCode::FAILURE
}
