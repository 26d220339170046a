//! Who may write, by what name, and how often: whoever shows a token. Without a configured token,
//! nobody.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, header};
use tidegate::config::{AdminConfig, content_hash};

/// Where tokens are looked for when no file is named.
pub(crate) const VARIABLE: &str = "TIDEGATE_ADMIN_TOKEN";

/// The name of a token that has none.
const NAMELESS: &str = "admin";

/// Whether there is a token to be shown. Says nothing about who holds it.
pub(super) fn is_open(admin: &AdminConfig) -> bool {
    admin.token_file().is_some() || std::env::var(VARIABLE).is_ok_and(|text| !tokens(&text).is_empty())
}

/// The name of the token that these headers show; says why there is none.
pub(super) fn writer(admin: &AdminConfig, headers: &HeaderMap) -> Result<String, String> {
    let text = match admin.token_file() {
        // Read each time: a token that was replaced counts at once.
        Some(path) => std::fs::read_to_string(path).map_err(|err| format!("admin.token_file: {err}"))?,
        None => std::env::var(VARIABLE).unwrap_or_default(),
    };
    let tokens = tokens(&text);
    if tokens.is_empty() {
        return Err(format!("writes need a token: configure admin.token_file, or set {VARIABLE}"));
    }
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or("");
    let wrong = || "wrong token: needed is Authorization: Bearer TOKEN".to_owned();
    holder(&tokens, shown).map(str::to_owned).ok_or_else(wrong)
}

/// Names and tokens: one a line or between commas, as `NAME: TOKEN`; lines that begin with # are not.
pub(crate) fn tokens(text: &str) -> Vec<(&str, &str)> {
    let entries = text.lines().map(str::trim).filter(|line| !line.starts_with('#')).flat_map(|line| line.split(','));
    entries
        .map(|entry| match entry.split_once(':') {
            Some((name, token)) => (name.trim(), token.trim()),
            None => (NAMELESS, entry.trim()),
        })
        .filter(|(name, token)| !name.is_empty() && !token.is_empty())
        .collect()
}

/// Looks at every token, whichever it is.
fn holder<'a>(tokens: &[(&'a str, &str)], shown: &str) -> Option<&'a str> {
    tokens.iter().fold(None, |found, (name, token)| if same(token, shown) { Some(*name) } else { found })
}

/// Compares digests, and all of them: neither length nor first difference shows in the time taken.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (content_hash(a.as_bytes()), content_hash(b.as_bytes()));
    a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
}

/// How fast writes may come, tries with a wrong token among them: ten at once, one a second in the
/// long run.
#[derive(Default)]
pub(super) struct Pace {
    /// When the burst is used up to nothing again.
    clear: Mutex<Option<Instant>>,
}

impl Pace {
    const EACH: Duration = Duration::from_secs(1);
    const BURST: u32 = 10;

    /// Takes one; says how long to wait when there is none.
    pub(super) fn take(&self, now: Instant) -> Result<(), Duration> {
        let mut clear = self.clear.lock().unwrap_or_else(PoisonError::into_inner);
        let next = clear.map_or(now, |clear| clear.max(now)) + Self::EACH;
        match next.duration_since(now).checked_sub(Self::EACH * Self::BURST) {
            Some(wait) if !wait.is_zero() => Err(wait),
            _ => {
                *clear = Some(next);
                Ok(())
            }
        }
    }
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

    #[test]
    fn tokens_have_names_and_each_is_found() {
        let tokens = tokens("# ours\nalice: abc\nbob:d:e\n\nlonely\n: nameless\nnone:\n");
        assert_eq!(tokens, [("alice", "abc"), ("bob", "d:e"), ("admin", "lonely")]);
        assert_eq!(holder(&tokens, "abc"), Some("alice"));
        assert_eq!(holder(&tokens, "d:e"), Some("bob"));
        assert_eq!(holder(&tokens, "lonely"), Some("admin"));
        for none in ["", "alice", "alice: abc", "abcd"] {
            assert_eq!(holder(&tokens, none), None, "{none}");
        }
        assert_eq!(super::tokens("a:1,b:2"), [("a", "1"), ("b", "2")]);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a point in time to count from")]
    fn writes_come_ten_at_once_and_then_one_a_second() {
        let (pace, now) = (Pace::default(), Instant::now());
        for _ in 0..10 {
            assert_eq!(pace.take(now), Ok(()));
        }
        assert_eq!(pace.take(now), Err(Duration::from_secs(1)));
        assert_eq!(pace.take(now + Duration::from_secs(1)), Ok(()));
        assert!(pace.take(now + Duration::from_secs(1)).is_err());
        assert_eq!(pace.take(now + Duration::from_secs(100)), Ok(()));
    }
}
