//! Who is told: a webhook or an Alertmanager, and how one message is posted to it.
//!
//! Secrets are read at each use, so that a changed file counts at once; they are in no log and in
//! no `Debug`. A receiver's URL may be a secret too. Redirects are not followed.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit, Mac};
use reqwest::StatusCode;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use sha2::Sha256;

use crate::clock;

/// The header of the signature: `t=SECONDS,v1=HEX`, where HEX is the HMAC-SHA256 of
/// `SECONDS.BODY` under the shared secret.
pub const SIGNATURE: &str = "x-tidegate-signature";

/// A text that must not be seen, or the file that holds it.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The text itself.
    Text(String),
    /// Its first line, read at each use.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Text(_) => f.write_str("Text(hidden)"),
            Secret::File(path) => write!(f, "File({})", path.display()),
        }
    }
}

impl Secret {
    async fn read(&self) -> Result<String, String> {
        let path = match self {
            Secret::Text(text) => return Ok(text.clone()),
            Secret::File(path) => path.clone(),
        };
        let shown = path.display().to_string();
        let read = tokio::task::spawn_blocking(move || std::fs::read_to_string(path)).await;
        let text = read.map_err(|err| err.to_string())?.map_err(|err| format!("{shown}: {err}"))?;
        match text.lines().next().map(str::trim) {
            Some(line) if !line.is_empty() => Ok(line.to_owned()),
            _ => Err(format!("{shown}: the first line is empty")),
        }
    }
}

/// What a webhook is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// JSON as [`message`](super::message) describes it.
    #[default]
    Json,
    /// One `text` for a chat.
    Chat,
}

/// A webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Where it is.
    pub url: Secret,
    /// What it is sent.
    pub form: Form,
    /// Signs each message.
    pub secret: Option<Secret>,
    /// The largest body, in bytes.
    pub most_bytes: usize,
    /// The longest that one attempt may take.
    pub timeout: Duration,
}

/// One Alertmanager. Of several that know each other, each is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alertmanager {
    /// Its address, without `/api/v2/alerts`.
    pub url: Secret,
    /// Labels that every alert gets.
    pub labels: BTreeMap<String, String>,
    /// Goes along as a bearer token.
    pub token: Option<Secret>,
    /// After this time everything that fires is sent again; it expires after four times that.
    pub resend: Duration,
    /// The longest that one attempt may take.
    pub timeout: Duration,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Receiver {
    /// A webhook.
    Webhook(Webhook),
    /// An Alertmanager.
    Alertmanager(Alertmanager),
}

/// What became of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It arrived.
    Taken,
    /// Not now: after this time, if it said one.
    Later(String, Option<Duration>),
    /// Not in this form.
    Refused(String),
}

impl Webhook {
    pub(super) async fn post(&self, client: Option<&reqwest::Client>, body: String) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(secret) = &self.secret {
            match secret.read().await.map(|key| signature(&key, &body)) {
                Ok(Some(signature)) => drop(headers.insert(SIGNATURE, signature)),
                Ok(None) => {}
                Err(why) => return Answer::Later(why, None),
            }
        }
        match self.url.read().await {
            Ok(url) => post(client, &url, headers, body, self.timeout).await,
            Err(why) => Answer::Later(why, None),
        }
    }
}

impl Alertmanager {
    pub(super) async fn post(&self, client: Option<&reqwest::Client>, body: String) -> Answer {
        let mut headers = HeaderMap::new();
        if let Some(token) = &self.token {
            let bearer = token.read().await.map(|token| HeaderValue::try_from(format!("Bearer {token}")));
            match bearer {
                Ok(Ok(mut bearer)) => {
                    bearer.set_sensitive(true);
                    headers.insert(AUTHORIZATION, bearer);
                }
                Ok(Err(_)) => return Answer::Later("the token cannot stand in a header".into(), None),
                Err(why) => return Answer::Later(why, None),
            }
        }
        match self.url.read().await {
            Ok(url) => {
                let url = format!("{}/api/v2/alerts", url.trim_end_matches('/'));
                post(client, &url, headers, body, self.timeout).await
            }
            Err(why) => Answer::Later(why, None),
        }
    }

    /// How long an alert stands that is not sent again.
    pub(super) fn lasts(&self) -> Duration {
        self.resend * 4
    }
}

async fn post(
    client: Option<&reqwest::Client>,
    url: &str,
    headers: HeaderMap,
    body: String,
    timeout: Duration,
) -> Answer {
    let Some(client) = client else { return Answer::Later("there is no HTTP client".into(), None) };
    let request = client.post(url).headers(headers).header(CONTENT_TYPE, "application/json").body(body);
    // Around all of it: a receiver that hangs after its head is as late as one that never answers.
    match tokio::time::timeout(timeout, request.send()).await {
        Ok(Ok(response)) => judge(response.status(), response.headers()),
        // The URL may be a secret.
        Ok(Err(err)) => Answer::Later(told(&err.without_url()), None),
        Err(_) => Answer::Later(format!("no answer within {:.1} s", timeout.as_secs_f64()), None),
    }
}

/// An error with its causes: the outermost alone says little.
fn told(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(err) = cause {
        text.push_str(&format!(": {err}"));
        cause = err.source();
    }
    text
}

fn judge(status: StatusCode, headers: &HeaderMap) -> Answer {
    if status.is_success() {
        return Answer::Taken;
    }
    let why = format!("answered {}", status.as_u16());
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Answer::Refused(why)
        }
        _ => Answer::Later(why, headers.get(RETRY_AFTER).and_then(|value| retry_after(value, clock::wall()))),
    }
}

/// Seconds, with a fraction or without, or one of the three dates of HTTP.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    httpdate::parse_http_date(text).ok()?.duration_since(now).ok()
}

fn signature(key: &str, body: &str) -> Option<HeaderValue> {
    let seconds = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    HeaderValue::try_from(format!("t={seconds},v1={}", signed(key, seconds, body))).ok()
}

/// The HMAC-SHA256 of `seconds.body`, in hex.
pub(super) fn signed(key: &str, seconds: u64, body: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_openssl_says() {
        // printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac key
        let expected = "a438e398bfafc57e4396bb7fc2304422f0f768e965d073ca313cb52e22e6ad03";
        assert_eq!(signed("key", 1_700_000_000, "{\"a\":1}"), expected);
    }

    #[test]
    fn retry_after_is_read_in_all_its_forms() {
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        let cases = [
            ("30", Some(30.0)),
            ("1.5", Some(1.5)),
            ("Sun, 06 Nov 1994 08:50:07 GMT", Some(30.0)),
            ("Sunday, 06-Nov-94 08:50:07 GMT", Some(30.0)),
            ("Sun Nov  6 08:50:07 1994", Some(30.0)),
            ("-1", None),
            ("soon", None),
        ];
        for (text, seconds) in cases {
            let read = retry_after(&HeaderValue::from_static(text), now);
            assert_eq!(read.map(|wait| wait.as_secs_f64()), seconds, "{text}");
        }
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", Secret::Text("s3cret".into())).contains("s3cret"));
    }
}
