//! A config file replaced on a real file system.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use tidegate::config::content_hash;
use tidegate::config::replace::{NotReplaced, replace};

#[test]
fn the_content_changes_and_mode_and_symlink_stay() {
    let dir = tempfile::tempdir().expect("a directory");
    let (real, link) = (dir.path().join("real.toml"), dir.path().join("link.toml"));
    std::fs::write(&real, "old").expect("written");
    std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).expect("mode");
    symlink("real.toml", &link).expect("a link");
    replace(&link, &content_hash(b"old"), b"new").expect("replaced");
    assert_eq!(std::fs::read(&real).expect("read"), b"new");
    assert!(std::fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(std::fs::metadata(&real).expect("there").mode() & 0o7777, 0o640);
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 2, "nothing is left beside it");
}

#[test]
fn what_somebody_else_wrote_is_not_overwritten() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("c.toml");
    std::fs::write(&path, "theirs").expect("written");
    let err = replace(&path, &content_hash(b"old"), b"new").expect_err("changed");
    assert!(matches!(&err, NotReplaced::Changed(hash) if *hash == content_hash(b"theirs")), "{err}");
    assert_eq!(std::fs::read(&path).expect("read"), b"theirs");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 1, "nothing is left beside it");
}

#[test]
fn a_file_that_is_mounted_on_its_own_is_named_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let (source, path) = (dir.path().join("source.toml"), dir.path().join("c.toml"));
    std::fs::write(&source, "old").expect("written");
    std::fs::write(&path, "").expect("written");
    let mounted = std::process::Command::new("mount").arg("--bind").args([&source, &path]).output();
    if !mounted.as_ref().is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: no bind mount allowed here: {mounted:?}");
    }
    let replaced = replace(&path, &content_hash(b"old"), b"new");
    let unmounted = std::process::Command::new("umount").arg(&path).status();
    assert!(unmounted.is_ok_and(|status| status.success()));
    let err = replaced.expect_err("busy");
    assert!(err.to_string().contains("mount its directory"), "{err}");
    assert_eq!(std::fs::read(&source).expect("read"), b"old");
}
