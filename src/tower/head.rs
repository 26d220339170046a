//! Reads heads: what a request asked for, and which protocol is spoken.

use http::header::{CONTENT_TYPE, HeaderMap, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::classify::Headers;

impl Headers for HeaderMap {
    fn value(&self, name: &str) -> Option<&str> {
        self.get(name).map(|value| value.to_str().unwrap_or(""))
    }
}

/// What must be remembered of a request until its answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// HEAD: the answer has no body, whatever its headers say.
    Head,
    /// CONNECT: a success begins a tunnel.
    Connect,
    /// An upgrade by header: 101 hands the connection over.
    Upgrade,
    /// Anything else.
    Plain,
}

impl Asked {
    pub(super) fn of(request: &Parts) -> Self {
        match request.method {
            Method::HEAD => Asked::Head,
            Method::CONNECT => Asked::Connect,
            _ if request.headers.contains_key(UPGRADE) => Asked::Upgrade,
            _ => Asked::Plain,
        }
    }

    pub(super) fn wants_upgrade(self) -> bool {
        matches!(self, Asked::Connect | Asked::Upgrade)
    }

    /// Whether this answer hands the connection over.
    pub(super) fn is_granted_by(self, status: StatusCode) -> bool {
        match self {
            Asked::Connect => status.is_success(),
            Asked::Upgrade => status == StatusCode::SWITCHING_PROTOCOLS,
            Asked::Head | Asked::Plain => false,
        }
    }
}

/// Whether these are the headers of native gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    content_type(headers)
        .strip_prefix("application/grpc")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['+', ';', ' ']))
}

/// Whether this is the content type of gRPC-Web, whose status is inside the body. Its base64 form is not
/// read; such answers count as plain HTTP.
pub(super) fn is_grpc_web(content_type: &str) -> bool {
    content_type.strip_prefix("application/grpc-web").is_some_and(|rest| !rest.starts_with("-text"))
}

/// Whether the request speaks gRPC in any form, so that it understands only a gRPC refusal.
pub(super) fn speaks_grpc(headers: &HeaderMap) -> bool {
    content_type(headers).starts_with("application/grpc")
}

pub(super) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_is_told_by_its_content_type_and_not_by_its_neighbours() {
        for (content_type, native) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/json", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().expect("a valid header"));
            assert_eq!(is_grpc(&headers), native, "{content_type}");
            assert_eq!(speaks_grpc(&headers), content_type != "application/json", "{content_type}");
        }
    }

    #[test]
    fn an_upgrade_is_granted_only_to_who_asked() {
        assert!(Asked::Upgrade.is_granted_by(StatusCode::SWITCHING_PROTOCOLS));
        assert!(!Asked::Upgrade.is_granted_by(StatusCode::OK));
        assert!(Asked::Connect.is_granted_by(StatusCode::OK));
        assert!(!Asked::Connect.is_granted_by(StatusCode::BAD_GATEWAY));
        assert!(!Asked::Plain.is_granted_by(StatusCode::SWITCHING_PROTOCOLS));
    }
}
