//! The admin port: metrics, health, what each limiter does and why, the config's state.
//!
//! Everybody who reaches it may read; writes need the token. It serves few clients, each for a
//! short time, and stays apart from the traffic: nothing here waits for a limiter.

mod audit;
mod auth;
mod stream;
mod view;
mod write;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tidegate::alerts::{Kind, Status};
use tidegate::metrics;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub(crate) use auth::{VARIABLE, tokens};

use crate::client::Patient;
use crate::history::History;
use crate::live::Live;
use crate::page;
use crate::reload::Reloader;
use crate::worker::Places;

/// What the admin port shows.
pub(crate) struct Admin {
    live: Arc<Live>,
    reloader: Arc<Reloader>,
    places: Arc<Places>,
    history: History,
    ready: AtomicBool,
    writes: auth::Pace,
}

/// Connections served at a time.
const MOST_CONNECTIONS: usize = 64;
/// The longest that one request may take, its head included.
const MOST_TIME: Duration = Duration::from_secs(10);
/// The largest request body.
const MOST_BODY: usize = 64 << 10;
/// The largest config that is checked.
const MOST_CONFIG: usize = 4 << 20;

impl Admin {
    pub(crate) fn new(live: Arc<Live>, reloader: Arc<Reloader>, places: Arc<Places>) -> Arc<Self> {
        let (history, ready, writes) = (History::new(), AtomicBool::new(true), auth::Pace::default());
        Arc::new(Self { live, reloader, places, history, ready, writes })
    }

    /// Tells load balancers to send nobody any more.
    pub(crate) fn not_ready(&self) {
        self.ready.store(false, Ordering::Relaxed);
    }
}

/// Binds and serves in the background; `None` when no address is configured.
pub(crate) async fn start(admin: Arc<Admin>) -> anyhow::Result<Option<SocketAddr>> {
    let Some(address) = admin.live.config().admin().listen() else { return Ok(None) };
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} for admin"))?;
    let address = listener.local_addr()?;
    tokio::spawn(stream::sample(admin.clone()));
    tokio::spawn(serve(listener, router(admin)));
    Ok(Some(address))
}

fn router(admin: Arc<Admin>) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/page/{asset}", get(page::asset))
        .route("/metrics", get(scrape))
        .route("/health/live", get(async || "live\n"))
        .route("/health/ready", get(ready))
        .route("/api/v1/limiters", get(limiters))
        .route("/api/v1/limiters/{name}", get(limiter))
        .route("/api/v1/limiters/{name}/decisions", get(decisions))
        .route("/api/v1/ceilings", get(ceilings))
        .route("/api/v1/alerts", get(alerts))
        .route("/api/v1/limiters/{name}/history", get(stream::history))
        .route("/api/v1/history", get(stream::glance))
        .route("/api/v1/now", get(stream::now))
        .route("/api/v1/stream", get(stream::stream))
        .route("/api/v1/config", get(config))
        .route("/api/v1/audit", get(audit::recent))
        .route("/api/v1/limiters/{name}/bounds", put(write::bounds))
        .route("/api/v1/reload", post(write::reload))
        .route("/api/v1/restore", post(write::restore))
        .route("/api/v1/check", post(write::check).layer(DefaultBodyLimit::max(MOST_CONFIG)))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(middleware::from_fn(in_time))
        .with_state(admin)
}

async fn serve(listener: TcpListener, router: Router) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let Ok((tcp, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let _place = place;
            let mut builder = http1::Builder::new();
            builder.timer(TokioTimer::new()).header_read_timeout(MOST_TIME);
            // How a connection of this port ends is nobody's concern.
            let _ = builder.serve_connection(TokioIo::new(Patient::new(tcp, MOST_TIME)), service).await;
        });
    }
}

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(MOST_TIME, next.run(request)).await {
        Ok(response) => response,
        Err(_) => StatusCode::REQUEST_TIMEOUT.into_response(),
    }
}

/// Each scrape starts from an empty recorder: removed limiters leave no series behind, and nothing
/// grows between scrapes. The recorder has the few numbers of the process; those of limiters are written
/// past it, since there may be a thousand of them.
async fn scrape(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let recorder = PrometheusBuilder::new().build_recorder();
    ::metrics::with_local_recorder(&recorder, || {
        metrics::describe();
        for hold_off in admin.live.hold_offs() {
            metrics::record_hold_off(&hold_off.snapshot());
        }
        for (upstream, answers) in admin.live.answers() {
            for (rule, outcome, count) in answers.counts() {
                metrics::record_answers(&upstream, &rule, outcome, count);
            }
        }
        for ceiling in admin.live.ceilings() {
            metrics::record_ceiling(&ceiling.snapshot());
        }
        metrics::record_config(&admin.reloader.shown().measured());
        metrics::record_connections(admin.places.held());
        metrics::record_runtime_delay(admin.live.canary().delay());
        admin.live.alerts().rejections(metrics::record_route_rejections);
        record_alerts(&admin.live.alerts().status());
    });
    let mut text = metrics::Text::default();
    admin.live.limiters().iter().for_each(|limiter| text.limiter(&limiter.snapshot()));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text.render(&recorder.handle().render()))
}

fn record_alerts(status: &Status) {
    for kind in Kind::ALL {
        metrics::record_firing(kind.as_str(), status.firing[kind.index()]);
    }
    for line in &status.receivers {
        metrics::record_receiver(&line.receiver, [line.delivered, line.failed, line.dropped], line.waiting);
    }
}

async fn alerts(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let alerts = admin.live.alerts();
    Json(json!({ "open": alerts.shown(), "receivers": view::receivers(&alerts.status()) }))
}

async fn ready(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let ready = admin.ready.load(Ordering::Relaxed);
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let config = admin.reloader.shown();
    let body = json!({
        "ready": ready,
        "config_ok": config.error.is_none(),
        "config_error": config.error,
        "config_hash": config.hash,
        "config_version": config.version,
        "audit_error": config.audit.and_then(|audit| audit.error),
    });
    (status, Json(body))
}

async fn limiters(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let all: Vec<_> = admin.live.limiters().iter().map(view::limiter).collect();
    Json(json!({ "limiters": all }))
}

async fn ceilings(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    let all: Vec<_> = admin.live.ceilings().iter().map(|ceiling| view::ceiling(&ceiling.snapshot())).collect();
    Json(json!({ "ceilings": all }))
}

async fn limiter(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Response {
    match admin.live.limiter(&name) {
        Some(limiter) => Json(view::limiter(&limiter)).into_response(),
        None => no_limiter(&admin, &name),
    }
}

async fn decisions(State(admin): State<Arc<Admin>>, Path(name): Path<String>) -> Response {
    match admin.live.limiter(&name) {
        Some(limiter) => Json(view::decisions(&limiter)).into_response(),
        None => no_limiter(&admin, &name),
    }
}

fn no_limiter(admin: &Admin, name: &str) -> Response {
    let there: Vec<_> = admin.live.limiters().iter().map(|limiter| limiter.name().to_string()).collect();
    let body = json!({ "error": "no limiter of this name", "name": name, "limiters": there });
    (StatusCode::NOT_FOUND, Json(body)).into_response()
}

async fn config(State(admin): State<Arc<Admin>>) -> impl IntoResponse {
    Json(view::config(&admin.reloader))
}
