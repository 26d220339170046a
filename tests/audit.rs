//! The audit log on a real file system: whole, rotated, cut off by a crash, on a full disk; and
//! checked with `sha256sum` alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use tidegate::audit::{AuditLog, Chain, ChangeResult, Entry, LogLimits, Source, Versions, files, verify};
use tidegate::config::{Changed, content_hash};

fn entry(note: &str) -> Entry {
    Entry {
        result: ChangeResult::Applied,
        actor: "file:root".into(),
        source: Source { path: Some("/etc/tidegate.toml".into()), hash: Some(content_hash(note.as_bytes())) },
        in_force: content_hash(note.as_bytes()),
        reason: Some("so that ü \"quotes\"\nand lines survive".into()),
        changes: vec![Changed { key: "limiters.a.max".into(), old: Some("1".into()), new: Some("2".into()) }],
        note: Some(note.into()),
    }
}

fn filled(dir: &Path, limits: LogLimits, records: usize) -> Chain {
    let mut log = AuditLog::open(dir, limits).expect("opens");
    for i in 0..records {
        log.append(entry(&format!("change {i}"))).expect("written");
    }
    log.end().clone()
}

fn current(dir: &Path) -> PathBuf {
    dir.join("audit.jsonl")
}

/// The check that `docs/audit.md` gives to people who have nothing but a shell.
fn checked_in_a_shell(dir: &Path) -> String {
    let docs = std::fs::read_to_string("docs/audit.md").expect("docs/audit.md");
    let script = docs.split("```sh\n").find(|part| part.contains("sha256sum")).expect("a script");
    let script = script.split("```").next().expect("its end");
    let done = Command::new("sh").arg("-c").arg(script).current_dir(dir).output().expect("a shell");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

#[test]
fn sha256sum_alone_finds_the_log_whole_and_the_first_broken_line() {
    let dir = tempfile::tempdir().expect("a directory");
    let end = filled(dir.path(), LogLimits::default(), 5);
    assert_eq!(checked_in_a_shell(dir.path()), format!("whole: 5 records, head {}\n", end.head()));
    let text = std::fs::read_to_string(current(dir.path())).expect("the log");
    std::fs::write(current(dir.path()), text.replace("change 2", "change 9")).expect("altered");
    let said = checked_in_a_shell(dir.path());
    assert!(said.starts_with("broken: line 4"), "{said}");
    let (_, line, _) = verify(dir.path(), None).expect("read").first_broken.expect("noticed");
    assert_eq!(line, 4, "the hash of line 3 is in line 4");
}

#[test]
fn the_log_goes_on_where_it_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = filled(dir.path(), LogLimits::default(), 2);
    let second = filled(dir.path(), LogLimits::default(), 2);
    let found = verify(dir.path(), Some(first.head())).expect("read");
    assert_eq!((found.lines, found.first, found.broken, found.torn), (4, 1, 0, 0));
    assert_eq!((found.end, found.head_at), (second, Some(2)));
}

#[test]
fn a_log_cut_off_at_its_end_shows_against_a_noted_head() {
    let dir = tempfile::tempdir().expect("a directory");
    let end = filled(dir.path(), LogLimits::default(), 3);
    let text = std::fs::read_to_string(current(dir.path())).expect("the log");
    let cut = text.trim_end().rfind('\n').expect("lines") + 1;
    std::fs::write(current(dir.path()), &text[..cut]).expect("cut");
    let found = verify(dir.path(), Some(end.head())).expect("read");
    assert_eq!((found.broken, found.head_at), (0, None));
}

#[test]
fn rotation_keeps_the_chain_and_a_bounded_number_of_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let limits = LogLimits { max_size: 2000, keep_files: 3 };
    let end = filled(dir.path(), limits, 50);
    let end = {
        filled(dir.path(), limits, 1);
        end
    };
    let all = files(dir.path()).expect("listed");
    assert_eq!(all.len(), 4, "{all:?}");
    let found = verify(dir.path(), Some(end.head())).expect("read");
    assert_eq!((found.broken, found.end.seq(), found.head_at), (0, 51, Some(50)));
    assert!(found.first > 1 && found.lines == 51 - found.first + 1, "{found:?}");
    assert!(checked_in_a_shell(dir.path()).starts_with("whole: "));
}

#[test]
fn a_crash_within_a_rotation_loses_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let end = filled(dir.path(), LogLimits::default(), 3);
    std::fs::rename(current(dir.path()), dir.path().join("audit.000000000001.jsonl")).expect("moved");
    for with_empty_file in [false, true] {
        if with_empty_file {
            std::fs::write(current(dir.path()), "").expect("empty");
        }
        let log = AuditLog::open(dir.path(), LogLimits::default()).expect("opens");
        assert_eq!(*log.end(), end);
    }
    filled(dir.path(), LogLimits::default(), 1);
    let found = verify(dir.path(), Some(end.head())).expect("read");
    assert_eq!((found.broken, found.end.seq(), found.head_at), (0, 4, Some(3)));
}

#[test]
fn a_torn_last_line_is_removed_at_every_length_and_that_is_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let end = filled(dir.path(), LogLimits::default(), 2);
    let text = std::fs::read(current(dir.path())).expect("the log");
    let last_two = text.iter().position(|&b| b == b'\n').expect("lines") + 1;
    let last = text.len() - last_two;
    for kept in 1..last {
        std::fs::write(current(dir.path()), &text[..last_two + kept]).expect("torn");
        let torn = verify(dir.path(), None).expect("read");
        assert_eq!((torn.torn, torn.broken), (kept, 0), "a torn end is no break");
        let log = AuditLog::open(dir.path(), LogLimits::default()).expect("opens");
        let repaired = log.last().expect("a record");
        assert_eq!((repaired.seq, repaired.entry.result), (2, ChangeResult::Repaired));
        drop(log);
        let found = verify(dir.path(), None).expect("read");
        assert_eq!((found.torn, found.broken, found.lines), (0, 0, 2));
    }
    // Blocks of zeros, as some file systems leave them.
    std::fs::write(current(dir.path()), [&text[..], &[0; 4096]].concat()).expect("zeros");
    assert_eq!(AuditLog::open(dir.path(), LogLimits::default()).expect("opens").end().seq(), 3);
    assert_eq!(verify(dir.path(), Some(end.head())).expect("read").head_at, Some(2));
}

#[test]
fn a_damaged_line_does_not_stop_the_log_and_stays_visible() {
    let dir = tempfile::tempdir().expect("a directory");
    filled(dir.path(), LogLimits::default(), 2);
    let mut text = std::fs::read_to_string(current(dir.path())).expect("the log");
    text.push_str("what is this\n");
    std::fs::write(current(dir.path()), text).expect("damaged");
    filled(dir.path(), LogLimits::default(), 1);
    let found = verify(dir.path(), None).expect("read");
    assert_eq!((found.broken, found.end.seq()), (1, 5), "{found:?}");
    assert_eq!(found.first_broken.expect("named").1, 3);
}

#[test]
fn two_processes_never_write_the_same_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = AuditLog::open(dir.path(), LogLimits::default()).expect("opens");
    let err = AuditLog::open(dir.path(), LogLimits::default()).expect_err("taken");
    assert!(err.to_string().contains("another process writes the audit log"), "{err}");
    drop(log);
    AuditLog::open(dir.path(), LogLimits::default()).expect("free again");
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("file"), "").expect("a file");
    AuditLog::open(&dir.path().join("file/audit"), LogLimits::default()).expect_err("a file is no directory");
}

#[test]
fn a_full_disk_leaves_nothing_half_written_and_the_log_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let dir = disk.dir.path();
    let mut log = AuditLog::open(dir, LogLimits::default()).expect("opens");
    log.append(entry("before")).expect("room");
    let ballast = dir.join("ballast");
    let free = (1..64).take_while(|_| grow(&ballast)).count();
    assert!(free < 63, "the disk is not small");
    let full = (0..1000).find_map(|i| log.append(entry(&format!("filling {i}"))).err());
    assert_eq!(full.expect("full").kind(), std::io::ErrorKind::StorageFull);
    let found = verify(dir, None).expect("read");
    assert_eq!((found.broken, found.torn), (0, 0), "nothing of the record that did not fit is left");
    std::fs::remove_file(&ballast).expect("room");
    log.append(entry("after")).expect("room again");
    let found = verify(dir, None).expect("read");
    assert_eq!((found.broken, found.end), (0, log.end().clone()));
}

fn grow(file: &Path) -> bool {
    use std::io::Write;
    let mut file = std::fs::File::options().create(true).append(true).open(file).expect("opens");
    file.write_all(&[0; 4096]).is_ok()
}

/// A file system of a few pages. Needs root; without it the test says so and ends.
struct SmallDisk {
    dir: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir.path()).output();
        match mounted {
            Ok(done) if done.status.success() => Some(Self { dir }),
            Ok(done) => {
                eprintln!("skipped: no mount allowed here: {}", String::from_utf8_lossy(&done.stderr).trim());
                None
            }
            Err(err) => {
                eprintln!("skipped: no mount here: {err}");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.dir.path()).status();
    }
}

#[test]
fn versions_come_back_by_hash_and_are_bounded_in_number() {
    let dir = tempfile::tempdir().expect("a directory");
    let versions = Versions::beside(dir.path(), 3);
    let first = versions.keep(b"version 0", &[]).expect("kept");
    for i in 1..8 {
        versions.keep(format!("version {i}").as_bytes(), &[&first]).expect("kept");
    }
    let all = versions.list().expect("listed");
    assert!(all.len() <= 4, "{all:?}");
    assert_eq!(versions.get(&first).expect("needed ones stay"), b"version 0");
    assert_eq!(versions.get(&content_hash(b"version 7")[..8]).expect("a beginning is enough"), b"version 7");
    versions.get(&content_hash(b"version 1")).expect_err("removed");
    for wrong in ["", "abc", "../../../etc/passwd", "zzzzzzzzzz"] {
        versions.get(wrong).expect_err(wrong);
    }
}

#[test]
fn an_altered_version_is_not_handed_out() {
    let dir = tempfile::tempdir().expect("a directory");
    let versions = Versions::beside(dir.path(), 3);
    let hash = versions.keep(b"true", &[]).expect("kept");
    std::fs::write(dir.path().join(format!("versions/{hash}.toml")), "false").expect("altered");
    versions.get(&hash).expect_err("altered");
    versions.keep(b"true", &[]).expect("kept again");
    assert_eq!(versions.get(&hash).expect("put right"), b"true");
}
