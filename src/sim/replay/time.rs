//! Times in access logs, as seconds since 1970.

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The first time in a line: `[01/Dec/2026:10:00:00 +0100]` or `2026-12-01T10:00:00.25Z`.
pub(super) fn find(line: &str) -> Option<f64> {
    let bracketed = line.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    bracketed.chain(line.split_whitespace()).find_map(|word| common(word).or_else(|| iso(word.trim_matches('"'))))
}

/// `01/Dec/2026:10:00:00 +0100`.
fn common(text: &str) -> Option<f64> {
    let (stamp, zone) = text.split_once(' ')?;
    let (date, clock) = stamp.split_once(':')?;
    let mut parts = date.split('/');
    let day = parts.next()?.parse().ok()?;
    let month = parts.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as i64 + 1;
    let year = parts.next()?.parse().ok()?;
    Some(days(year, month, day) as f64 * 86_400.0 + seconds(clock)? - offset(zone)?)
}

/// `2026-12-01T10:00:00.25Z`, or with an offset such as `+01:00`.
fn iso(text: &str) -> Option<f64> {
    let (date, rest) = text.split_once('T')?;
    let mut parts = date.split('-');
    let year = parts.next()?.parse().ok()?;
    let month = parts.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
    let day = parts.next()?.parse().ok()?;
    let zone_at = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    Some(days(year, month, day) as f64 * 86_400.0 + seconds(clock)? - offset(zone)?)
}

fn seconds(clock: &str) -> Option<f64> {
    let mut parts = clock.split(':');
    let (hours, minutes): (f64, f64) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let seconds: f64 = parts.next()?.parse().ok()?;
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}

fn offset(zone: &str) -> Option<f64> {
    let sign = match zone.chars().next() {
        None | Some('Z') => return Some(0.0),
        Some('+') => 1.0,
        Some('-') => -1.0,
        Some(_) => return None,
    };
    let digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    let value: u32 = digits.parse().ok()?;
    Some(sign * f64::from(value / 100 * 3600 + value % 100 * 60))
}

/// Days since 1970-01-01 in the Gregorian calendar: years counted from March, so that a leap day
/// is a year's last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds_since_1970() {
        for (text, want) in [
            ("[01/Jan/1970:00:00:00 +0000]", 0.0),
            ("[29/Feb/2024:23:59:59 +0000]", 1_709_251_199.0),
            ("2026-12-01T10:00:00.5Z", 1_796_119_200.5),
            ("2026-12-01T12:00:00+02:00", 1_796_119_200.0),
            ("x [01/Dec/2026:08:00:00 -0200] y", 1_796_119_200.0),
        ] {
            assert_eq!(find(text), Some(want), "{text}");
        }
        assert_eq!(find("no time here 12:00"), None);
    }
}
