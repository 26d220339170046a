//! `tidegate set`: new bounds for a limiter, through a running gateway or in its file.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tidegate::config::edit::{NewBounds, set_bounds};
use tidegate::config::replace::replace;
use tidegate::config::{Overrides, content_hash};

use super::{Against, refused};
use crate::cli::{Unusable, parse};

/// What `tidegate set` takes.
#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The limiter's name.
    limiter: String,
    /// The new bounds: min=N, max=N or both.
    #[arg(required = true, value_name = "BOUND")]
    bounds: Vec<String>,
    /// Why, for the audit log.
    #[arg(long)]
    reason: Option<String>,
    /// How long the change is watched, such as 5m; it is taken back when things get worse.
    #[arg(long, value_name = "DURATION")]
    bake: Option<String>,
    /// Only when the file still has this hash.
    #[arg(long, value_name = "HASH")]
    if_hash: Option<String>,
    /// The config file, when no gateway is asked: whoever watches the file applies it.
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    config: Option<PathBuf>,
    #[command(flatten)]
    against: Against,
}

/// `tidegate set`.
pub(crate) fn run(args: &SetArgs) -> anyhow::Result<ExitCode> {
    let new = args.new_bounds()?;
    match &args.config {
        Some(_) => in_file(args, &new),
        None => by_gateway(args, &new),
    }
}

impl SetArgs {
    fn new_bounds(&self) -> anyhow::Result<NewBounds> {
        let mut new = NewBounds {
            limiter: self.limiter.clone(),
            min: None,
            max: None,
            reason: self.reason.clone(),
            bake: self.bake.clone(),
        };
        for bound in &self.bounds {
            let (key, value) =
                bound.split_once('=').with_context(|| format!("\"{bound}\": needed is min=N or max=N"))?;
            let value = value.parse().with_context(|| format!("\"{bound}\": needed is a whole number"))?;
            match key {
                "min" => new.min = Some(value),
                "max" => new.max = Some(value),
                _ => bail!("\"{bound}\": needed is min=N or max=N"),
            }
        }
        Ok(new)
    }
}

fn by_gateway(args: &SetArgs, new: &NewBounds) -> anyhow::Result<ExitCode> {
    let mut body = json!({});
    for (key, value) in [("min", new.min), ("max", new.max)] {
        if let Some(value) = value {
            body[key] = value.into();
        }
    }
    for (key, value) in [("reason", &args.reason), ("bake", &args.bake), ("if_hash", &args.if_hash)] {
        if let Some(value) = value {
            body[key] = value.as_str().into();
        }
    }
    let path = format!("/api/v1/limiters/{}/bounds", args.limiter);
    let (status, answer) = args.against.ask(Method::PUT, &path, body.to_string().into_bytes(), true)?;
    if status != StatusCode::OK {
        return Err(refused(status, &answer));
    }
    println!("{}; config {}", answer["result"].as_str().unwrap_or("done"), answer["hash"].as_str().unwrap_or(""));
    Ok(ExitCode::SUCCESS)
}

fn in_file(args: &SetArgs, new: &NewBounds) -> anyhow::Result<ExitCode> {
    let path = args.config.as_deref().context("needed: --config FILE")?;
    let old = std::fs::read(path).with_context(|| format!("config file {}", path.display()))?;
    let hash = content_hash(&old);
    if args.if_hash.as_ref().is_some_and(|meant| *meant != hash) {
        bail!("the config file was changed by someone else; its hash is {hash}");
    }
    let text = std::str::from_utf8(&old).map_err(|_| anyhow::anyhow!("{}", Unusable::NotText))?;
    let text = set_bounds(text, new)?;
    if let Err(err) = parse(path, text.as_bytes(), &Overrides::default()) {
        bail!("with these bounds the config is not usable: {err}");
    }
    replace(path, &hash, text.as_bytes())?;
    println!("written; config {}", content_hash(text.as_bytes()));
    Ok(ExitCode::SUCCESS)
}
