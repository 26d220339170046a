//! One absolute deadline for a request, and how its remaining budget is read and written.
//!
//! Says nothing about what happens when it passes. A deadline is fixed once, on arrival; whoever
//! passes it on writes what is left of it, never more, and never zero, which some read as "no limit".

use std::time::{Duration, Instant};

use crate::classify::Headers;

/// When a request's answer is no longer of use. Put into a request's extensions it holds for all its
/// attempts, and the layers and clients here cut their waits by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// At this moment.
    pub const fn at(moment: Instant) -> Self {
        Self(moment)
    }

    /// `budget` after `now`. A budget beyond what a clock can say is a century.
    pub fn after(now: Instant, budget: Duration) -> Self {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
        Self(now.checked_add(budget).unwrap_or_else(|| now + CENTURY))
    }

    /// The moment.
    pub const fn moment(self) -> Instant {
        self.0
    }

    /// What is left of it; zero when it has passed.
    pub fn remaining(self, now: Instant) -> Duration {
        self.0.saturating_duration_since(now)
    }

    /// Whether it has passed.
    pub fn has_passed(self, now: Instant) -> bool {
        self.0 <= now
    }
}

/// The unit of a header that carries a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum BudgetUnit {
    /// Milliseconds, written as a whole number.
    #[default]
    Millis,
    /// Seconds, written with up to three decimals.
    Seconds,
}

impl BudgetUnit {
    /// Reads a budget; decimals are welcome. `None` for what is no number, negative or beyond all reason.
    pub fn parse(self, text: &str) -> Option<Duration> {
        let number: f64 = text.trim().parse().ok()?;
        let seconds = match self {
            BudgetUnit::Millis => number / 1000.0,
            BudgetUnit::Seconds => number,
        };
        Duration::try_from_secs_f64(seconds).ok()
    }

    /// Writes a budget, rounded down and at least one millisecond.
    pub fn write(self, budget: Duration) -> String {
        let millis = budget.as_millis().max(1);
        match self {
            BudgetUnit::Millis => millis.to_string(),
            BudgetUnit::Seconds if millis.is_multiple_of(1000) => (millis / 1000).to_string(),
            BudgetUnit::Seconds => format!("{}.{:03}", millis / 1000, millis % 1000),
        }
    }
}

/// Reads a `grpc-timeout`: up to eight digits and a unit.
pub fn parse_grpc_timeout(text: &str) -> Option<Duration> {
    let (number, unit) = text.trim().split_at_checked(text.trim().len().checked_sub(1)?)?;
    if number.is_empty() || number.len() > 8 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = number.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

/// Writes a `grpc-timeout` in the finest unit that has room for it, rounded down and at least 1 ns.
pub fn write_grpc_timeout(budget: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let units = [
        (budget.as_nanos(), 'n'),
        (budget.as_micros(), 'u'),
        (budget.as_millis(), 'm'),
        (u128::from(budget.as_secs()), 'S'),
        (u128::from(budget.as_secs() / 60), 'M'),
    ];
    let (number, unit) = units
        .into_iter()
        .find(|(number, _)| *number <= MOST)
        .unwrap_or((u128::from(budget.as_secs() / 3600).min(MOST), 'H'));
    format!("{}{unit}", number.max(1))
}

/// The budget that a request brings: the shorter of its `grpc-timeout` and the named header.
/// What cannot be read counts as absent.
pub fn budget(headers: &(impl Headers + ?Sized), header: Option<(&str, BudgetUnit)>) -> Option<Duration> {
    let grpc = headers.value("grpc-timeout").and_then(parse_grpc_timeout);
    let named = header.and_then(|(name, unit)| unit.parse(headers.value(name)?));
    match (grpc, named) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts_are_read_in_every_unit() {
        for (text, read) in [
            ("1H", Some(Duration::from_secs(3600))),
            ("2M", Some(Duration::from_secs(120))),
            ("3S", Some(Duration::from_secs(3))),
            ("100m", Some(Duration::from_millis(100))),
            ("7u", Some(Duration::from_micros(7))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("0S", Some(Duration::ZERO)),
            ("100000000m", None),
            ("-1S", None),
            ("+1S", None),
            ("S", None),
            ("5", None),
            ("5ä", None),
            ("", None),
        ] {
            assert_eq!(parse_grpc_timeout(text), read, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_never_more_and_reads_back() {
        for budget in [
            Duration::from_nanos(1),
            Duration::from_millis(99),
            Duration::from_millis(2500),
            Duration::from_secs(101),
            Duration::from_secs(200_000),
            Duration::from_secs(4_000_000_000),
            Duration::from_secs(u64::MAX / 4000),
        ] {
            let text = write_grpc_timeout(budget);
            assert!(text.len() <= 9, "{text}");
            assert!(parse_grpc_timeout(&text).expect("readable") <= budget, "{text}");
        }
        assert_eq!(write_grpc_timeout(Duration::from_millis(2500)), "2500000u");
        assert_eq!(write_grpc_timeout(Duration::ZERO), "1n", "zero may mean unlimited to somebody");
    }

    #[test]
    fn headers_in_milliseconds_and_seconds() {
        let (ms, s) = (BudgetUnit::Millis, BudgetUnit::Seconds);
        assert_eq!(ms.parse(" 250 "), Some(Duration::from_millis(250)));
        assert_eq!(s.parse("1.5"), Some(Duration::from_millis(1500)));
        for bad in ["", "soon", "-1", "NaN", "inf", "1e300"] {
            assert_eq!(s.parse(bad), None, "{bad}");
        }
        assert_eq!(ms.write(Duration::from_micros(249_999)), "249");
        assert_eq!(ms.write(Duration::ZERO), "1");
        assert_eq!(s.write(Duration::from_millis(1250)), "1.250");
        assert_eq!(s.write(Duration::from_secs(3)), "3");
    }

    #[test]
    fn the_shorter_of_two_budgets_counts() {
        let headers: &[_] = &[("grpc-timeout", "2S"), ("x-timeout-ms", "500")];
        assert_eq!(budget(headers, None), Some(Duration::from_secs(2)));
        assert_eq!(budget(headers, Some(("x-timeout-ms", BudgetUnit::Millis))), Some(Duration::from_millis(500)));
        assert_eq!(budget(headers, Some(("x-other", BudgetUnit::Millis))), Some(Duration::from_secs(2)));
        assert_eq!(budget(&(), Some(("x-timeout-ms", BudgetUnit::Millis))), None);
    }

    #[test]
    fn a_deadline_counts_down_to_zero() {
        let now = crate::clock::now();
        let deadline = Deadline::after(now, Duration::from_secs(2));
        assert_eq!(deadline.remaining(now + Duration::from_millis(500)), Duration::from_millis(1500));
        assert_eq!(deadline.remaining(now + Duration::from_secs(3)), Duration::ZERO);
        assert!(deadline.has_passed(now + Duration::from_secs(2)) && !deadline.has_passed(now));
        assert!(Deadline::after(now, Duration::MAX) > deadline);
    }
}
