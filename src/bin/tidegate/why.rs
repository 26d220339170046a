//! `tidegate why LIMITER`: what a limiter decided and refused, in words: what bound, what was
//! compared, what would help.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use serde_json::Value;
use tidegate::{Outcome, RejectReason};

use crate::ask::{Columns, Gateway, plain, short};

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The limiter's name.
    limiter: String,
    #[command(flatten)]
    gateway: Gateway,
    /// How many decisions to show.
    #[arg(long, default_value_t = 10)]
    last: usize,
}

/// `tidegate why`.
pub(crate) fn run(args: &WhyArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let text = runtime.block_on(async {
        let gateway = args.gateway.asker()?;
        let path = format!("/api/v1/limiters/{}", args.limiter);
        let (limiter, decisions) = (gateway.get(&path).await?, gateway.get(&format!("{path}/decisions")).await?);
        let history = gateway.get(&format!("{path}/history")).await?;
        anyhow::Ok(explain(&limiter, &decisions, &history, args.last))
    })?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn explain(limiter: &Value, decisions: &Value, history: &Value, last: usize) -> String {
    let mut out = String::new();
    let (past, seconds) = Past::of(history);
    let number = |key: &str| short(limiter[key].as_f64());
    let _ = writeln!(
        out,
        "{}: limit {} (bounds {} to {}), {} in flight, {} waiting; mode {}, law {}",
        text(limiter, "name"),
        number("limit"),
        number("min"),
        number("max"),
        number("in_flight"),
        number("queued"),
        text(limiter, "mode"),
        text(limiter, "law"),
    );
    let [binds, helps] = binding(limiter, past.refused_just_now);
    let _ = writeln!(out, "What binds now: {binds}");
    if !helps.is_empty() {
        let _ = writeln!(out, "  would help: {helps}");
    }
    past.write(&mut out, seconds);
    write_decisions(&mut out, decisions, last);
    out
}

/// What holds requests back, and what would help.
fn binding(limiter: &Value, refuses: bool) -> [String; 2] {
    let number = |key: &str| limiter[key].as_u64().unwrap_or(0);
    let (limit, min, max, in_flight) = (number("limit"), number("min"), number("max"), number("in_flight"));
    let full = in_flight >= limit || number("queued") > 0 || refuses;
    let mode = text(limiter, "mode");
    let [binds, helps] = if limiter["fallback"].is_string() {
        [
            format!("the limiter is full and nothing finishes, so the limit is held at {limit}"),
            "look at the downstream: it holds everything it was given".to_owned(),
        ]
    } else if mode != "enforce" {
        [format!("nothing: in mode {mode} nobody is refused"), String::new()]
    } else if !full {
        [format!("nothing: {in_flight} of {limit} in flight"), String::new()]
    } else if min == max {
        [
            format!("the limit {limit}, which the bounds do not let move"),
            "wider bounds, so that the law may look".to_owned(),
        ]
    } else if limit == max {
        [
            format!("the upper bound {max}: the law may not go above it"),
            "a larger max, if the downstream carries more; try it in shadow or with `tidegate sim`".to_owned(),
        ]
    } else if limit == min {
        [
            format!("the lower bound {min}: the law would go below it or has been pushed there"),
            "look at the downstream's health; less load".to_owned(),
        ]
    } else {
        [
            format!("the limit {limit}, which the law found"),
            "the last decisions below say why it is not larger".to_owned(),
        ]
    };
    [binds, helps]
}

/// Sums over the points of the history.
struct Past {
    refused: Vec<(RejectReason, f64)>,
    finished: Vec<(Outcome, f64)>,
    refused_just_now: bool,
}

impl Past {
    /// The sums, and over how many seconds.
    fn of(history: &Value) -> (Self, usize) {
        let (columns, points) = (Columns::of(history), history["points"].as_array().cloned().unwrap_or_default());
        // A point's first number is its time; its rates hold since the point before.
        let rows: Vec<(f64, &[Value])> =
            points.iter().filter_map(|p| Some((p[0].as_f64()?, p.as_array()?.get(1..)?))).collect();
        let sum = |column| {
            let pairs =
                rows.windows(2).filter_map(|pair| Some((pair[1].0 - pair[0].0) * columns.read(pair[1].1, column)?));
            pairs.sum::<f64>()
        };
        let refused = RejectReason::ALL.map(|reason| (reason, sum(reason.as_str())));
        let finished = Outcome::ALL.map(|outcome| (outcome, sum(outcome.as_str())));
        let refused_just_now = rows.iter().rev().take(2).any(|(_, row)| columns.refused(row) > 0.0);
        let past = Self { refused: some(&refused), finished: some(&finished), refused_just_now };
        let seconds = rows.first().zip(rows.last()).map_or(0.0, |(first, last)| last.0 - first.0);
        (past, seconds.round() as usize)
    }

    fn write(&self, out: &mut String, seconds: usize) {
        let finished: Vec<_> = self.finished.iter().map(|(outcome, n)| format!("{n:.0} {outcome}")).collect();
        let finished = if finished.is_empty() { "nothing".to_owned() } else { finished.join(", ") };
        let _ = writeln!(out, "\nFinished in the last {seconds} s: {finished}");
        if self.refused.is_empty() {
            let _ = writeln!(out, "Refused in the last {seconds} s: nothing");
            return;
        }
        let _ = writeln!(out, "Refused in the last {seconds} s:");
        for (reason, n) in &self.refused {
            let _ = writeln!(out, "  {n:>8.0}  {}  ({reason})", reason.in_words());
            let _ = writeln!(out, "            would help: {}", reason.what_helps());
        }
    }
}

fn some<T: Copy>(counts: &[(T, f64)]) -> Vec<(T, f64)> {
    counts.iter().copied().filter(|(_, n)| *n >= 0.5).collect()
}

fn write_decisions(out: &mut String, decisions: &Value, last: usize) {
    let all = decisions["decisions"].as_array().cloned().unwrap_or_default();
    if all.is_empty() {
        let _ = writeln!(out, "\nNo decision yet.");
        return;
    }
    let _ = writeln!(out, "\nDecisions, newest first:");
    for (record, times) in grouped(&all).into_iter().take(last) {
        let (old, new) = (short(record["old"].as_f64()), short(record["new"].as_f64()));
        let moved = if old == new { format!("stays {new}") } else { format!("{old} -> {new}") };
        let again = if times > 1 { format!(" ({times} windows)") } else { String::new() };
        let _ = writeln!(out, "{:>9} ago  {moved:<12} {}{again}", age(record), text(record, "words"));
        let compared = text(record, "compared");
        if !compared.is_empty() {
            let _ = writeln!(out, "{:28}compared: {compared}", "");
        }
        let _ = writeln!(out, "{:28}{}", "", text(record, "helps"));
    }
}

/// Decisions in a row that leave the limit where it is, for the same reason, count as one.
fn grouped(all: &[Value]) -> Vec<(&Value, usize)> {
    let mut groups: Vec<(&Value, usize)> = Vec::new();
    for record in all {
        let same = |of: &Value| ["old", "new", "reason"].iter().all(|key| of[*key] == record[*key]);
        match groups.last_mut() {
            Some((first, times)) if record["old"] == record["new"] && same(first) => *times += 1,
            _ => groups.push((record, 1)),
        }
    }
    groups
}

fn age(record: &Value) -> String {
    match record["age_ms"].as_f64().unwrap_or(0.0) / 1e3 {
        s if s < 60.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.0} h", s / 3600.0),
    }
}

fn text(of: &Value, key: &str) -> String {
    plain(of[key].as_str().unwrap_or(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn limiter(limit: u32, in_flight: u32) -> Value {
        json!({ "name": "payments", "mode": "enforce", "law": "knee", "limit": limit, "min": 4, "max": 40,
                "in_flight": in_flight, "queued": 0, "fallback": null })
    }

    #[test]
    fn what_binds_is_named() {
        for (limit, in_flight, words) in [
            (20, 5, "nothing: 5 of 20"),
            (40, 40, "upper bound 40"),
            (4, 4, "lower bound 4"),
            (20, 20, "limit 20, which the law"),
        ] {
            let [binds, _] = binding(&limiter(limit, in_flight), false);
            assert!(binds.contains(words), "{binds}");
        }
        let mut stalled = limiter(20, 20);
        stalled["fallback"] = json!("signal");
        assert!(binding(&stalled, true)[0].contains("nothing finishes"));
        assert!(binding(&limiter(20, 19), true)[0].contains("which the law found"), "it refused a moment ago");
    }

    #[test]
    fn the_text_sums_refusals_and_groups_decisions() {
        let history = json!({ "columns": ["limit", "success", "limit_reached"], "points": [[1, 20, null, null], [2, 20, 5, 30], [4, 20, null, 6]] });
        let hold = json!({ "age_ms": 500.0, "old": 20, "new": 20, "reason": "hold", "words": "nothing to change", "compared": "", "helps": "nothing" });
        let grow = json!({ "age_ms": 90_000.0, "old": 19, "new": 20, "reason": "grow", "words": "all well", "compared": "latency 4 ms", "helps": "nothing" });
        let text = explain(&limiter(20, 20), &json!({ "decisions": [hold, hold, grow] }), &history, 10);
        for part in [
            "payments: limit 20 (bounds 4 to 40), 20 in flight",
            "Finished in the last 3 s: 5 success",
            "42  the limit is reached  (limit_reached)",
            "would help: more capacity downstream",
            "0.5 s ago  stays 20     nothing to change (2 windows)",
            "2 min ago  19 -> 20     all well",
            "compared: latency 4 ms",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
