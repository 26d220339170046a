//! `tidegate sim`: scenarios under laws, as a table, JSON and charts.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use tidegate::law::{self, Law};
use tidegate::sim::compare::{Comparison, Contender};
use tidegate::sim::scenario::Scenario;
use tidegate::sim::{random, replay, report};

/// Runs scenarios in the simulator and scores laws against the best static limits.
#[derive(Debug, clap::Args)]
pub(crate) struct SimArgs {
    /// Scenario files, or directories of them (searched for *.toml).
    #[arg(value_name = "SCENARIO.toml")]
    scenarios: Vec<PathBuf>,
    /// Laws to run, by name.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    law: Vec<String>,
    /// How many seeds: 1, 2, ...
    #[arg(long, default_value_t = 6)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// Initial limits in place of the scenarios' own.
    #[arg(long, value_delimiter = ',', value_name = "LIMIT")]
    initial: Vec<f64>,
    /// Random scenarios: KIND:COUNT:SEED, KIND being busy or low.
    #[arg(long, value_name = "KIND:COUNT:SEED")]
    random: Vec<String>,
    /// A recorded trace (CSV of arrival,latency, or an access log with times) in place of arrivals.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Draw a chart of each scenario and law (first seed) into this directory.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Print JSON in place of the table.
    #[arg(long)]
    json: bool,
    /// Print Markdown in place of the table.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print only each law's standing over all scenarios.
    #[arg(long)]
    summary: bool,
    /// Fail when a score lies outside the range that its scenario accepts.
    #[arg(long)]
    check: bool,
    /// Where the oracle's results are kept; they take most of the time.
    #[arg(long, value_name = "DIR", default_value = "target/sim-oracle")]
    cache: PathBuf,
    /// How many threads; all cores by default.
    #[arg(long)]
    threads: Option<usize>,
    /// Show progress though standard error is no terminal.
    #[arg(long)]
    progress: bool,
}

/// Runs the command.
pub(crate) fn run(args: SimArgs) -> anyhow::Result<ExitCode> {
    let scenarios = scenarios(&args)?;
    let names: Vec<&str> =
        if args.law.is_empty() { law::NAMES.to_vec() } else { args.law.iter().map(String::as_str).collect() };
    let makers = names.iter().map(|name| maker(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let laws: Vec<Contender<'_>> =
        names.iter().zip(&makers).map(|(name, make)| Contender { name, law: make.as_ref() }).collect();
    let seeds: Vec<u64> = (args.first_seed..args.first_seed + args.seeds).collect();
    let show = args.progress || std::io::stderr().is_terminal();
    let progress = |done: usize, all: usize| {
        if show {
            eprint!("\r{done} of {all} ");
            let _ = std::io::stderr().flush();
        }
    };
    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let cache = Some(args.cache.clone());
    let comparison =
        Comparison { scenarios: &scenarios, laws: &laws, seeds: &seeds, cache, threads, progress: &progress };
    let rows = comparison.run();
    if show {
        eprintln!();
    }
    if let Some(dir) = &args.svg {
        comparison.charts(dir).with_context(|| format!("cannot draw into {}", dir.display()))?;
    }
    let summaries = report::summaries(&rows);
    let text = if args.json {
        report::json(&rows) + "\n"
    } else if args.markdown {
        report::markdown(&summaries)
    } else if args.summary {
        report::standing_lines(&summaries)
    } else {
        report::table(&summaries)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    let violations = report::violations(&scenarios, &summaries);
    if args.check && !violations.is_empty() {
        eprintln!("outside the accepted ranges:\n{}", violations.join("\n"));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

type Maker = Box<dyn Fn() -> Box<dyn Law> + Sync>;

fn maker(name: &str) -> anyhow::Result<Maker> {
    if law::by_name(name).is_none() {
        bail!("--law {name} is not allowed: need one of {}", law::NAMES.join(", "));
    }
    let name = name.to_owned();
    Ok(Box::new(move || law::by_name(&name).expect("the name was checked")))
}

fn scenarios(args: &SimArgs) -> anyhow::Result<Vec<Scenario>> {
    let mut files = Vec::new();
    for path in &args.scenarios {
        collect(path, &mut files)?;
    }
    let mut scenarios = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let mut scenario = Scenario::parse(&name, &text).with_context(|| file.display().to_string())?;
        let set = file.parent().and_then(Path::file_name);
        scenario.set = set.unwrap_or_default().to_string_lossy().into_owned();
        scenarios.push(scenario);
    }
    for spec in &args.random {
        let parts: Vec<&str> = spec.split(':').collect();
        let [kind, count, seed] = parts[..] else { bail!("--random {spec} is not allowed: need KIND:COUNT:SEED") };
        let kind = random::Kind::by_name(kind).with_context(|| format!("--random {spec}: KIND is busy or low"))?;
        let (count, seed): (u64, u64) = (count.parse()?, seed.parse()?);
        scenarios.extend((0..count).map(|index| random::scenario(kind, seed, index)));
    }
    if let Some(path) = &args.trace {
        scenarios = replayed(path, scenarios)?;
    }
    if scenarios.is_empty() {
        bail!("nothing to run: name scenario files or directories (such as config/scenarios), --random or --trace");
    }
    if !args.initial.is_empty() {
        for scenario in &mut scenarios {
            scenario.limiter.initial.clone_from(&args.initial);
            scenario.check()?;
        }
    }
    Ok(scenarios)
}

/// The trace under each scenario's settings, or under settings of its own.
fn replayed(path: &Path, scenarios: Vec<Scenario>) -> anyhow::Result<Vec<Scenario>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let trace = replay::parse(&text).with_context(|| path.display().to_string())?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let bases = if scenarios.is_empty() { vec![None] } else { scenarios.into_iter().map(Some).collect() };
    let made: Vec<_> = bases.into_iter().map(|base| replay::scenario(&name, trace.clone(), base)).collect();
    made.iter().try_for_each(Scenario::check)?;
    Ok(made)
}

/// A file itself, or all scenario files below a directory in the order of their names.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut paths = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() || path.extension().is_some_and(|ending| ending == "toml") {
            collect(&path, files)?;
        }
    }
    Ok(())
}
