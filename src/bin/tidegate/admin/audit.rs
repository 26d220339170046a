//! The newest records of the audit log, to be shown.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tidegate::audit::{Lines, files};

use super::Admin;

/// Records shown at most.
const MOST: usize = 50;
/// Files read at most: the current one, and the one before in case that was just begun.
const FILES: usize = 2;

/// `GET /api/v1/audit`: newest first, as they stand in the log. Without a log, none.
pub(super) async fn recent(State(admin): State<Arc<Admin>>) -> Response {
    let Some(dir) = admin.live.config().audit().dir().map(Path::to_owned) else {
        return Json(json!({ "records": [] })).into_response();
    };
    let read = tokio::task::spawn_blocking(move || newest(&dir)).await.unwrap_or_else(|err| Err(io::Error::other(err)));
    match read {
        Ok(records) => Json(json!({ "records": records })).into_response(),
        Err(err) => {
            let body = json!({ "error": format!("the audit log cannot be read: {err}") });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
        }
    }
}

fn newest(dir: &Path) -> io::Result<VecDeque<Value>> {
    let mut files = files(dir)?;
    let files = files.split_off(files.len().saturating_sub(FILES));
    let mut records = VecDeque::with_capacity(MOST);
    for line in Lines::of(files) {
        // A line that is being written, or is damaged, is for `audit verify`.
        let Ok(record) = serde_json::from_slice(&line?.bytes) else { continue };
        records.truncate(MOST - 1);
        records.push_front(record);
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_come_first_and_there_are_not_too_many() {
        let dir = tempfile::tempdir().expect("a folder");
        let lines: String = (1..=80).map(|seq| format!("{{\"seq\":{seq}}}\n")).collect();
        std::fs::write(dir.path().join("audit.jsonl"), lines + "{\"seq\":8").expect("writable");
        let records = newest(dir.path()).expect("readable");
        assert_eq!((records.len(), &records[0]["seq"], &records[49]["seq"]), (MOST, &json!(80), &json!(31)));
    }
}
