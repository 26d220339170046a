//! Results as a table, as Markdown and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compare::Row;
use super::scenario::Scenario;
use super::score::Score;

/// Means over the seeds of one law in one scenario (and start).
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Position of its scenario.
    pub scenario: usize,
    /// The set of its scenario.
    pub set: String,
    /// Name of the scenario.
    pub name: String,
    /// The law.
    pub law: String,
    /// Mean of each score.
    pub mean: Score,
    /// Lowest goodput of a seed.
    pub worst: f64,
}

/// One law over all scenarios of a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// The set.
    pub set: String,
    /// The law.
    pub law: String,
    /// Mean of each score over the scenarios.
    pub mean: Score,
    /// Lowest goodput of a scenario, and which.
    pub worst: (f64, String),
    /// Fifth percentile of goodput over the scenarios.
    pub fifth: f64,
    /// Highest p99 of a scenario.
    pub worst_p99: f64,
}

fn mean(scores: &[Score]) -> Score {
    let n = scores.len().max(1) as f64;
    let of = |part: fn(&Score) -> f64| scores.iter().map(part).sum::<f64>() / n;
    Score {
        goodput: of(|s| s.goodput),
        p99: of(|s| s.p99),
        settle_s: of(|s| s.settle_s),
        settle_latencies: of(|s| s.settle_latencies),
        needless: of(|s| s.needless),
        calm_shed: of(|s| s.calm_shed),
        jain: of(|s| s.jain),
    }
}

/// Means over the seeds, in the order of the rows.
pub fn summaries(rows: &[Row]) -> Vec<Summary> {
    let mut order: Vec<(usize, &str, &str)> = Vec::new();
    let mut of: BTreeMap<(usize, &str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (row.scenario, row.name.as_str(), row.law.as_str());
        let same = of.entry(key).or_default();
        if same.is_empty() {
            order.push(key);
        }
        same.push(row);
    }
    order.into_iter().map(|key| summary(&of[&key])).collect()
}

fn summary(rows: &[&Row]) -> Summary {
    let scores: Vec<Score> = rows.iter().map(|row| row.score).collect();
    let worst = scores.iter().map(|s| s.goodput).fold(f64::INFINITY, f64::min);
    let first = rows[0];
    let (set, name, law) = (first.set.clone(), first.name.clone(), first.law.clone());
    Summary { scenario: first.scenario, set, name, law, mean: mean(&scores), worst }
}

/// Each law over all scenarios of each set, in the order in which sets and laws first appear.
pub fn standings(summaries: &[Summary]) -> Vec<Standing> {
    let mut keys: Vec<(&str, &str)> = Vec::new();
    for summary in summaries {
        let key = (summary.set.as_str(), summary.law.as_str());
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    // Stable: sets in their order, and within each the laws in theirs.
    let sets: Vec<&str> = keys.iter().map(|key| key.0).collect();
    keys.sort_by_key(|key| sets.iter().position(|set| *set == key.0));
    keys.into_iter().map(|(set, law)| standing(set, law, summaries)).collect()
}

fn standing(set: &str, law: &str, summaries: &[Summary]) -> Standing {
    let of: Vec<&Summary> = summaries.iter().filter(|s| s.law == law && s.set == set).collect();
    let mut goodputs: Vec<(f64, &str)> = of.iter().map(|s| (s.mean.goodput, s.name.as_str())).collect();
    goodputs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let scores: Vec<Score> = of.iter().map(|s| s.mean).collect();
    let worst = goodputs.first().copied().unwrap_or((0.0, ""));
    let fifth = goodputs.get((goodputs.len().saturating_sub(1)) / 20).copied().unwrap_or((0.0, ""));
    Standing {
        set: set.to_owned(),
        law: law.to_owned(),
        mean: mean(&scores),
        worst: (worst.0, worst.1.to_owned()),
        fifth: fifth.0,
        worst_p99: scores.iter().map(|s| s.p99).fold(0.0, f64::max),
    }
}

/// `{"rows": [{"scenario", "law", "seed", "goodput", "p99", "settle_s", "needless"}]}`.
pub fn json(rows: &[Row]) -> String {
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| {
            serde_json::json!({
                "scenario": row.name,
                "law": row.law,
                "seed": row.seed,
                "goodput": row.score.goodput,
                "p99": row.score.p99,
                "settle_s": row.score.settle_s,
                "needless": row.score.needless,
            })
        })
        .collect();
    serde_json::json!({ "rows": rows }).to_string()
}

const HEAD: [&str; 10] =
    ["scenario", "law", "goodput", "worst seed", "p99", "settle s", "settle lat.", "needless", "calm shed", "Jain"];

const STANDING: [&str; 11] = [
    "law",
    "goodput",
    "worst",
    "5th percentile",
    "p99",
    "worst p99",
    "settle s",
    "settle lat.",
    "needless",
    "calm shed",
    "Jain",
];

fn cells(summary: &Summary) -> [String; 10] {
    let score = &summary.mean;
    [
        summary.name.clone(),
        summary.law.clone(),
        format!("{:.3}", score.goodput),
        format!("{:.3}", summary.worst),
        format!("{:.2}", score.p99),
        format!("{:.2}", score.settle_s),
        format!("{:.1}", score.settle_latencies),
        format!("{:.3}", score.needless),
        format!("{:.4}", score.calm_shed),
        format!("{:.3}", score.jain),
    ]
}

/// A table for a terminal: every scenario and law, then each law's standing.
pub fn table(summaries: &[Summary]) -> String {
    let rows: Vec<[String; 10]> = summaries.iter().map(cells).collect();
    let width = |i: usize| rows.iter().map(|r| r[i].len()).chain([HEAD[i].len()]).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for row in std::iter::once(HEAD.map(str::to_owned)).chain(rows) {
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i < 2 { write!(out, "{cell:<width$}  ") } else { write!(out, "{cell:>width$}  ") };
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out + "\n" + &standing_lines(summaries)
}

/// One line for each set and law.
pub fn standing_lines(summaries: &[Summary]) -> String {
    let mut out = String::new();
    for s in standings(summaries) {
        let gap = if s.set.is_empty() { "" } else { " " };
        let _ = writeln!(
            out,
            "{}{gap}{}: goodput mean {:.4} worst {:.3} ({}) 5th percentile {:.3}; p99 mean {:.2} worst {:.2}; \
             settling {:.2} s, {:.1} mean latencies; needless {:.3}; calm shed {:.4}; Jain {:.3}",
            s.set,
            s.law,
            s.mean.goodput,
            s.worst.0,
            s.worst.1,
            s.fifth,
            s.mean.p99,
            s.worst_p99,
            s.mean.settle_s,
            s.mean.settle_latencies,
            s.mean.needless,
            s.mean.calm_shed,
            s.mean.jain,
        );
    }
    out
}

/// The same as Markdown: for each set the laws' standings, then every scenario.
pub fn markdown(summaries: &[Summary]) -> String {
    let mut out = String::new();
    let mut set = None;
    for s in standings(summaries) {
        if set.as_ref() != Some(&s.set) {
            let title = if s.set.is_empty() { "scenarios" } else { &s.set };
            let _ = writeln!(out, "\n## {title}\n\n| {} |\n|{}", STANDING.join(" | "), "---|".repeat(STANDING.len()));
            set = Some(s.set.clone());
        }
        let _ = writeln!(
            out,
            "| {} | {:.3} | {:.3} ({}) | {:.3} | {:.2} | {:.2} | {:.2} | {:.1} | {:.3} | {:.4} | {:.3} |",
            s.law,
            s.mean.goodput,
            s.worst.0,
            s.worst.1,
            s.fifth,
            s.mean.p99,
            s.worst_p99,
            s.mean.settle_s,
            s.mean.settle_latencies,
            s.mean.needless,
            s.mean.calm_shed,
            s.mean.jain,
        );
    }
    let _ = writeln!(out, "\n## every scenario\n\n| set | {} |\n|---|{}", HEAD.join(" | "), "---|".repeat(HEAD.len()));
    for summary in summaries {
        let _ = writeln!(out, "| {} | {} |", summary.set, cells(summary).join(" | "));
    }
    out.trim_start().to_owned()
}

/// What lies outside the ranges that the scenarios accept; empty when all is well.
pub fn violations(scenarios: &[Scenario], summaries: &[Summary]) -> Vec<String> {
    let mut out = Vec::new();
    for summary in summaries {
        let Some(accept) = scenarios[summary.scenario].accept.get(&summary.law) else { continue };
        let score = &summary.mean;
        let mut most = |what: &str, value: f64, most: Option<f64>| {
            if let Some(most) = most.filter(|most| value > *most || value.is_nan()) {
                out.push(format!("{} {}: {what} {value:.4} is above {most}", summary.name, summary.law));
            }
        };
        most("p99", score.p99, accept.p99);
        most("settle_s", score.settle_s, accept.settle_s);
        most("needless", score.needless, accept.needless);
        most("calm_shed", score.calm_shed, accept.calm_shed);
        if let Some([low, high]) = accept.goodput
            && !(low..=high).contains(&score.goodput)
        {
            out.push(format!(
                "{} {}: goodput {:.4} is outside {low}..{high}",
                summary.name, summary.law, score.goodput
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::scenario::{Accept, Demand, Downstream};

    fn row(set: &str, name: &str, law: &str, seed: u64, goodput: f64) -> Row {
        let score = Score { goodput, p99: 1.2, settle_s: 0.5, needless: 0.01, jain: 1.0, ..Score::default() };
        Row { scenario: 0, set: set.to_owned(), name: name.to_owned(), law: law.to_owned(), seed, score }
    }

    #[test]
    fn json_has_the_promised_keys_and_no_others() {
        let value: serde_json::Value = serde_json::from_str(&json(&[row("busy", "x", "fixed", 3, 0.5)])).expect("JSON");
        let want = serde_json::json!({"rows": [{
            "scenario": "x", "law": "fixed", "seed": 3, "goodput": 0.5, "p99": 1.2, "settle_s": 0.5, "needless": 0.01
        }]});
        assert_eq!(value, want);
    }

    #[test]
    fn means_are_over_seeds_and_standings_over_the_scenarios_of_a_set() {
        let rows = [
            row("a", "x", "l", 1, 0.5),
            row("a", "x", "l", 2, 0.7),
            row("a", "y", "l", 1, 1.0),
            row("b", "x", "l", 1, 0.1),
        ];
        let mut rows = rows;
        rows[3].scenario = 1;
        let summaries = summaries(&rows);
        assert_eq!(summaries.iter().map(|s| s.worst).collect::<Vec<_>>(), [0.5, 1.0, 0.1]);
        let standings = standings(&summaries);
        assert_eq!((standings.len(), standings[0].worst.1.as_str()), (2, "x"));
        assert!((standings[0].mean.goodput - 0.8).abs() < 1e-12);
        for part in ["## a", "## b", "| l | 0.800 | 0.600 (x) |"] {
            assert!(markdown(&summaries).contains(part), "{part}");
        }
    }

    #[test]
    fn a_score_outside_its_range_is_told() {
        let mut scenario = Scenario::bare("x", 1.0, Demand::Constant, Downstream::Delay);
        let accept = Accept { goodput: Some([0.6, 1.0]), p99: Some(1.1), ..Accept::default() };
        scenario.accept.insert("fixed".to_owned(), accept);
        let summaries = summaries(&[row("", "x", "fixed", 1, 0.5), row("", "x", "other", 1, 0.1)]);
        let told = violations(&[scenario], &summaries).join("\n");
        for part in ["p99 1.2000 is above 1.1", "goodput 0.5000 is outside 0.6..1"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("other"));
    }
}
