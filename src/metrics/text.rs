//! The numbers of many limiters as Prometheus text, written in one go.
//!
//! A recorder behind the facade keeps every series as an object of its own, which is right for the few
//! numbers of a process and too slow for those of a thousand limiters. This writes their lines into one
//! buffer a metric and puts them together with what a recorder has rendered, so that each metric stands
//! in one group, as the format asks.

use std::collections::HashMap;
use std::fmt::Write;

use super::limiter::{Kind, LIMITER, write};
use super::sink::{Labels, Sink, octaves, upper};
use crate::histogram::Durations;
use crate::limiter::Snapshot;

/// Prometheus text (format 0.0.4) of limiters' numbers.
///
/// ```
/// use tidegate::{Limiter, metrics::Text};
///
/// let limiter = Limiter::builder("payments").bounds(4, 200).build().expect("good bounds");
/// let mut text = Text::default();
/// text.limiter(&limiter.snapshot());
/// assert!(text.render("").contains("\ntidegate_limit_max{limiter=\"payments\"} 200\n"));
/// ```
#[derive(Debug, Default)]
pub struct Text {
    lines: HashMap<&'static str, String>,
    uppers: Vec<String>,
}

impl Text {
    /// Adds a limiter's numbers.
    pub fn limiter(&mut self, now: &Snapshot) {
        write(now, self);
    }

    /// Everything, and the text that a recorder has rendered: metrics that stand in both become one group.
    pub fn render(mut self, rendered: &str) -> String {
        let size = self.lines.values().map(|lines| lines.len() + 200).sum::<usize>() + rendered.len();
        let mut out = String::with_capacity(size);
        for line in rendered.lines() {
            match line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                // The recorder's own lines of this metric follow.
                Some((name, _)) => {
                    out.extend([line, "\n", &self.lines.remove(name).unwrap_or_default()]);
                }
                None => out.extend([line, "\n"]),
            }
        }
        for metric in LIMITER {
            if let Some(lines) = self.lines.remove(metric.family()) {
                let (name, kind) = (metric.family(), metric.kind.as_str());
                out.extend(["# HELP ", name, " ", metric.help, "\n# TYPE ", name, " ", kind, "\n", &lines, "\n"]);
            }
        }
        out
    }

    fn line(
        &mut self,
        family: &'static str,
        name: &str,
        labels: Labels<'_>,
        more: Option<(&str, &str)>,
    ) -> &mut String {
        let out = self.lines.entry(family).or_default();
        out.push_str(name);
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(more) {
            out.push(before);
            out.push_str(name);
            out.push_str("=\"");
            escape(value, out);
            out.push('"');
            before = ',';
        }
        out.push_str(if before == '{' { " " } else { "} " });
        out
    }
}

impl Sink for Text {
    fn gauge(&mut self, name: &'static str, labels: Labels<'_>, value: f64) {
        put(self.line(name, name, labels, None), value);
    }

    fn counter(&mut self, name: &'static str, labels: Labels<'_>, value: u64) {
        put(self.line(name, name, labels, None), value);
    }

    fn durations(&mut self, names: [&'static str; 3], labels: Labels<'_>, durations: &Durations) {
        let family = Kind::Histogram.family(names[0]);
        if self.uppers.is_empty() {
            self.uppers = octaves(durations).map(|(end, _)| upper(end)).collect();
        }
        let uppers = std::mem::take(&mut self.uppers);
        // Most lines are buckets, and all of a limiter begin alike.
        let out = self.line(family, names[0], labels, Some(("le", "")));
        let begin = out.len() - out.lines().next_back().map_or(0, str::len);
        let start = out.split_off(begin);
        let start = start.trim_end_matches("\"} ");
        for ((_, so_far), end) in octaves(durations).zip(&uppers) {
            out.extend([start, end, "\"} "]);
            put(out, so_far);
        }
        self.uppers = uppers;
        put(self.line(family, names[1], labels, None), durations.sum().as_secs_f64());
        put(self.line(family, names[2], labels, None), durations.count());
    }
}

fn put(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{value}");
}

fn escape(value: &str, out: &mut String) {
    if !value.contains(['\\', '"', '\n']) {
        return out.push_str(value);
    }
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limiter, Outcome};

    fn text(name: &str, rendered: &str) -> String {
        let limiter = Limiter::builder(name).build().expect("the defaults are valid");
        limiter.try_acquire().expect("not full").finish(Outcome::Success);
        let mut text = Text::default();
        text.limiter(&limiter.snapshot());
        text.render(rendered)
    }

    #[test]
    fn a_metric_stands_in_one_group_also_when_the_recorder_has_some_of_it() {
        let rendered = "# HELP tidegate_fallback_active x\n# TYPE tidegate_fallback_active gauge\n\
                        tidegate_fallback_active{kind=\"config\"} 0\n\n# TYPE up gauge\nup 1\n";
        let text = text("a", rendered);
        assert_eq!(text.matches("# TYPE tidegate_fallback_active gauge\n").count(), 1);
        let ours = "gauge\ntidegate_fallback_active{limiter=\"a\",kind=\"signal\"} 0\n";
        assert!(text.contains(ours) && text.contains("\nup 1\n"), "{text}");
    }

    #[test]
    fn durations_are_a_histogram_with_cumulative_buckets() {
        let text = text("a", "");
        assert!(text.contains("# TYPE tidegate_latency_seconds histogram\n"), "{text}");
        assert!(text.contains("tidegate_latency_seconds_bucket{limiter=\"a\",le=\"+Inf\"} 1\n"));
        assert!(text.contains("tidegate_latency_seconds_count{limiter=\"a\"} 1\n"));
    }

    #[test]
    fn a_name_cannot_break_out_of_its_label() {
        assert!(text("a\"}\n\\b", "").contains("tidegate_inflight{limiter=\"a\\\"}\\n\\\\b\"} 0\n"));
    }
}
