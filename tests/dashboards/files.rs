use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

use super::system::program;

const DASHBOARDS: [&str; 2] = ["dashboards/overview.json", "dashboards/limiter.json"];
const RULES: &str = "dashboards/prometheus/rules/tidegate.yml";
/// Panels that Grafana has without a plugin, of those that are used here.
const PANELS: [&str; 4] = ["row", "stat", "state-timeline", "timeseries"];

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|err| panic!("{path}: {err}"))
}

pub(crate) fn dashboards() -> Vec<(&'static str, Value)> {
    DASHBOARDS
        .map(|path| (path, serde_json::from_str(&text(path)).unwrap_or_else(|err| panic!("{path}: {err}"))))
        .into()
}

pub(crate) fn panels(dashboard: &Value) -> &Vec<Value> {
    dashboard["panels"].as_array().expect("panels")
}

/// Every query of a dashboard, those of annotations included, with where it is.
pub(crate) fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let of_panel = |panel: &Value| -> Vec<(String, String)> {
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        let title = panel["title"].as_str().expect("a title").to_owned();
        let expr = |target: &Value| target["expr"].as_str().expect("an expr").to_owned();
        targets.iter().map(|target| (title.clone(), expr(target))).collect()
    };
    panels(dashboard).iter().flat_map(of_panel).collect()
}

fn annotations(dashboard: &Value) -> Vec<String> {
    let all = dashboard["annotations"]["list"].as_array().expect("annotations");
    all.iter().filter_map(|annotation| Some(annotation["expr"].as_str()?.to_owned())).collect()
}

/// Words that begin with `tidegate_`.
fn names(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !word(c)).filter(|word| word.starts_with("tidegate_"));
    words.map(str::to_owned).collect()
}

/// Names of metrics in the code: text in quotes.
fn measured() -> BTreeSet<String> {
    let source = text("src/metrics.rs");
    let quoted = source.split('"').skip(1).step_by(2);
    quoted.filter(|word| word.starts_with("tidegate_")).map(str::to_owned).collect()
}

#[test]
fn what_dashboards_and_rules_name_is_measured() {
    let measured = measured();
    assert!(measured.len() > 20, "{measured:?}");
    for (path, dashboard) in dashboards() {
        let queries = queries(&dashboard).into_iter().map(|(_, expr)| expr).chain(annotations(&dashboard));
        for expr in queries {
            let unknown: Vec<_> = names(&expr).difference(&measured).cloned().collect();
            assert!(unknown.is_empty(), "{path}: {unknown:?} in {expr}");
        }
    }
    let rules = text(RULES);
    let exprs = rules.lines().filter(|line| !line.contains("description:") && !line.contains("summary:"));
    let unknown: Vec<_> = exprs.flat_map(names).filter(|name| !measured.contains(name)).collect();
    assert!(unknown.is_empty(), "{RULES}: {unknown:?}");
}

#[test]
fn every_metric_is_on_a_dashboard() {
    let shown: BTreeSet<String> =
        dashboards().iter().flat_map(|(_, d)| queries(d)).flat_map(|(_, expr)| names(&expr)).collect();
    let hidden: Vec<_> = measured().into_iter().filter(|name| !shown.contains(name)).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
}

#[test]
fn dashboards_bind_their_data_source_by_a_variable_however_they_are_loaded() {
    for (path, dashboard) in dashboards() {
        assert!(!text(path).contains("__inputs") && !text(path).contains("${DS_"), "{path}");
        let variables = dashboard["templating"]["list"].as_array().expect("variables");
        let kinds: Vec<_> = variables.iter().map(|v| (v["name"].as_str(), v["type"].as_str())).collect();
        for wanted in [("datasource", "datasource"), ("instance", "query"), ("limiter", "query"), ("scrape", "custom")]
        {
            assert!(kinds.contains(&(Some(wanted.0), Some(wanted.1))), "{path}: {wanted:?} is missing");
        }
        assert_eq!(variables[0]["query"], "prometheus", "{path}");
        let own = dashboard["annotations"]["list"].as_array().expect("annotations");
        assert!(own.iter().skip(1).all(|a| a["datasource"]["uid"] == "${datasource}") && own.len() == 3, "{path}");
    }
}

#[test]
fn every_panel_is_described_has_a_unit_and_draws_at_every_zoom() {
    for (path, dashboard) in dashboards() {
        let mut ids = BTreeSet::new();
        for panel in panels(&dashboard) {
            let at = format!("{path}: {}", panel["title"]);
            assert!(PANELS.contains(&panel["type"].as_str().expect("a type")), "{at}");
            assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{at}: its id is not its own");
            let place = |side: &str| panel["gridPos"][side].as_u64().expect("a number");
            assert!(place("x") + place("w") <= 24 && place("h") >= 1, "{at}");
            if panel["type"] == "row" {
                continue;
            }
            let says = panel["description"].as_str().unwrap_or_default();
            assert!(says.len() > 15 && says.ends_with('.'), "{at}: its description");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{at}: its unit");
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{at}");
            assert_eq!(panel["interval"], "$scrape", "{at}: no finer than the scrapes");
        }
        for (title, expr) in queries(&dashboard) {
            let windows: Vec<_> = expr.split('[').skip(1).map(|rest| rest.split(']').next()).collect();
            assert!(windows.iter().all(|w| *w == Some("$__rate_interval")), "{path}: {title}: {expr}");
            let limited = !expr.contains("limiter") || expr.contains("limiter=~\"$limiter\"");
            assert!(expr.contains("instance=~\"$instance\"") && limited, "{path}: {title}: {expr}");
        }
    }
}

#[test]
fn fallback_is_a_timeline() {
    for (path, dashboard) in dashboards() {
        let timelines = panels(&dashboard).iter().filter(|panel| panel["type"] == "state-timeline");
        let shows =
            |panel: &&Value| panel["targets"][0]["expr"].as_str().is_some_and(|e| e.contains("fallback_active"));
        assert_eq!(timelines.filter(shows).count(), 1, "{path}");
    }
}

#[test]
fn every_alert_leads_to_a_chapter_of_the_runbook() {
    let runbook = text("docs/runbook.md");
    let titles = runbook.lines().filter_map(|line| line.strip_prefix("## "));
    let anchors: BTreeSet<String> = titles.map(|title| title.to_lowercase().replace(' ', "-")).collect();
    let rules = text(RULES);
    let links: Vec<&str> =
        rules.lines().filter_map(|l| l.trim().strip_prefix("runbook_url: docs/runbook.md#")).collect();
    assert_eq!(links.len(), rules.matches("- alert:").count());
    for link in links {
        assert!(anchors.contains(link), "{link}");
    }
}

#[test]
fn promtool_finds_nothing_wrong_and_the_rules_pass_their_tests() {
    let Some(promtool) = program("promtool") else { return };
    let tests = "dashboards/prometheus/tests/tidegate_test.yml";
    let config = "dashboards/prometheus/prometheus.yml";
    for arguments in [["check", "rules", RULES], ["test", "rules", tests], ["check", "config", config]] {
        let done = Command::new(&promtool).args(arguments).output().expect("it runs");
        let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{arguments:?}: {said}");
    }
}
