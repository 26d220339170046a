//! What changes something, for those who hold a token; and the check, which changes nothing.

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admin, auth, no_limiter, view};
use crate::cli::Unusable;
use crate::reload::{Bounds, Done, NotDone, Reloader, Who};

/// `PUT /api/v1/limiters/NAME/bounds`.
pub(super) async fn bounds(
    State(admin): State<Arc<Admin>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let actor = match writer(&admin, &headers) {
        Ok(actor) => actor,
        Err(refusal) => return *refusal,
    };
    let bounds: Bounds = match read(&body) {
        Ok(bounds) => bounds,
        Err(refusal) => return *refusal,
    };
    if admin.live.limiter(&name).is_none() {
        return no_limiter(&admin, &name);
    }
    put(&admin, move |reloader| reloader.set_bounds(&name, &bounds, &actor)).await
}

/// `POST /api/v1/reload`.
pub(super) async fn reload(State(admin): State<Arc<Admin>>, headers: HeaderMap) -> Response {
    match writer(&admin, &headers) {
        Ok(actor) => put(&admin, move |reloader| reloader.now(&Who { actor, reason: None })).await,
        Err(refusal) => *refusal,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Restore {
    hash: String,
    reason: Option<String>,
}

/// `POST /api/v1/restore`.
pub(super) async fn restore(State(admin): State<Arc<Admin>>, headers: HeaderMap, body: Bytes) -> Response {
    let actor = match writer(&admin, &headers) {
        Ok(actor) => actor,
        Err(refusal) => return *refusal,
    };
    match read::<Restore>(&body) {
        Ok(Restore { hash, reason }) => {
            put(&admin, move |reloader| reloader.restore(&hash, &Who { actor, reason })).await
        }
        Err(refusal) => *refusal,
    }
}

/// `POST /api/v1/check`: the body is a config.
pub(super) async fn check(State(admin): State<Arc<Admin>>, body: Bytes) -> Response {
    let reloader = admin.reloader.clone();
    match tokio::task::spawn_blocking(move || reloader.effect_of(&body)).await {
        Ok(Ok(effect)) => Json(effect).into_response(),
        Ok(Err(wrong)) => answer(StatusCode::UNPROCESSABLE_ENTITY, wrong_json(&wrong)),
        Err(err) => answer(StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": err.to_string() })),
    }
}

/// `token:NAME` of whoever may write now.
fn writer(admin: &Admin, headers: &HeaderMap) -> Result<String, Box<Response>> {
    if let Err(wait) = admin.writes.take(Instant::now()) {
        let mut refusal = answer(StatusCode::TOO_MANY_REQUESTS, json!({ "error": "too many writes" }));
        let seconds = HeaderValue::from(wait.as_secs() + 1);
        refusal.headers_mut().insert(header::RETRY_AFTER, seconds);
        return Err(Box::new(refusal));
    }
    auth::writer(admin.live.config().admin(), headers)
        .map(|name| format!("token:{name}"))
        .map_err(|why| Box::new(answer(StatusCode::FORBIDDEN, json!({ "error": why }))))
}

fn read<T: serde::de::DeserializeOwned>(body: &[u8]) -> Result<T, Box<Response>> {
    serde_json::from_slice(body)
        .map_err(|err| Box::new(answer(StatusCode::BAD_REQUEST, json!({ "error": format!("the body: {err}") }))))
}

/// Does it where disks may be waited for, and tells what became of it.
async fn put(admin: &Admin, what: impl FnOnce(&Reloader) -> Result<Done, NotDone> + Send + 'static) -> Response {
    let reloader = admin.reloader.clone();
    let done = match tokio::task::spawn_blocking(move || what(&reloader)).await {
        Ok(done) => done,
        Err(err) => return answer(StatusCode::INTERNAL_SERVER_ERROR, json!({ "error": err.to_string() })),
    };
    let mut state = view::config(&admin.reloader);
    match done {
        Ok(done) => {
            state["result"] = match done {
                Done::Same => "same",
                Done::Applied => "applied",
                Done::NotInShare => "not_in_share",
                Done::Waits => "waiting",
            }
            .into();
            answer(StatusCode::OK, state)
        }
        Err(NotDone::Wrong(wrong)) => answer(StatusCode::UNPROCESSABLE_ENTITY, wrong_json(&wrong)),
        Err(why) => {
            let status = match why {
                NotDone::Conflict(_) => StatusCode::CONFLICT,
                NotDone::NotRecorded(_) => StatusCode::SERVICE_UNAVAILABLE,
                _ => StatusCode::UNPROCESSABLE_ENTITY,
            };
            answer(status, json!({ "error": why.to_string(), "config": state }))
        }
    }
}

fn wrong_json(wrong: &Unusable) -> Value {
    let violations = match wrong {
        Unusable::NotText => Vec::new(),
        Unusable::Invalid(invalid) => invalid
            .violations()
            .iter()
            .map(
                |v| json!({ "key": v.key, "value": v.value, "message": v.message, "line": v.line, "column": v.column }),
            )
            .collect(),
    };
    json!({ "error": wrong.to_string(), "violations": violations })
}

fn answer(status: StatusCode, body: Value) -> Response {
    (status, Json(body)).into_response()
}
