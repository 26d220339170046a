//! Links records into a chain of lines, and checks such a chain. Pure.

use std::fmt;

use crate::config::content_hash;

use super::{Entry, Record};

/// What the very first line has in place of a hash.
const BEGINNING: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The end of a chain: what the next line must begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    prev: String,
    seq: u64,
}

impl Default for Chain {
    fn default() -> Self {
        Self { prev: BEGINNING.to_owned(), seq: 0 }
    }
}

impl Chain {
    /// The end of a chain whose last line, newline included, is `line` with the number `seq`.
    pub fn after(line: &[u8], seq: u64) -> Self {
        Self { prev: content_hash(line), seq }
    }

    /// The next record, and its line with the newline.
    pub fn next(&self, time: String, entry: Entry) -> (Record, Vec<u8>) {
        let record = Record { prev: self.prev.clone(), seq: self.seq.saturating_add(1), time, entry: entry.bounded() };
        let mut line = serde_json::to_vec(&record).expect("strings and numbers are always JSON");
        line.push(b'\n');
        (record, line)
    }

    /// The hash of the last line: who knows it can tell whether the log was cut off since.
    pub fn head(&self) -> &str {
        &self.prev
    }

    /// The number of the last line.
    pub fn seq(&self) -> u64 {
        self.seq
    }
}

/// Checks lines, one after the other.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    end: Option<Chain>,
    first: u64,
}

/// Why a line does not belong where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Broken {
    /// It is no record.
    Unreadable(String),
    /// The hash in it is not that of the line before.
    Hash {
        /// The hash of the line before.
        needed: String,
        /// What stands there.
        found: String,
    },
    /// A number is missing or twice there.
    Number {
        /// The number that comes next.
        needed: u64,
        /// What stands there.
        found: u64,
    },
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "is no record: {why}"),
            Self::Hash { needed, found } => {
                write!(f, "prev is {found}, and the line before it has the hash {needed}")
            }
            Self::Number { needed, found } => write!(f, "seq is {found}, needed: {needed}"),
        }
    }
}

impl std::error::Error for Broken {}

impl Checker {
    /// Takes the next line, its newline included.
    ///
    /// The first line may have any number above 1, since old files may have been removed; number 1
    /// must begin the chain.
    ///
    /// # Errors
    /// [`Broken`]; what follows is still checked against the line as it is.
    pub fn take(&mut self, line: &[u8]) -> Result<Record, Broken> {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        let record: Result<Record, _> = serde_json::from_slice(text);
        let due = self.end.as_ref().map_or(0, |end| end.seq).saturating_add(1);
        let seq = record.as_ref().map_or(due, |record| record.seq);
        let before = self.end.replace(Chain::after(line, seq));
        let record = record.map_err(|err| Broken::Unreadable(err.to_string()))?;
        let before = match before {
            Some(before) => before,
            None if record.seq > 1 => {
                self.first = record.seq;
                return Ok(record);
            }
            None => {
                self.first = 1;
                Chain::default()
            }
        };
        if record.prev != before.prev {
            return Err(Broken::Hash { needed: before.prev, found: record.prev });
        }
        // Saturating: the largest number can only come from a harmed line.
        let needed = before.seq.saturating_add(1);
        if record.seq != needed {
            return Err(Broken::Number { needed, found: record.seq });
        }
        Ok(record)
    }

    /// The end of the chain so far.
    pub fn end(&self) -> Chain {
        self.end.clone().unwrap_or_default()
    }

    /// The number of the first line.
    pub fn first(&self) -> u64 {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{ChangeResult, Source};

    fn entry(note: &str) -> Entry {
        Entry {
            result: ChangeResult::Applied,
            actor: "file:root".into(),
            source: Source::default(),
            in_force: "ab".into(),
            reason: None,
            changes: Vec::new(),
            note: Some(note.into()),
        }
    }

    fn lines(n: usize) -> Vec<Vec<u8>> {
        let mut end = Chain::default();
        (0..n)
            .map(|i| {
                let (record, line) = end.next("2026-12-01T00:00:00.000Z".into(), entry(&format!("note {i}")));
                end = Chain::after(&line, record.seq);
                line
            })
            .collect()
    }

    fn first_broken(lines: &[Vec<u8>]) -> Option<usize> {
        let mut checker = Checker::default();
        lines.iter().position(|line| checker.take(line).is_err())
    }

    #[test]
    fn a_chain_checks_and_counts() {
        let lines = lines(5);
        let mut checker = Checker::default();
        for (i, line) in lines.iter().enumerate() {
            assert_eq!(checker.take(line).expect("whole").seq, i as u64 + 1);
        }
        assert_eq!((checker.first(), checker.end().seq()), (1, 5));
        assert_eq!(checker.end().head(), content_hash(&lines[4]));
    }

    #[test]
    fn every_changed_byte_shows_at_its_line_or_the_next() {
        let whole = lines(3);
        for line in 0..2 {
            for byte in 0..whole[line].len() {
                let mut lines = whole.clone();
                lines[line][byte] ^= 1;
                let at = first_broken(&lines).expect("noticed");
                assert!(at == line || at == line + 1, "byte {byte} of line {line} shows at {at}");
            }
        }
    }

    #[test]
    fn what_is_left_out_moved_or_put_in_shows() {
        let whole = lines(4);
        let without: Vec<_> = [0, 2, 3].map(|i| whole[i].clone()).into();
        assert_eq!(first_broken(&without), Some(1));
        let swapped: Vec<_> = [0, 2, 1, 3].map(|i| whole[i].clone()).into();
        assert_eq!(first_broken(&swapped), Some(1));
        let twice: Vec<_> = [0, 1, 1, 2, 3].map(|i| whole[i].clone()).into();
        assert_eq!(first_broken(&twice), Some(2));
        let (_, forged) = Chain::default().next("x".into(), entry("forged"));
        assert_eq!(first_broken(&[whole[0].clone(), forged]), Some(1));
    }

    #[test]
    fn a_log_may_begin_late_but_not_with_a_false_beginning() {
        let whole = lines(4);
        assert_eq!(first_broken(&whole[2..]), None);
        let mut checker = Checker::default();
        checker.take(&whole[2]).expect("old files may be gone");
        assert_eq!(checker.first(), 3);
        let text = String::from_utf8(whole[0].clone()).expect("text").replacen('0', "1", 1);
        assert_eq!(first_broken(&[text.into_bytes()]), Some(0));
    }

    #[test]
    fn a_line_stays_within_bounds() {
        let long = Entry {
            reason: Some("ü".repeat(100_000)),
            changes: vec![crate::config::Changed { key: "k".into(), old: Some("o".repeat(10_000)), new: None }; 10_000],
            ..entry("")
        };
        let (record, line) = Chain::default().next("t".into(), long);
        assert!(line.len() < 1 << 20, "{}", line.len());
        assert!(record.entry.note.expect("said").starts_with("9500 more changes"));
    }
}
