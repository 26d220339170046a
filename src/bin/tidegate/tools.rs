//! Tools beside the gateway: they read its files, or ask it over its admin port.

pub(crate) mod audit;
pub(crate) mod check;
pub(crate) mod set;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::admin::{VARIABLE, tokens};

/// A gateway to be asked.
#[derive(Debug, Args)]
pub(crate) struct Against {
    /// The admin port of a running gateway; where one is asked anyway, the default is http://127.0.0.1:9900.
    #[arg(long, value_name = "URL")]
    pub(crate) against: Option<String>,
    /// File with the token for writes [default: the environment variable TIDEGATE_ADMIN_TOKEN].
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}

/// Where the admin port is when nobody says.
pub(crate) const ADMIN: &str = "http://127.0.0.1:9900";
/// The longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

impl Against {
    /// The first token of the file or the environment.
    fn token(&self) -> anyhow::Result<String> {
        let text = match &self.token_file {
            Some(path) => std::fs::read_to_string(path).with_context(|| format!("token file {}", path.display()))?,
            None => std::env::var(VARIABLE).unwrap_or_default(),
        };
        let first = tokens(&text).first().map(|(_, token)| (*token).to_owned());
        first.with_context(|| format!("a token is needed: --token-file, or {VARIABLE}"))
    }

    /// Asks the gateway; the answer's status and JSON.
    fn ask(&self, method: Method, path: &str, body: Vec<u8>, with_token: bool) -> anyhow::Result<(StatusCode, Value)> {
        let url = self.against.as_deref().unwrap_or(ADMIN);
        let url = format!("{}{path}", url.trim_end_matches('/'));
        let client = reqwest::Client::builder().timeout(PATIENCE).build()?;
        let mut request = client.request(method, &url).body(body);
        if with_token {
            request = request.bearer_auth(self.token()?);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let answer = request.send().await.with_context(|| format!("cannot ask {url}"))?;
            let status = answer.status();
            let text = answer.text().await?;
            let json = serde_json::from_str(&text).unwrap_or(Value::String(text));
            Ok((status, json))
        })
    }
}

/// The `error` of an answer, as an error.
fn refused(status: StatusCode, answer: &Value) -> anyhow::Error {
    anyhow::anyhow!("{status}: {}", answer["error"].as_str().unwrap_or("no reason was given"))
}
