//! The live page: a handful of files inside the binary, and the headers they are served with.
//!
//! Nothing is fetched from anywhere else: the policy forbids it, and forbids script and style that
//! are not one of these files. The page itself reads the same API as everybody.

use std::sync::OnceLock;

use axum::extract::Path;
use axum::http::{HeaderMap, HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tidegate::config::content_hash;

struct Asset {
    name: &'static str,
    kind: &'static str,
    content: &'static [u8],
    tag: OnceLock<String>,
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

static INDEX: Asset = file("index.html", "text/html; charset=utf-8", include_bytes!("page/index.html"));

static ASSETS: [Asset; 11] = [
    file("icon.svg", "image/svg+xml", include_bytes!("page/icon.svg")),
    file("page.css", STYLE, include_bytes!("page/page.css")),
    file("page.js", SCRIPT, include_bytes!("page/page.js")),
    file("stream.js", SCRIPT, include_bytes!("page/stream.js")),
    file("list.js", SCRIPT, include_bytes!("page/list.js")),
    file("charts.js", SCRIPT, include_bytes!("page/charts.js")),
    file("detail.js", SCRIPT, include_bytes!("page/detail.js")),
    file("gateway.js", SCRIPT, include_bytes!("page/gateway.js")),
    file("uPlot.iife.min.js", SCRIPT, include_bytes!("page/uPlot.iife.min.js")),
    file("uPlot.min.css", STYLE, include_bytes!("page/uPlot.min.css")),
    file("uPlot.LICENSE", "text/plain; charset=utf-8", include_bytes!("page/uPlot.LICENSE")),
];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const fn file(name: &'static str, kind: &'static str, content: &'static [u8]) -> Asset {
    Asset { name, kind, content, tag: OnceLock::new() }
}

/// `GET /`.
pub(crate) async fn index(headers: HeaderMap) -> Response {
    INDEX.answer(&headers)
}

/// `GET /page/NAME`.
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => asset.answer(&headers),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

impl Asset {
    /// Browsers keep it, and ask each time whether it is still the same.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let tag = self.tag.get_or_init(|| format!("\"{}\"", content_hash(self.content)));
        let common = [
            (header::ETAG, tag.as_str()),
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::REFERRER_POLICY, "no-referrer"),
            (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        ];
        if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
            return (StatusCode::NOT_MODIFIED, common).into_response();
        }
        (common, [(header::CONTENT_TYPE, self.kind)], self.content).into_response()
    }
}
