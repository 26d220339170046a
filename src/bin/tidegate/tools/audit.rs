//! `tidegate audit`: shows the log, checks it, puts back an earlier version.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use reqwest::{Method, StatusCode};
use serde_json::json;
use tidegate::audit::{Lines, Record, Versions, files, since, verify};
use tidegate::config::replace::replace;
use tidegate::config::{Overrides, content_hash};

use super::{Against, refused};
use crate::cli::parse;

/// What `tidegate audit` takes.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Show who changed what, when, why, and what came of it.
    Show(ShowArgs),
    /// Check that nothing in the log was altered, left out or put in between; exit 0 when whole.
    Verify(VerifyArgs),
    /// Put back an earlier version of the config.
    Restore(RestoreArgs),
}

/// Where the log is.
#[derive(Debug, Args)]
struct Place {
    /// The directory of the log.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    dir: Option<PathBuf>,
    /// The config file that names the directory.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ShowArgs {
    #[command(flatten)]
    place: Place,
    /// Only changes of this limiter.
    #[arg(long, value_name = "NAME")]
    limiter: Option<String>,
    /// Only from this time on: a date, a time in UTC, or a duration before now such as 2h or 7d.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// As the lines stand in the log.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct VerifyArgs {
    #[command(flatten)]
    place: Place,
    /// A hash that was noted earlier and must still be in the chain.
    #[arg(long, value_name = "HASH")]
    head: Option<String>,
}

#[derive(Debug, Args)]
struct RestoreArgs {
    /// The hash of the version, or its first 8 digits or more.
    hash: String,
    /// The directory of the log [default: the one that the config file names].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// The config file to write, when no gateway is asked: whoever watches it applies it.
    #[arg(long, value_name = "FILE", conflicts_with = "against", required_unless_present = "against")]
    config: Option<PathBuf>,
    /// Why, for the audit log; with --against only.
    #[arg(long, requires = "against")]
    reason: Option<String>,
    #[command(flatten)]
    against: Against,
}

/// `tidegate audit`.
pub(crate) fn run(args: &AuditArgs) -> anyhow::Result<ExitCode> {
    match &args.what {
        What::Show(args) => show(args),
        What::Verify(args) => verify_log(args),
        What::Restore(args) => restore(args),
    }
}

fn show(args: &ShowArgs) -> anyhow::Result<ExitCode> {
    let dir = args.place.dir()?;
    let from = match &args.since {
        None => None,
        Some(text) => {
            let from = since(text, SystemTime::now());
            Some(from.with_context(|| format!("--since {text}: needed is a date, a time in UTC or a duration"))?)
        }
    };
    let mut out = io::stdout().lock();
    for line in Lines::of(files(&dir).with_context(|| format!("audit log in {}", dir.display()))?) {
        let line = line?;
        let Ok(record) = serde_json::from_slice::<Record>(&line.bytes) else {
            eprintln!("{}:{}: no record", line.file.display(), line.number);
            continue;
        };
        let of_limiter = |name: &String| record.entry.changes.iter().any(|change| change.limiter() == Some(name));
        let too_early = from.as_ref().is_some_and(|from| record.time < *from);
        if too_early || args.limiter.as_ref().is_some_and(|name| !of_limiter(name)) {
            continue;
        }
        let told =
            if args.json { out.write_all(&line.bytes) } else { tell(&mut out, &record, args.limiter.as_deref()) };
        match told {
            // Whoever reads has enough.
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => break,
            told => told?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(out: &mut impl Write, record: &Record, limiter: Option<&str>) -> io::Result<()> {
    let entry = &record.entry;
    let hash = entry.source.hash.as_deref().map_or("-", |hash| hash.get(..12).unwrap_or(hash));
    writeln!(out, "{:>5} {} {:<12} {} {hash}", record.seq, record.time, entry.result.as_str(), entry.actor)?;
    if let Some(reason) = &entry.reason {
        writeln!(out, "      reason: {reason}")?;
    }
    for change in entry.changes.iter().filter(|change| limiter.is_none() || change.limiter() == limiter) {
        let side = |side: &Option<String>| side.clone().unwrap_or_else(|| "(none)".to_owned());
        writeln!(out, "      {}: {} -> {}", change.key, side(&change.old), side(&change.new))?;
    }
    if let Some(note) = &entry.note {
        writeln!(out, "      note: {note}")?;
    }
    Ok(())
}

fn verify_log(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let dir = args.place.dir()?;
    let found = verify(&dir, args.head.as_deref()).with_context(|| format!("audit log in {}", dir.display()))?;
    if found.torn > 0 {
        println!("the last line is unfinished ({} bytes), as a crash leaves it; it was never acted on", found.torn);
    }
    if let Some((file, line, why)) = &found.first_broken {
        println!("broken: {}:{line}: {why}", file.display());
        println!("{} of {} lines do not belong where they stand", found.broken, found.lines);
        return Ok(ExitCode::FAILURE);
    }
    if let (Some(head), None) = (&args.head, found.head_at) {
        println!("broken: no record has the hash {head}: the log was cut off or rewritten since that was noted");
        return Ok(ExitCode::FAILURE);
    }
    let earlier = if found.first > 1 { " (earlier ones were removed)" } else { "" };
    println!("whole: {} records from {}{earlier}, head {}", found.lines, found.first, found.end.head());
    Ok(ExitCode::SUCCESS)
}

fn restore(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let Some(file) = &args.config else { return restore_by_gateway(args) };
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => dir_of(file)?,
    };
    let text = Versions::beside(&dir, usize::MAX).get(&args.hash)?;
    if let Err(err) = parse(file, &text, &Overrides::default()) {
        bail!("that version is not usable any more: {err}");
    }
    let old = std::fs::read(file).with_context(|| format!("config file {}", file.display()))?;
    replace(file, &content_hash(&old), &text)?;
    println!("written; config {}", content_hash(&text));
    Ok(ExitCode::SUCCESS)
}

fn restore_by_gateway(args: &RestoreArgs) -> anyhow::Result<ExitCode> {
    let mut body = json!({ "hash": args.hash });
    if let Some(reason) = &args.reason {
        body["reason"] = reason.as_str().into();
    }
    let (status, answer) = args.against.ask(Method::POST, "/api/v1/restore", body.to_string().into_bytes(), true)?;
    if status != StatusCode::OK {
        return Err(refused(status, &answer));
    }
    println!("{}; config {}", answer["result"].as_str().unwrap_or("done"), answer["hash"].as_str().unwrap_or(""));
    Ok(ExitCode::SUCCESS)
}

impl Place {
    fn dir(&self) -> anyhow::Result<PathBuf> {
        match (&self.dir, &self.config) {
            (Some(dir), _) => Ok(dir.clone()),
            (None, Some(config)) => dir_of(config),
            (None, None) => bail!("needed: --dir DIR or --config FILE"),
        }
    }
}

fn dir_of(file: &Path) -> anyhow::Result<PathBuf> {
    let text = std::fs::read(file).with_context(|| format!("config file {}", file.display()))?;
    let config = parse(file, &text, &Overrides::default()).map_err(|err| anyhow::anyhow!("{err}"))?;
    let dir = config.audit().dir().map(Path::to_owned);
    dir.with_context(|| format!("{} names no audit.dir", file.display()))
}
