//! Who may write: whoever shows the token. Without a configured token, nobody.

use axum::http::{HeaderMap, header};
use tidegate::config::{AdminConfig, content_hash};

/// Where the token is looked for when no file is named.
const VARIABLE: &str = "TIDEGATE_ADMIN_TOKEN";

/// Whether a request with these headers may change something; says why not.
pub(super) fn may_write(admin: &AdminConfig, headers: &HeaderMap) -> Result<(), String> {
    let token = match admin.token_file() {
        // Read each time: a token that was replaced counts at once.
        Some(path) => std::fs::read_to_string(path).map_err(|err| format!("admin.token_file: {err}"))?,
        None => std::env::var(VARIABLE).unwrap_or_default(),
    };
    let token = token.lines().next().unwrap_or("").trim();
    if token.is_empty() {
        return Err(format!("writes need a token: configure admin.token_file, or set {VARIABLE}"));
    }
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
    if same(token, shown) { Ok(()) } else { Err("wrong token: needed is Authorization: Bearer TOKEN".to_owned()) }
}

/// Compares digests, and all of them: neither length nor first difference shows in the time taken.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (content_hash(a.as_bytes()), content_hash(b.as_bytes()));
    a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_is_the_token() {
        assert!(same("secret", "secret"));
        for other in ["", "secre", "secrets", "Secret"] {
            assert!(!same("secret", other), "{other}");
        }
    }
}
