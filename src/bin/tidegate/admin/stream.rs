//! What the live page and `tidegate top` read: the newest point, the past, and the stream of both.
//!
//! The stream is a list of server-sent events: `hello` once, then `now` each second, which is its
//! heartbeat too. A client that was away asks for the past; nothing is kept for it here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body::Frame;
use serde_json::{Map, Value, json};
use tidegate::RejectReason;
use tidegate::law::Reason;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::{Admin, auth, no_limiter, view};
use crate::history::{COLUMNS, EVERY};

/// Takes a point each second and tells it, until the process ends.
pub(super) async fn sample(admin: Arc<Admin>) {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        admin.history.look(&admin.live.limiters());
        if admin.history.has_clients() {
            admin.history.tell(&event("now", &everything(&admin)));
        }
    }
}

/// `GET /api/v1/now`.
pub(super) async fn now(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let mut all = everything(&admin);
    all["columns"] = json!(COLUMNS);
    Json(all)
}

/// `GET /api/v1/history`.
pub(super) async fn glance(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    Json(admin.history.glance())
}

/// `GET /api/v1/limiters/NAME/history`.
pub(super) async fn history(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Response {
    match admin.history.of(&name) {
        Some(points) => Json(points).into_response(),
        None => no_limiter(&admin, &name),
    }
}

/// `GET /api/v1/stream`.
pub(super) async fn stream(State(admin): State<Arc<Admin>>) -> Response {
    let mut first = event("hello", &hello(&admin)).to_vec();
    first.extend_from_slice(&event("now", &everything(&admin)));
    let Ok(events) = admin.history.join(first.into()) else {
        let body = json!({ "error": "too many pages are open; close one" });
        return (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, "5")], Json(body)).into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // Proxies that gather answers are asked not to.
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::new(Events(events))).into_response()
}

fn everything(admin: &Admin) -> Value {
    let mut extra = Map::new();
    extra.insert("config".to_owned(), view::config(&admin.reloader));
    admin.history.now(extra)
}

fn hello(admin: &Admin) -> Value {
    let reasons: Map<String, Value> =
        Reason::ALL.iter().map(|r| (r.to_string(), json!([r.in_words(), r.what_helps()]))).collect();
    let refusals: Map<String, Value> =
        RejectReason::ALL.iter().map(|r| (r.to_string(), json!([r.in_words(), r.what_helps()]))).collect();
    let config = admin.live.config();
    json!({
        "boot": admin.history.boot(),
        "version": env!("CARGO_PKG_VERSION"),
        "columns": COLUMNS,
        "words": { "decisions": reasons, "rejections": refusals },
        "has": {
            "writes": auth::is_open(config.admin()) && admin.reloader.path().is_some(),
            "alerts": true,
            "audit": config.audit().dir().is_some(),
        },
    })
}

fn event(name: &str, data: &Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}

/// Events as they come; ends when the client was let go.
struct Events(mpsc::Receiver<Bytes>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let event = ready!(self.0.poll_recv(cx));
        Poll::Ready(event.map(|event| Ok(Frame::data(event))))
    }
}
