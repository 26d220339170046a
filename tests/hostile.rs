//! Texts that nobody meant to write: the config's parser and the audit log's reader take anything.
//! The same promises as the targets in `fuzz/`, in every test run.

use proptest::collection::vec;
use proptest::prelude::*;
use tidegate::audit::{AuditLog, ChangeResult, Checker, Entry, LogLimits, Source, verify};
use tidegate::config::edit::{NewBounds, set_bounds};
use tidegate::config::{Config, Overrides, difference};

const FULL: &str = include_str!("../config/full.toml");

/// What happens to texts: a byte turned into another, a part cut out, a part put in again.
#[derive(Clone, Debug)]
enum Harm {
    Byte(prop::sample::Index, u8),
    Cut(prop::sample::Index, usize),
    Copy(prop::sample::Index, prop::sample::Index, usize),
}

fn harm() -> impl Strategy<Value = Harm> {
    prop_oneof![
        (any::<prop::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| Harm::Byte(at, byte)),
        (any::<prop::sample::Index>(), 1..40_usize).prop_map(|(at, n)| Harm::Cut(at, n)),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..60_usize)
            .prop_map(|(from, to, n)| Harm::Copy(from, to, n)),
    ]
}

fn harmed(mut bytes: Vec<u8>, harms: &[Harm]) -> Vec<u8> {
    for harm in harms {
        if bytes.is_empty() {
            break;
        }
        match harm {
            Harm::Byte(at, byte) => {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            Harm::Cut(at, n) => {
                let at = at.index(bytes.len());
                drop(bytes.drain(at..(at + n).min(bytes.len())));
            }
            Harm::Copy(from, to, n) => {
                let (from, to) = (from.index(bytes.len()), to.index(bytes.len()));
                let part = bytes[from..(from + n).min(bytes.len())].to_vec();
                drop(bytes.splice(to..to, part));
            }
        }
    }
    bytes
}

fn config_promises(text: &str) -> Result<(), TestCaseError> {
    match Config::parse("hostile", text, &Overrides::default()) {
        Ok(config) => {
            prop_assert!(difference(&config, &config).is_empty());
            for name in config.limiters().keys() {
                let bounds = config.limiters()[name].bounds();
                let new = NewBounds {
                    limiter: name.clone(),
                    min: Some(bounds.min()),
                    max: Some(bounds.max()),
                    ..NewBounds::default()
                };
                if let Ok(edited) = set_bounds(text, &new) {
                    let edited = Config::parse("edited", &edited, &Overrides::default());
                    prop_assert!(edited.is_ok_and(|edited| difference(&config, &edited).is_empty()), "{text}");
                }
            }
        }
        Err(invalid) => {
            prop_assert!(!invalid.violations().is_empty());
            prop_assert!(invalid.violations().iter().all(|v| v.line >= 1 && v.column >= 1), "{invalid}");
            prop_assert!(!invalid.drawn().is_empty());
        }
    }
    Ok(())
}

fn log_of(dir: &std::path::Path, records: usize) -> Vec<u8> {
    let mut log = AuditLog::open(dir, LogLimits::default()).expect("opens");
    for i in 0..records {
        log.append(entry(&format!("change {i}"))).expect("written");
    }
    std::fs::read(dir.join("audit.jsonl")).expect("the log")
}

fn entry(note: &str) -> Entry {
    Entry {
        result: ChangeResult::Applied,
        actor: "file:root".into(),
        source: Source::default(),
        in_force: "00".into(),
        reason: None,
        changes: Vec::new(),
        note: Some(note.into()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_text_is_a_config_or_a_list_of_violations(text in any::<String>()) {
        config_promises(&text)?;
    }

    #[test]
    fn a_harmed_config_is_a_config_or_a_list_of_violations(harms in vec(harm(), 1..6)) {
        let bytes = harmed(FULL.as_bytes().to_vec(), &harms);
        config_promises(&String::from_utf8_lossy(&bytes))?;
    }

    #[test]
    fn any_bytes_can_be_checked_as_a_log(bytes in vec(any::<u8>(), 0..2000)) {
        let mut checker = Checker::default();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            if let Ok(record) = checker.take(line) {
                prop_assert_eq!(record.seq, checker.end().seq());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_harmed_log_goes_on_and_what_is_written_then_is_whole(harms in vec(harm(), 1..4)) {
        let dir = tempfile::tempdir().expect("a directory");
        let whole = log_of(dir.path(), 4);
        std::fs::write(dir.path().join("audit.jsonl"), harmed(whole, &harms)).expect("harmed");
        let head = {
            let mut log = AuditLog::open(dir.path(), LogLimits::default()).expect("opens");
            log.append(entry("after")).expect("written");
            log.end().clone()
        };
        let found = verify(dir.path(), Some(head.head())).expect("read");
        prop_assert_eq!(found.torn, 0);
        prop_assert_eq!(&found.end, &head);
        prop_assert_eq!(found.head_at, Some(head.seq()));
    }
}
