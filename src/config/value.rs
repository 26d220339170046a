//! Durations and sizes as people write them: `"250ms"`, `"1m30s"`, `"10MiB"`.

use std::time::Duration;

/// Parses a duration: one or more of a whole number and a unit (`ms`, `s`, `m`, `h`), as in `1m30s`.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let milliseconds = match &rest[..letters] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(Duration::from_millis(number.checked_mul(milliseconds)?))?;
    }
    Some(total)
}

/// Writes a duration as [`parse_duration`] reads it; parts of a millisecond are dropped.
pub(crate) fn show_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if ms > 0 && ms.is_multiple_of(size) {
            return format!("{}{unit}", ms / size);
        }
    }
    format!("{ms}ms")
}

/// Parses a size in bytes: a whole number and a unit (`B`, `KiB`, `MiB`, `GiB`), as in `10MiB`.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim() {
        "B" => 0,
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

/// Writes a size as [`parse_size`] reads it.
pub(super) fn show_size(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_they_are_written() {
        for (text, ms) in [("250ms", 250), ("2s", 2000), ("1m30s", 90_000), ("1h", 3_600_000), ("0s", 0)] {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["250ms", "2s", "90s", "1h", "1500ms"] {
            let read = parse_duration(text).expect("valid");
            assert_eq!(parse_duration(&show_duration(read)), Some(read));
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "2", "s", "-1s", "1.5s", "2 weeks", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [("0B", 0), ("10 MiB", 10 << 20), ("3KiB", 3072), ("1GiB", 1 << 30)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
            assert_eq!(parse_size(&show_size(bytes)), Some(bytes));
        }
        for text in ["", "10", "MiB", "10MB", "-1B", "99999999999GiB"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }
}
