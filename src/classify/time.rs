//! Reads numbers of seconds, durations and dates as they stand in headers and messages.
//!
//! Everything is read leniently and answered with `None` when it makes no sense; a wait is never
//! read as shorter than it was written, except that nothing is longer than [`LONGEST`].

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What is too large for any clock is this: a long wait, not none. There is room above it for the
/// arithmetic of those who use it.
const LONGEST: Duration = Duration::from_secs(1 << 53);

/// Seconds, with or without a fraction.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let text = text.trim();
    // `parse` also takes "inf", "nan" and exponents; a server means none of them.
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.bytes().any(|b| b.is_ascii_digit());
    let number: f64 = text.parse().ok().filter(|_| plain)?;
    Some(Duration::try_from_secs_f64(number).map_or(LONGEST, |length| length.min(LONGEST)))
}

/// Numbers with units, as in `1h2m3.5s`, `6m0s` or `12ms`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (length, rest) = leading_duration(text.trim())?;
    rest.is_empty().then_some(length)
}

/// The duration that a text begins with, also in words (`2 minutes`), and the rest of the text.
pub(super) fn leading_duration(text: &str) -> Option<(Duration, &str)> {
    let mut total: Option<Duration> = None;
    let mut rest = text;
    while let Some((length, after)) = one_part(rest) {
        total = Some(total.unwrap_or_default().saturating_add(length).min(LONGEST));
        rest = after;
    }
    Some((total?, rest))
}

fn one_part(text: &str) -> Option<(Duration, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let fraction = match text[digits..].strip_prefix('.') {
        Some(after) => 1 + after.bytes().take_while(u8::is_ascii_digit).count(),
        None => 0,
    };
    let (number, rest) = text.split_at(digits + if fraction > 1 { fraction } else { 0 });
    let number = seconds(number)?;
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    let (unit, rest) = rest.split_at(rest.bytes().take_while(|b| b.is_ascii_alphabetic() || *b >= 0x80).count());
    let length = match unit.to_ascii_lowercase().as_str() {
        "ns" => number / 1_000_000_000,
        "us" | "µs" | "μs" => number / 1_000_000,
        "ms" | "milliseconds" | "millisecond" => number / 1000,
        "s" | "sec" | "secs" | "second" | "seconds" => number,
        "m" | "min" | "mins" | "minute" | "minutes" => number.saturating_mul(60),
        "h" | "hour" | "hours" => number.saturating_mul(3600),
        "d" | "day" | "days" => number.saturating_mul(86_400),
        _ => return None,
    };
    Some((length, rest))
}

/// One of the three forms that HTTP allows. `now` tells the century of a two-digit year: the date
/// lies at most 50 years ahead.
pub(super) fn http_date(text: &str, now: SystemTime) -> Option<SystemTime> {
    let text = text.trim();
    if text.len() > 64 || !text.is_ascii() {
        return None;
    }
    let mut words = text.split_ascii_whitespace();
    match text.split_once(',') {
        // Thu, 10 Sep 2026 06:02:00 GMT
        Some((_, rest)) if !rest.contains('-') => {
            let mut words = rest.split_ascii_whitespace();
            let (day, month, year) = (number(words.next()?)?, month(words.next()?)?, number(words.next()?)?);
            moment(year, month, day, words.next()?)
        }
        // Thursday, 10-Sep-26 06:02:00 GMT
        Some((_, rest)) => {
            let mut words = rest.split_ascii_whitespace();
            let mut date = words.next()?.split('-');
            let (day, month, year) = (number(date.next()?)?, month(date.next()?)?, number(date.next()?)?);
            moment(if year < 100 { century(year, now) } else { year }, month, day, words.next()?)
        }
        // Thu Sep 10 06:02:00 2026
        None => {
            let (_, month, day) = (words.next()?, month(words.next()?)?, number(words.next()?)?);
            let time = words.next()?;
            moment(number(words.next()?)?, month, day, time)
        }
    }
}

/// `2026-09-10T06:01:00.5Z`, or with an offset.
pub(super) fn rfc3339(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    if text.len() > 64 || !text.is_ascii() {
        return None;
    }
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next()?)?, number(date.next()?)?, number(date.next()?)?);
    let ends = rest.find(['Z', 'z', '+', '-'])?;
    let (time, offset) = rest.split_at(ends);
    let local = moment(year, month, day, time)?;
    let mut minutes = offset[1..].split(':');
    let offset_length = match offset.as_bytes()[0] {
        b'Z' | b'z' => return Some(local),
        _ => Duration::from_secs(number(minutes.next()?)? * 3600 + number(minutes.next().unwrap_or("0"))? * 60),
    };
    if offset.starts_with('+') { local.checked_sub(offset_length) } else { local.checked_add(offset_length) }
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|_| text.len() <= 4 && text.bytes().all(|b| b.is_ascii_digit()))
}

fn month(name: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let at = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    Some(at as u64 + 1)
}

fn century(year: u64, now: SystemTime) -> u64 {
    let this = 1970 + now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 31_556_952;
    let candidate = this - this % 100 + year;
    if candidate > this + 50 { candidate - 100 } else { candidate }
}

/// A date and a time of the form `06:02:00`, fractions allowed.
fn moment(year: u64, month: u64, day: u64, time: &str) -> Option<SystemTime> {
    let mut parts = time.split(':');
    let (hour, minute) = (number(parts.next()?)?, number(parts.next()?)?);
    let second = seconds(parts.next()?)?;
    let fits = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || hour > 23 || minute > 59 || second >= Duration::from_secs(61) || parts.next().is_some() {
        return None;
    }
    let at_midnight = Duration::from_secs(days(year, month, day) * 86_400);
    UNIX_EPOCH.checked_add(at_midnight + Duration::from_secs(hour * 3600 + minute * 60) + second)
}

/// Days from 1970 to a date. Years begin in March here, so that a leap day is the last of its year.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let in_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let to_year = year * 365 + year / 4 - year / 100 + year / 400;
    // Day 0 of this count is 1 March of year 0.
    to_year + in_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(secs)
    }

    // 2026-09-10T06:00:00Z, as `date -u -d ... +%s` says.
    const NOW: u64 = 1_789_020_000;

    #[test]
    fn all_three_forms_of_a_date_are_read() {
        for text in [
            "Thu, 10 Sep 2026 06:02:00 GMT",
            "Thursday, 10-Sep-26 06:02:00 GMT",
            "Thu Sep 10 06:02:00 2026",
            "Thu Sep  10 06:02:00 2026",
        ] {
            assert_eq!(http_date(text, at(NOW)), Some(at(NOW + 120)), "{text}");
        }
        assert_eq!(http_date("Sunday, 06-Nov-94 08:49:37 GMT", at(NOW)), Some(at(784_111_777)));
        assert_eq!(http_date("Thu, 29 Feb 2024 00:00:00 GMT", at(NOW)), Some(at(1_709_164_800)));
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "Thu, 10 Sep",
            "Thu, 99 Sep 2026 06:02:00 GMT",
            "Thu, 10 Sep 2026 25:02:00 GMT",
            "1 2 3 4 5",
            ",",
        ] {
            assert_eq!(http_date(text, at(NOW)), None, "{text}");
        }
    }

    #[test]
    fn rfc3339_with_and_without_offset() {
        for text in
            ["2026-09-10T06:01:00Z", "2026-09-10T08:01:00+02:00", "2026-09-10t01:01:00-05:00", "2026-09-10T06:01:00.0Z"]
        {
            assert_eq!(rfc3339(text), Some(at(NOW + 60)), "{text}");
        }
        for text in ["2026-09-10", "2026-09-10T06:01:00", "2026-13-10T06:01:00Z", "T", "-T-Z", "2026-09-10T06:01:00+"] {
            assert_eq!(rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn durations_of_every_spelling() {
        let ms = Duration::from_millis;
        for (text, expected) in [
            ("6m0s", ms(360_000)),
            ("12ms", ms(12)),
            ("1m30s", ms(90_000)),
            ("1h2m3.5s", ms(3_723_500)),
            ("0.5s", ms(500)),
            ("250us", Duration::from_micros(250)),
            ("1d", ms(86_400_000)),
        ] {
            assert_eq!(duration(text), Some(expected), "{text}");
        }
        assert_eq!(leading_duration("20s. Visit"), Some((ms(20_000), ". Visit")));
        assert_eq!(leading_duration("2 minutes, please"), Some((ms(120_000), ", please")));
        for text in ["", "s", "5", "5x", "5s6", "-5s"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn seconds_never_come_out_shorter() {
        for (text, least) in [("0.503", 503_000_000), ("292.052427053", 292_052_427_053), ("1.5", 1_500_000_000)] {
            assert!(seconds(text).expect(text).as_nanos() >= least, "{text}");
        }
        for text in ["", "-1", "1e3", "inf", "nan", "abc", ".", "1.2.3"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_is_long_and_not_nothing() {
        let digits = "9".repeat(5000);
        for text in ["18446744073709551615", "99999999999999999999", &digits] {
            assert_eq!(seconds(text), Some(LONGEST), "{text}");
            for unit in ["s", "m", "h", "d"] {
                assert_eq!(duration(&format!("{text}{unit}{text}s")), Some(LONGEST), "{text}{unit}");
            }
        }
    }
}
