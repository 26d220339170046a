//! The scenario files: all can be read, and mistakes in one are told.
//!
//! Whether the laws keep the ranges that the files accept is checked by
//! `tidegate sim config/scenarios --check`, with an optimised build.

use std::fs;
use std::path::{Path, PathBuf};

use tidegate::law;
use tidegate::sim::scenario::Scenario;

fn files(below: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("config/scenarios")
}

#[test]
fn every_file_can_be_run_and_names_laws_that_exist() {
    let files = files(&root());
    assert!(files.len() >= 42, "{} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        let scenario = Scenario::parse("x", &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        for law in scenario.accept.keys() {
            assert!(law::NAMES.contains(&law.as_str()), "{}: {law}", path.display());
        }
    }
}

#[test]
fn busy_and_low_are_complete() {
    assert_eq!(files(&root().join("busy")).len(), 28);
    assert_eq!(files(&root().join("low")).len(), 14);
}

const GOOD: &str =
    "service_s = 0.1\ndownstream = { kind = \"fifo\" }\n[[phase]]\nseconds = 5\nrate = 10\nworkers = 2\n";

#[test]
fn mistakes_are_told_with_key_and_place() {
    Scenario::parse("good", GOOD).expect("valid");
    for (from, to, parts) in [
        ("seconds = 5", "secconds = 5", &["line 4", "secconds"][..]),
        ("rate = 10", "rate = -1", &["phase 1", "rate = -1", "above 0"]),
        ("workers = 2", "", &["phase 1", "workers is missing"]),
        ("service_s = 0.1", "service_s = 0", &["service_s = 0", "above 0"]),
        ("\"fifo\"", "\"lifo\"", &["line 2", "lifo"]),
        ("service_s = 0.1", "service_s = 0.1\nsla_s = 2", &["line 2", "sla_s"]),
        ("\"fifo\"", "\"fifo\", backlogg = 3", &["line 2", "backlogg"]),
    ] {
        let err = Scenario::parse("bad", &GOOD.replace(from, to)).expect_err(to).to_string();
        for part in parts {
            assert!(err.contains(part), "\"{part}\" is missing in: {err}");
        }
    }
}

#[test]
fn what_a_phase_leaves_out_is_as_before() {
    let text = format!("{GOOD}\n[[phase]]\nseconds = 5\nrate_end = 30\n[[phase]]\nseconds = 1\nworkers = 7\n");
    let scenario = Scenario::parse("inherits", &text).expect("valid");
    assert_eq!(scenario.phases[1].workers, Some(2.0));
    assert_eq!((scenario.phases[2].rate, scenario.phases[2].workers), (Some(30.0), Some(7.0)));
}
