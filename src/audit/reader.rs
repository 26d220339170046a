//! Reads the log's files in order, line by line, and verifies the whole.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::chain::{Broken, Chain, Checker};

/// The file that is written.
pub(super) const CURRENT: &str = "audit.jsonl";

/// A longer line is none of ours.
const MOST_LINE: u64 = 2 << 20;

/// The log's files, oldest first. Files that were rotated away bear the number of their first record.
///
/// # Errors
/// When the directory cannot be read.
pub fn files(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut rotated = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("audit.")?.strip_suffix(".jsonl"));
        if number.is_some_and(|n| n.len() == 12 && n.bytes().all(|b| b.is_ascii_digit())) {
            rotated.push(dir.join(name));
        }
    }
    rotated.sort();
    let current = dir.join(CURRENT);
    rotated.extend(current.exists().then_some(current));
    Ok(rotated)
}

/// Where a file that is full moves to.
pub(super) fn rotated(dir: &Path, first: u64) -> PathBuf {
    dir.join(format!("audit.{first:012}.jsonl"))
}

/// A line and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The file.
    pub file: PathBuf,
    /// Its number in that file, from 1.
    pub number: u64,
    /// The line, with its newline if it has one.
    pub bytes: Vec<u8>,
}

impl Line {
    /// Whether it was written to its end.
    pub fn is_whole(&self) -> bool {
        self.bytes.ends_with(b"\n")
    }
}

/// All lines of some files, one after the other; holds one line at a time.
#[derive(Debug)]
pub struct Lines {
    files: std::vec::IntoIter<PathBuf>,
    open: Option<(PathBuf, BufReader<File>, u64)>,
}

impl Lines {
    /// The lines of `files`, in this order.
    pub fn of(files: Vec<PathBuf>) -> Self {
        Self { files: files.into_iter(), open: None }
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        loop {
            if let Some((file, reader, number)) = &mut self.open {
                let mut bytes = Vec::new();
                reader.by_ref().take(MOST_LINE).read_until(b'\n', &mut bytes)?;
                if !bytes.is_empty() {
                    *number += 1;
                    return Ok(Some(Line { file: file.clone(), number: *number, bytes }));
                }
            }
            let Some(next) = self.files.next() else { return Ok(None) };
            self.open = Some((next.clone(), BufReader::new(File::open(&next)?), 0));
        }
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// What a look through the whole log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Lines that were read.
    pub lines: u64,
    /// The number of the first record; above 1 when old files were removed.
    pub first: u64,
    /// The end of the chain.
    pub end: Chain,
    /// Lines that do not belong where they stand.
    pub broken: u64,
    /// The first of them: file, line, and why.
    pub first_broken: Option<(PathBuf, u64, Broken)>,
    /// Bytes of an unfinished line at the very end: a crash while it was written. The gateway removes
    /// them when it starts.
    pub torn: usize,
    /// The number of the record after which the chain had the hash that was asked for.
    pub head_at: Option<u64>,
}

/// Checks every line of the log in `dir`. With `head`, a hash that was noted earlier, says where it
/// is in the chain: when it is nowhere, the log was cut off or rewritten since.
///
/// # Errors
/// When a file cannot be read.
pub fn verify(dir: &Path, head: Option<&str>) -> io::Result<Verified> {
    let mut checker = Checker::default();
    let mut found =
        Verified { lines: 0, first: 0, end: Chain::default(), broken: 0, first_broken: None, torn: 0, head_at: None };
    let mut lines = Lines::of(files(dir)?).peekable();
    while let Some(line) = lines.next() {
        let line = line?;
        if !line.is_whole() && lines.peek().is_none() {
            found.torn = line.bytes.len();
            break;
        }
        found.lines += 1;
        if let Err(broken) = checker.take(&line.bytes) {
            found.broken += 1;
            found.first_broken.get_or_insert((line.file, line.number, broken));
        }
        if head.is_some_and(|head| checker.end().head() == head) {
            found.head_at = Some(checker.end().seq());
        }
    }
    found.first = checker.first();
    found.end = checker.end();
    Ok(found)
}
