//! A webhook to test against: it notes what it gets, and answers as it is told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tidegate::alerts::{Alerts, Form, Receiver, Secret, Webhook};
use tidegate::{RejectReason, Rejection};
use tokio::time::Instant;

/// What the next request is answered with; 200 once the list is over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Status(u16),
    Throttle { retry_after: u64 },
    Hang,
    LargerThan { bytes: usize },
}

pub(crate) struct Received {
    pub(crate) at: Instant,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    pub(crate) taken: bool,
}

impl Received {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

#[derive(Clone, Default)]
pub(crate) struct Hook {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
}

impl Hook {
    /// Starts one on a free port.
    pub(crate) async fn start(answers: impl IntoIterator<Item = Answer>) -> (Self, String) {
        let hook = Self { answers: Arc::new(Mutex::new(answers.into_iter().collect())), ..Self::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/hook", listener.local_addr().expect("an address"));
        let router = Router::new().fallback(take).with_state(hook.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (hook, url)
    }

    /// All messages that were taken, as JSON.
    pub(crate) fn taken(&self) -> Vec<Value> {
        self.received.lock().expect("no panic").iter().filter(|r| r.taken).map(Received::json).collect()
    }
}

async fn take(State(hook): State<Hook>, headers: HeaderMap, body: Bytes) -> Response {
    let answer = hook.answers.lock().expect("no panic").pop_front();
    let fits = |most: usize| body.len() <= most;
    let taken = match answer {
        None => true,
        Some(Answer::LargerThan { bytes }) => fits(bytes),
        Some(_) => false,
    };
    let body = String::from_utf8(body.to_vec()).expect("text");
    hook.received.lock().expect("no panic").push(Received { at: Instant::now(), headers, body, taken });
    match answer {
        Some(Answer::Status(status)) => StatusCode::from_u16(status).expect("a status").into_response(),
        Some(Answer::Throttle { retry_after }) => {
            let mut response = StatusCode::TOO_MANY_REQUESTS.into_response();
            response.headers_mut().insert("retry-after", HeaderValue::from(retry_after));
            response
        }
        Some(Answer::Hang) => std::future::pending().await,
        Some(Answer::LargerThan { .. }) if !taken => StatusCode::PAYLOAD_TOO_LARGE.into_response(),
        _ => StatusCode::OK.into_response(),
    }
}

pub(crate) fn webhook(url: &str) -> Webhook {
    Webhook {
        url: Secret::Text(url.into()),
        form: Form::Json,
        secret: None,
        most_bytes: 64 << 10,
        timeout: Duration::from_secs(5),
    }
}

pub(crate) fn alerts(receiver: Receiver, settings: tidegate::alerts::Settings) -> Alerts {
    // Another test of this process may have been first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .build()
        .expect("a client");
    let alerts = Alerts::new(Some(client), "gw-1");
    alerts.set(settings, true, vec![("test".into(), receiver)]);
    alerts
}

pub(crate) fn rejection(reason: RejectReason) -> Rejection {
    Rejection {
        limiter: "payments".into(),
        class: None,
        reason,
        limit: 20,
        in_flight: 20,
        queued: 8,
        retry_after: Duration::from_secs(1),
    }
}
