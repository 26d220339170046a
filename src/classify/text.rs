//! What can be read out of the beginning of a body without knowing its format: error codes, JSON
//! members, and how long to wait.
//!
//! The text may be cut off anywhere and need not be JSON at all, so it is scanned for strings and what
//! follows them rather than parsed. One pass, no recursion, nothing is allocated.

use std::time::Duration;

use super::time::{duration, leading_duration, seconds};

/// Whether `text` contains `phrase`, upper and lower case aside (ASCII).
pub(super) fn contains(text: &str, phrase: &str) -> bool {
    find(text, phrase).is_some()
}

/// The text after the first `phrase`, upper and lower case aside (ASCII).
fn after<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let at = find(text, phrase)?;
    text.get(at + phrase.len()..)
}

fn find(text: &str, phrase: &str) -> Option<usize> {
    let (text, phrase) = (text.as_bytes(), phrase.as_bytes());
    let Some(first) = phrase.first() else { return Some(0) };
    let (lower, upper) = (first.to_ascii_lowercase(), first.to_ascii_uppercase());
    let last = text.len().checked_sub(phrase.len())?;
    (0..=last).find(|&at| {
        (text[at] == lower || text[at] == upper) && text[at..at + phrase.len()].eq_ignore_ascii_case(phrase)
    })
}

/// The names under which JSON bodies hold an error's code.
const CODE_KEYS: [&str; 7] = ["__type", "code", "Code", "type", "status", "ErrorCode", "reason"];

/// Whether the text carries one of these error codes: as a JSON member that holds codes, as XML
/// `<Code>`, or, when it has neither, as a word of its own, which is how SDKs and logs wrap codes.
pub(super) fn has_code<T: AsRef<str>>(text: &str, codes: &[T]) -> bool {
    let is_one = |code: &str| codes.iter().any(|wanted| bare(code) == wanted.as_ref());
    let mut structured = false;
    for (key, value) in members(text) {
        if let Value::Text(code) = value
            && CODE_KEYS.contains(&key)
        {
            structured = true;
            if is_one(code) {
                return true;
            }
        }
    }
    for code in xml(text, "<Code>") {
        structured = true;
        if is_one(code) {
            return true;
        }
    }
    !structured && codes.iter().any(|wanted| has_word(text, wanted.as_ref()))
}

/// A code without the namespace before it and the address after it.
pub(super) fn bare(code: &str) -> &str {
    let code = code.rsplit('#').next().unwrap_or(code);
    code.split(':').next().unwrap_or(code).trim()
}

fn xml<'a>(text: &'a str, tag: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(tag).skip(1).filter_map(|after| Some(after.split_once('<')?.0.trim()))
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].chars().next_back().is_some_and(is_part)
            && !text[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

/// The value of a JSON member, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A string, with its escapes as they stand.
    Text(&'a str),
    /// A number, `true`, `false` or `null`.
    Plain(&'a str),
    /// An object or an array with something in it.
    Filled,
    /// An object or an array with nothing in it.
    Empty,
}

impl Value<'_> {
    /// Whether it stands for something: not nothing, not zero, not false.
    pub(super) fn is_something(self) -> bool {
        match self {
            Value::Text(text) => !text.is_empty(),
            Value::Plain(plain) => !matches!(plain, "0" | "false" | "null" | "0.0"),
            Value::Filled => true,
            Value::Empty => false,
        }
    }
}

/// All JSON members in order of appearance, at whatever depth. A member that is cut off is left out.
pub(super) fn members(text: &str) -> impl Iterator<Item = (&str, Value<'_>)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let (key, after) = string(rest)?;
            // What stands after a string tells whether it was a key.
            let Some(value) = after.trim_start().strip_prefix(':') else {
                rest = after;
                continue;
            };
            let value = value.trim_start();
            let (value, after) = match value.bytes().next()? {
                b'"' => string(value).map(|(text, after)| (Value::Text(text), after))?,
                open @ (b'{' | b'[') => {
                    let inside = &value[1..];
                    let close = if open == b'{' { '}' } else { ']' };
                    let empty = inside.trim_start().starts_with(close);
                    (if empty { Value::Empty } else { Value::Filled }, inside)
                }
                _ => {
                    let end = value.find([',', '}', ']', '\n', ' '])?;
                    (Value::Plain(&value[..end]), &value[end..])
                }
            };
            rest = after;
            return Some((key, value));
        }
    })
}

/// The next JSON string in a text, and what stands after it.
fn string(text: &str) -> Option<(&str, &str)> {
    let start = text.find('"')? + 1;
    let bytes = text.as_bytes();
    let mut end = start;
    loop {
        match bytes.get(end)? {
            b'"' => return Some((&text[start..end], &text[end + 1..])),
            b'\\' => end += 2,
            _ => end += 1,
        }
    }
}

/// `"retryDelay": "38s"`, as `google.rpc.RetryInfo` reads in JSON; also `"retry_after": 1.5`.
pub(super) fn retry_delay(text: &str) -> Option<Duration> {
    members(text).find_map(|(key, value)| match (key, value) {
        ("retryDelay" | "retry_delay", Value::Text(delay)) => duration(delay),
        ("retry_after" | "retryAfter", Value::Plain(delay)) => seconds(delay),
        _ => None,
    })
}

/// "Please retry in 36.43s", "try again in 2 minutes".
pub(super) fn try_again_in(text: &str) -> Option<Duration> {
    ["retry in ", "try again in ", "retry after "].iter().find_map(|phrase| {
        let said = after(text, phrase)?;
        leading_duration(said).map(|(length, _)| length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_in_every_wrapping() {
        let codes = ["ThrottlingException", "SlowDown", "Throttling"];
        for text in [
            r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#,
            r#"{"__type" : "com.amazonaws.dynamodb.v20120810#ThrottlingException"}"#,
            r#"{"code":"ThrottlingException:http://internal/","message":""}"#,
            "<Error><Code>SlowDown</Code><Message>Please reduce</Message></Error>",
            "<ErrorResponse><Error><Type>Sender</Type>\n<Code> Throttling </Code></Error></ErrorResponse>",
            "An error occurred (ThrottlingException) when calling the PutItem operation: Rate exceeded",
            "ThrottlingException: Rate exceeded\n\tstatus code: 400",
        ] {
            assert!(has_code(text, &codes), "{text}");
        }
        for text in [
            "",
            r#"{"__type":"ValidationException","message":"no ThrottlingException here"}"#,
            "<Error><Code>AccessDenied</Code><Message>SlowDown is not allowed</Message></Error>",
            "NotThrottlingException",
            r#"{"__type":"Throttl"#,
        ] {
            assert!(!has_code(text, &codes), "{text}");
        }
    }

    #[test]
    fn members_come_out_of_whole_and_of_cut_texts() {
        let text = r#"{"took": 9, "errors":true,"a\"b":"c\\","items":[{"index":{"status":429}}],"none":{ },"x":[]"#;
        let found: Vec<_> = members(text).collect();
        assert_eq!(
            found,
            [
                ("took", Value::Plain("9")),
                ("errors", Value::Plain("true")),
                ("a\\\"b", Value::Text("c\\\\")),
                ("items", Value::Filled),
                ("index", Value::Filled),
                ("status", Value::Plain("429")),
                ("none", Value::Empty),
                ("x", Value::Empty),
            ]
        );
        for cut in 0..text.len() {
            let _ = members(&text[..cut]).count();
        }
        assert_eq!(members("<html>\"quoted\" and \"more").count(), 0);
    }

    #[test]
    fn waits_are_found_in_members_and_in_words() {
        let google =
            r#"{"error":{"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}"#;
        assert_eq!(retry_delay(google), Some(Duration::from_secs(38)));
        assert_eq!(retry_delay(r#"{"retryDelay":"0.847655010s"}"#), Some(Duration::from_nanos(847_655_010)));
        assert_eq!(retry_delay(r#"{"retry_after":1.5,"global":false}"#), Some(Duration::from_millis(1500)));
        let told = try_again_in("Rate limit reached. Please Try again in 6m0.5s. See the docs");
        assert_eq!(told, Some(Duration::from_millis(360_500)));
        assert_eq!(try_again_in("Please wait a few minutes before you try again."), None);
        assert_eq!(try_again_in("try again in the morning"), None);
    }
}
