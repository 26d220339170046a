//! Raw values to checked ones: each question asked once, each wrong answer noted, nothing stops early.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::file::{Number, Text, Whole};
use super::placed::Spanned;
use super::read::{blank, nearest};
use super::value::{parse_duration, parse_size, show_duration, show_size};
use super::violation::Violation;

/// Collects violations. Each question answers with a usable value, so that checking can go on.
pub(super) struct Check {
    found: Vec<Violation>,
}

impl Check {
    pub(super) fn new(found: Vec<Violation>) -> Self {
        Self { found }
    }

    pub(super) fn into_violations(self) -> Vec<Violation> {
        self.found
    }

    /// Notes that the value at `key` is wrong.
    pub(super) fn wrong<T: Display>(&mut self, key: &str, value: &Spanned<T>, message: impl Display) {
        let shown = value.get_ref().to_string();
        self.found.push(Violation { span: value.span(), ..blank(key, &shown, &message.to_string()) });
    }

    /// Notes that something at `key` is wrong which has a place, and no single value.
    pub(super) fn wrong_at(&mut self, key: &str, place: std::ops::Range<usize>, message: impl Display) {
        self.found.push(Violation { span: place, ..blank(key, "", &message.to_string()) });
    }

    pub(super) fn whole(&mut self, key: &str, raw: &Whole, default: u32, allowed: RangeInclusive<u32>) -> u32 {
        let Some(raw) = raw else { return default };
        match u32::try_from(*raw.get_ref()) {
            Ok(n) if allowed.contains(&n) => n,
            _ => {
                self.wrong(key, raw, format_args!("must be within {} and {}", allowed.start(), allowed.end()));
                default
            }
        }
    }

    pub(super) fn number(&mut self, key: &str, raw: &Number, default: f64, allowed: RangeInclusive<f64>) -> f64 {
        let Some(raw) = raw else { return default };
        if !allowed.contains(raw.get_ref()) {
            self.wrong(key, raw, format_args!("must be within {} and {}", allowed.start(), allowed.end()));
            return default;
        }
        *raw.get_ref()
    }

    pub(super) fn duration(
        &mut self,
        key: &str,
        raw: &Text,
        default: Duration,
        allowed: RangeInclusive<Duration>,
    ) -> Duration {
        let Some(raw) = raw else { return default };
        match parse_duration(raw.get_ref()) {
            Some(duration) if allowed.contains(&duration) => duration,
            Some(_) => {
                let (least, most) = (show_duration(*allowed.start()), show_duration(*allowed.end()));
                self.wrong_text(key, raw, format_args!("must be within {least} and {most}"));
                default
            }
            None => {
                self.wrong_text(key, raw, "must be a duration such as 250ms, 2s or 1m30s");
                default
            }
        }
    }

    pub(super) fn size(&mut self, key: &str, raw: &Text, allowed: RangeInclusive<u64>) -> Option<u64> {
        let raw = raw.as_ref()?;
        match parse_size(raw.get_ref()) {
            Some(size) if allowed.contains(&size) => Some(size),
            Some(_) => {
                let (least, most) = (show_size(*allowed.start()), show_size(*allowed.end()));
                self.wrong_text(key, raw, format_args!("must be within {least} and {most}"));
                None
            }
            None => {
                self.wrong_text(key, raw, "must be a size such as 64KiB or 10MiB");
                None
            }
        }
    }

    /// One of a few words; the first is the default.
    pub(super) fn word<T: Copy>(&mut self, key: &str, raw: &Text, words: &[(&'static str, T)]) -> T {
        let (_, default) = words[0];
        let Some(raw) = raw else { return default };
        if let Some((_, meant)) = words.iter().find(|(word, _)| word == raw.get_ref()) {
            return *meant;
        }
        let allowed: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint = nearest(raw.get_ref(), &allowed).map(|n| format!("did you mean \"{n}\"? ")).unwrap_or_default();
        self.wrong_text(key, raw, format_args!("{hint}allowed: {}", allowed.join(", ")));
        default
    }

    /// A name that is used in labels and paths.
    pub(super) fn name(&mut self, key: &str, name: &Spanned<String>) {
        let text = name.get_ref();
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        if text.is_empty() || text.len() > 64 || !text.chars().all(fits) {
            self.wrong_at(key, name.span(), "a name has 1 to 64 of the characters a-z, 0-9, _ and -");
        }
    }

    pub(super) fn wrong_text(&mut self, key: &str, value: &Spanned<String>, message: impl Display) {
        let shown = format!("\"{}\"", value.get_ref());
        self.found.push(Violation { span: value.span(), ..blank(key, &shown, &message.to_string()) });
    }
}
