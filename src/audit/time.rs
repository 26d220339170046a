//! Times as operators ask for them.

use std::time::{Duration, SystemTime};

pub use crate::wall::rfc3339;

/// What `--since` means: a date, a time in UTC, or a duration before `now` such as `2h` or `7d`.
/// The answer compares with the times of records as text. `None` when it is none of these.
pub fn since(text: &str, now: SystemTime) -> Option<String> {
    let text = text.trim();
    if let Some(before) = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok()) {
        let before = Duration::from_secs(before.checked_mul(86_400)?);
        return Some(rfc3339(now.checked_sub(before)?));
    }
    if let Some(before) = crate::config::parse_duration(text) {
        return Some(rfc3339(now.checked_sub(before)?));
    }
    let shape = |text: &str| -> String { text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect() };
    let time = text.strip_suffix('Z').unwrap_or(text);
    let known = ["0000-00-00", "0000-00-00T00:00", "0000-00-00T00:00:00", "0000-00-00T00:00:00.000"];
    known.contains(&shape(time).as_str()).then(|| time.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn since_takes_dates_times_and_durations() {
        let now = UNIX_EPOCH + Duration::from_secs(1_796_119_200);
        assert_eq!(since("2h", now).as_deref(), Some("2026-12-01T08:00:00.000Z"));
        assert_eq!(since("7d", now).as_deref(), Some("2026-11-24T10:00:00.000Z"));
        assert_eq!(since("2026-12-01", now).as_deref(), Some("2026-12-01"));
        assert_eq!(since("2026-12-01T09:30:00Z", now).as_deref(), Some("2026-12-01T09:30:00"));
        for wrong in ["", "yesterday", "2026-12", "12:00", "d"] {
            assert_eq!(since(wrong, now), None, "{wrong}");
        }
        assert!(since("2026-12-01T09:30", now).expect("a time") < rfc3339(now));
    }
}
