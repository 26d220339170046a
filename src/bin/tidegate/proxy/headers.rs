//! Headers on their way through: what concerns one connection stays on it, what tells the upstream
//! about the client is added.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::Authority;
use tidegate::config::Forwarded;

use super::Peer;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Whether the content is gRPC's.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// The protocol that a request asks to change to, when it does so properly.
pub(super) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(header::UPGRADE)?;
    let asked = tokens(headers, &header::CONNECTION).any(|token| token.eq_ignore_ascii_case("upgrade"));
    // Changing to HTTP/2 is between the client and this gateway, and not offered.
    (asked && !upgrade.as_bytes().eq_ignore_ascii_case(b"h2c")).then(|| upgrade.clone())
}

/// Removes what is about one connection only: the known names, and those that Connection names.
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> =
            tokens(headers, &header::CONNECTION).filter_map(|token| token.parse().ok()).collect();
        for name in named {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    if headers.remove(header::TRANSFER_ENCODING).is_some() {
        // Both at once is an attempt to be read in two ways: the body is framed anew.
        headers.remove(header::CONTENT_LENGTH);
    }
    for name in [
        KEEP_ALIVE,
        PROXY_CONNECTION,
        header::TE,
        header::UPGRADE,
        HTTP2_SETTINGS,
        header::PROXY_AUTHORIZATION,
        header::PROXY_AUTHENTICATE,
    ] {
        headers.remove(name);
    }
}

/// Makes a client's headers an upstream's.
pub(super) fn towards_upstream(
    headers: &mut HeaderMap,
    peer: &Peer,
    forwarded: Forwarded,
    authority: Option<&Authority>,
    own_host: Option<&HeaderValue>,
) {
    let grpc = is_grpc(headers);
    strip(headers);
    // The gateway itself has answered, or will, with 100 Continue.
    headers.remove(header::EXPECT);
    if grpc {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    let asked_host = match authority {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => headers.get(header::HOST).cloned(),
    };
    let appends = forwarded == Forwarded::Append;
    let before = if appends { headers.get(&X_FORWARDED_FOR) } else { None };
    let chain = match before {
        Some(before) => joined(headers.get_all(&X_FORWARDED_FOR).iter(), &peer.address).unwrap_or(before.clone()),
        None => peer.address.clone(),
    };
    headers.insert(X_FORWARDED_FOR, chain);
    if !(appends && headers.contains_key(&X_FORWARDED_PROTO)) {
        headers.insert(X_FORWARDED_PROTO, peer.scheme.clone());
    }
    if let Some(host) = asked_host {
        if !(appends && headers.contains_key(&X_FORWARDED_HOST)) {
            headers.insert(X_FORWARDED_HOST, host.clone());
        }
        if own_host.is_none() {
            headers.insert(header::HOST, host);
        }
    }
    if let Some(own) = own_host {
        headers.insert(header::HOST, own.clone());
    }
}

fn joined<'a>(values: impl Iterator<Item = &'a HeaderValue>, last: &'a HeaderValue) -> Option<HeaderValue> {
    let mut all = Vec::with_capacity(64);
    for value in values.chain([last]) {
        if !all.is_empty() {
            all.extend_from_slice(b", ");
        }
        all.extend_from_slice(value.as_bytes());
    }
    HeaderValue::from_bytes(&all).ok()
}

fn tokens<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name.parse::<HeaderName>().expect("name"), value.parse().expect("value"));
        }
        map
    }

    #[test]
    fn what_connection_names_is_stripped_too() {
        let mut headers = map(&[
            ("connection", "close, X-Secret"),
            ("connection", "x-other"),
            ("x-secret", "1"),
            ("x-other", "1"),
            ("keep-alive", "t=5"),
            ("te", "trailers"),
            ("proxy-connection", "x"),
            ("upgrade", "h2c"),
            ("http2-settings", "AA"),
            ("x-kept", "1"),
        ]);
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
    }

    #[test]
    fn two_framings_at_once_leave_none() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("content-length", "4")]);
        strip(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn the_chain_of_clients_is_appended_to_or_replaced() {
        let peer = Peer::new("10.1.2.3:5".parse().expect("address"), false, 0, ());
        for (policy, chain) in [(Forwarded::Append, "1.1.1.1, 2.2.2.2, 10.1.2.3"), (Forwarded::Replace, "10.1.2.3")] {
            let mut headers = map(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2"), ("host", "a.b")]);
            towards_upstream(&mut headers, &peer, policy, None, None);
            assert_eq!(headers[X_FORWARDED_FOR], chain);
            assert_eq!(headers[X_FORWARDED_HOST], "a.b");
            assert_eq!(headers[X_FORWARDED_PROTO], "http");
        }
    }

    #[test]
    fn only_a_proper_request_to_upgrade_is_one() {
        assert!(upgrade_of(&map(&[("upgrade", "websocket"), ("connection", "keep-alive, Upgrade")])).is_some());
        assert!(upgrade_of(&map(&[("upgrade", "websocket")])).is_none());
        assert!(upgrade_of(&map(&[("upgrade", "h2c"), ("connection", "upgrade")])).is_none());
    }
}
