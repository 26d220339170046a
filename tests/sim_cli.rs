//! `tidegate sim` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SMALL: &str = "service_s = 0.05\ndownstream = { kind = \"fifo\" }\n\
    [[phase]]\nseconds = 4\nrate = 120\nworkers = 4\n[accept.fixed]\ngoodput = [1.5, 2.0]\n";

/// A directory of its own for each test, gone at its end.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("tidegate-sim-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        Self(dir)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path
    }

    fn sim(&self, args: &[&str], files: &[&Path]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.current_dir(&self.0).arg("sim").args(files).args(args).output().expect("runs")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn json_has_a_row_for_each_run() {
    let place = Place::new("json");
    let file = place.file("small.toml", SMALL);
    let out = place.sim(&["--law", "fixed,aimd", "--seeds", "2", "--json"], &[&file]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let rows = value["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!(row["scenario"], "small");
        for key in ["seed", "goodput", "p99", "settle_s", "needless"] {
            assert!(row[key].is_number(), "{key} in {row}");
        }
    }
}

#[test]
fn a_score_outside_its_range_fails_only_when_asked_for() {
    let place = Place::new("check");
    let file = place.file("small.toml", SMALL);
    assert!(place.sim(&["--law", "fixed", "--seeds", "1"], &[&file]).status.success());
    let out = place.sim(&["--law", "fixed", "--seeds", "1", "--check"], &[&file]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("is outside 1.5..2"), "{}", text(&out.stderr));
}

#[test]
fn charts_are_drawn_for_each_start_and_law() {
    let place = Place::new("svg");
    let file = place.file("small.toml", &format!("limiter = {{ initial = [5, 20] }}\n{SMALL}"));
    let out = place.sim(&["--law", "aimd", "--seeds", "1", "--svg", "charts"], &[&file]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    for name in ["small@5-aimd.svg", "small@20-aimd.svg"] {
        let svg = std::fs::read_to_string(place.0.join("charts").join(name)).expect(name);
        assert!(svg.contains("</svg>"), "{name}");
    }
}

#[test]
fn a_trace_is_replayed_with_and_without_a_scenario() {
    let place = Place::new("trace");
    let lines: Vec<String> = (0..600).map(|i| format!("{},0.05", f64::from(i) * 0.01)).collect();
    let trace = place.file("trace.csv", &lines.join("\n"));
    let trace = trace.to_string_lossy().into_owned();
    let file = place.file("small.toml", SMALL);
    for files in [&[][..], &[file.as_path()]] {
        let out = place.sim(&["--trace", &trace, "--law", "fixed", "--seeds", "1"], files);
        assert!(out.status.success(), "{}", text(&out.stderr));
    }
}

#[test]
fn random_scenarios_need_no_file() {
    let place = Place::new("random");
    let out = place.sim(&["--random", "low:1:3", "--law", "fixed", "--seeds", "1", "--summary"], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).starts_with("random low fixed: goodput mean"), "{}", text(&out.stdout));
}

#[test]
fn wrong_arguments_say_what_is_allowed() {
    let place = Place::new("wrong");
    let file = place.file("small.toml", SMALL);
    let bad = place.file("bad.toml", &SMALL.replace("rate", "rite"));
    for (args, files, parts) in [
        (&["--law", "magic"][..], &[file.as_path()][..], &["--law magic", "fixed"][..]),
        (&[], &[], &["nothing to run", "--random"]),
        (&["--random", "wild:1:1"], &[], &["wild", "busy or low"]),
        (&[], &[bad.as_path()], &["bad.toml", "rite"]),
    ] {
        let out = place.sim(args, files);
        assert_eq!(out.status.code(), Some(1));
        for part in parts {
            assert!(text(&out.stderr).contains(part), "\"{part}\" is missing in: {}", text(&out.stderr));
        }
    }
}
