//! Reads a running gateway's admin port, for the tools in a terminal. Every call has a time-out.

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::Value;
use tidegate::{Outcome, RejectReason};

/// Which gateway is asked.
#[derive(Clone, Debug, Args)]
pub(crate) struct Gateway {
    /// The admin port of a running gateway.
    #[arg(long, value_name = "URL", default_value = crate::tools::ADMIN)]
    admin: String,
}

/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A client of one gateway.
pub(crate) struct Asker {
    client: reqwest::Client,
    base: String,
}

impl Gateway {
    pub(crate) fn asker(&self) -> anyhow::Result<Asker> {
        let base = self.admin.trim_end_matches('/');
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().context("an HTTP client")?;
        Ok(Asker { client, base })
    }
}

impl Asker {
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    /// The JSON at `path`; an answer that is not a success is an error with what the gateway said.
    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        let url = format!("{}{path}", self.base);
        let answer = self.client.get(&url).send().await;
        let answer = answer.with_context(|| format!("cannot ask {url} (is it the admin port? see --admin)"))?;
        let status = answer.status();
        let body: Value = answer.json().await.with_context(|| format!("{url}: no JSON"))?;
        anyhow::ensure!(status.is_success(), "{url}: {}", complaint(&body));
        Ok(body)
    }
}

fn complaint(body: &Value) -> String {
    let error = body["error"].as_str().unwrap_or("refused");
    match body["limiters"].as_array() {
        Some(there) => {
            let names: Vec<_> = there.iter().filter_map(Value::as_str).collect();
            format!("{error}; there are: {}", names.join(", "))
        }
        None => error.to_owned(),
    }
}

/// A table of numbers by column name, as the gateway sends them.
pub(crate) struct Columns(Vec<String>);

impl Columns {
    pub(crate) fn of(answer: &Value) -> Self {
        let names = answer["columns"].as_array().into_iter().flatten();
        Self(names.map(|name| name.as_str().unwrap_or_default().to_owned()).collect())
    }

    /// The number of this column; `None` when it is unknown.
    pub(crate) fn read(&self, values: &[Value], column: &str) -> Option<f64> {
        values.get(self.0.iter().position(|name| name == column)?)?.as_f64()
    }

    /// Refusals a second, all reasons together.
    pub(crate) fn refused(&self, values: &[Value]) -> f64 {
        RejectReason::ALL.iter().filter_map(|reason| self.read(values, reason.as_str())).sum()
    }

    /// Requests a second that finished badly, the caller's own mistakes left out.
    pub(crate) fn failed(&self, values: &[Value]) -> f64 {
        let bad = [Outcome::Throttled, Outcome::Overloaded, Outcome::Fault, Outcome::Exhausted];
        bad.iter().filter_map(|outcome| self.read(values, outcome.as_str())).sum()
    }
}

/// A number as short as it may be.
pub(crate) fn short(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        Some(value) => format!("{value:.1}"),
    }
}

/// Text from elsewhere that cannot move the cursor.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}
