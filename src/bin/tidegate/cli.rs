//! The command line: what can be asked for.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};
use tidegate::config::{Config, InvalidConfig, Overrides};

use crate::sim::SimArgs;
use crate::tools::audit::AuditArgs;
use crate::tools::check::CheckArgs;
use crate::tools::set::SetArgs;
use crate::top::TopArgs;
use crate::why::WhyArgs;

/// An adaptive concurrency limiter: gateway and tools.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Cli {
    /// What to log: a level, or directives such as `info,tidegate=debug`.
    #[arg(long, global = true, default_value = "info")]
    pub(crate) log: String,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway in front of a service.
    Serve(ServeArgs),
    /// Watch the limit find a simulated service's capacity, lose it and find it again.
    Demo(DemoArgs),
    /// Show in a simulator what a setting will do before it is live.
    Sim(SimArgs),
    /// Show every limiter's numbers, live, in the terminal.
    Top(TopArgs),
    /// Say in words what a limiter decided, why it refused, and what would help.
    Why(WhyArgs),
    /// Say what is wrong with a config file, or what it would change; exit 0 when it is good, 1 otherwise.
    Check(CheckArgs),
    /// Set the bounds of a limiter.
    Set(SetArgs),
    /// Show or check the audit log, or put back an earlier version of the config.
    Audit(AuditArgs),
}

/// Values given here lie over those of the file, also after a reload.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ServeArgs {
    /// Address to serve on [default: 127.0.0.1:8080].
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// The service behind the gateway, such as http://127.0.0.1:9000.
    #[arg(long, value_name = "URL")]
    pub(crate) upstream: Option<String>,
    /// Address of the admin port: metrics, health, state.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// Config file; changes in it are applied while running.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The smallest limit of the limiter `default`.
    #[arg(long)]
    pub(crate) min: Option<u32>,
    /// The largest limit of the limiter `default`.
    #[arg(long)]
    pub(crate) max: Option<u32>,
    /// Directory of the audit log, over the file's audit.dir; found with it even when the file is broken.
    #[arg(long, value_name = "DIR", env = "TIDEGATE_AUDIT")]
    pub(crate) audit: Option<PathBuf>,
    /// The name of this instance, which decides in which shares it is [default: the host's].
    #[arg(long, value_name = "NAME", env = "TIDEGATE_INSTANCE")]
    pub(crate) instance: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// How long it runs.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=3600))]
    pub(crate) seconds: u32,
}

impl ServeArgs {
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            listen: self.listen.clone(),
            admin: self.admin.clone(),
            upstream: self.upstream.clone(),
            min: self.min,
            max: self.max,
            audit: self.audit.as_ref().map(|dir| dir.display().to_string()),
        }
    }
}

/// Why a config file is not applied.
#[derive(Debug)]
pub(crate) enum Unusable {
    /// It is not UTF-8.
    NotText,
    /// Its content is wrong.
    Invalid(InvalidConfig),
}

impl std::fmt::Display for Unusable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotText => f.write_str("the config file is not UTF-8 text"),
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

/// Reads and checks what a config file holds.
pub(crate) fn parse(file: &Path, text: &[u8], overrides: &Overrides) -> Result<Config, Unusable> {
    let text = std::str::from_utf8(text).map_err(|_| Unusable::NotText)?;
    Config::parse(&file.display().to_string(), text, overrides).map_err(Unusable::Invalid)
}
