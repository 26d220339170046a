//! What happens to files: mounts, links, permissions, limits of the system.

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::daemon::{Place, config};
use super::harness::*;

/// The user `nobody`, as whom root can run things.
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let dir = tempfile::tempdir().expect("a directory");
    chown(dir.path(), Some(NOBODY), None).is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_file_changes_nothing_and_says_so() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    std::fs::write(place.file(), "").expect("writable");
    let now = daemon.until("the trouble", |now| now["ok"] == false).await;
    assert_eq!(now["error"], "the file is empty");
    assert_eq!(daemon.limiter().await["max"], 20);
    place.write(&config(&upstream, 30, ""));
    daemon.until_max(30).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_with_a_bad_file_goes_on_with_what_was_in_force() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let mut daemon = place.start(&[]);
    for broken in [config(&upstream, 30, "maxx = 3\n"), "no TOML at all".to_owned()] {
        daemon.kill();
        place.write(&broken);
        daemon = place.start(&["--audit", place.audit().to_str().expect("text")]);
        assert_eq!(daemon.limiter().await["max"], 20);
        let now = daemon.config().await;
        assert!(now["ok"] == false && now["error"].as_str().expect("why").contains("not usable"), "{now}");
        assert_eq!(get(daemon.address, "/").await.status(), 200);
    }
    assert_eq!(place.records().len(), 3);
    place.write(&config(&upstream, 30, ""));
    daemon.until_max(30).await;
    assert_eq!(daemon.config().await["ok"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_changes_in_a_row_are_one_reload_of_the_last() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    place.write(&config(&upstream, 30, ""));
    place.write(&config(&upstream, 40, ""));
    daemon.until_max(40).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(daemon.config().await["version"], 2);
    assert_eq!(place.records().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_written_again_as_it_was_is_no_change() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let daemon = place.start(&[]);
    for _ in 0..3 {
        place.write(&config(&upstream, 20, ""));
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert_eq!((daemon.config().await["version"].clone(), place.records().len()), (1.into(), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_into_another_directory_is_followed_and_so_is_a_new_one() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let elsewhere = tempfile::tempdir().expect("a directory");
    let there = |name: &str, max| {
        let path = elsewhere.path().join(name);
        std::fs::write(&path, place.fill(&config(&upstream, max, ""))).expect("writable");
        path
    };
    std::fs::remove_file(place.file()).expect("there");
    symlink(there("a.toml", 20), place.file()).expect("a link");
    let daemon = place.start(&[]);
    there("a.toml", 30);
    daemon.until_max(30).await;
    let another = tempfile::tempdir().expect("a directory");
    let path = another.path().join("b.toml");
    std::fs::write(&path, place.fill(&config(&upstream, 40, ""))).expect("writable");
    symlink(&path, place.dir.path().join("link")).expect("a link");
    std::fs::rename(place.dir.path().join("link"), place.file()).expect("a new link");
    daemon.until_max(40).await;
    // Not watched when the gateway started: found by looking.
    std::fs::write(&path, place.fill(&config(&upstream, 50, ""))).expect("writable");
    daemon.until_max(50).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_lost_and_comes_back_costs_nothing() {
    if !is_root() {
        return eprintln!("skipped: only root can run the gateway as somebody who may not read a file");
    }
    let upstream = Upstream::slow(Duration::ZERO).await;
    let mut place = Place::new(&config(&upstream, 20, ""));
    place.user = Some(NOBODY);
    chown(place.dir.path(), Some(NOBODY), None).expect("root");
    let daemon = place.start(&[]);
    let file = place.file();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).expect("root");
    let now = daemon.until("the trouble", |now| now["ok"] == false).await;
    assert!(now["error"].as_str().expect("why").contains("Permission denied"), "{now}");
    assert_eq!(daemon.limiter().await["max"], 20);
    assert_eq!(get(daemon.address, "/").await.status(), 200);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).expect("root");
    daemon.until("the end of it", |now| now["ok"] == true).await;
    place.write(&config(&upstream, 30, ""));
    daemon.until_max(30).await;
    assert_eq!(daemon.config().await["version"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_mounted_on_its_own_is_warned_about_and_read_when_written_in_place() {
    let upstream = Upstream::slow(Duration::ZERO).await;
    let place = Place::new(&config(&upstream, 20, ""));
    let source = place.dir.path().join("source.toml");
    std::fs::copy(place.file(), &source).expect("copied");
    let _mount = match Mount::bind(&source, &place.file()) {
        Ok(mount) => mount,
        Err(why) => return eprintln!("skipped: no bind mount allowed here: {why}"),
    };
    let daemon = place.start(&[]);
    assert!(daemon.config().await["ok"] == true);
    let mut file = std::fs::File::create(&source).expect("writable");
    file.write_all(place.fill(&config(&upstream, 30, "")).as_bytes()).expect("writable");
    drop(file);
    daemon.until_max(30).await;
    assert!(daemon.log().contains("mounted on its own"), "{}", daemon.log());
    let set = daemon.set("{\"max\": 40}").await;
    assert!(set.status() == 422 && set.text.contains("mount its directory"), "{}", set.text);
    assert_eq!(daemon.limiter().await["max"], 30);
}

struct Mount(std::path::PathBuf);

impl Mount {
    fn bind(source: &std::path::Path, target: &std::path::Path) -> Result<Self, String> {
        let done = Command::new("mount").arg("--bind").args([source, target]).output();
        match done {
            Ok(done) if done.status.success() => Ok(Self(target.to_owned())),
            Ok(done) => Err(String::from_utf8_lossy(&done.stderr).trim().to_owned()),
            Err(err) => Err(err.to_string()),
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // Lazily: the gateway may still have the file open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Processes that hold inotify instances of a user, until dropped.
struct Holders(Vec<Child>);

impl Holders {
    fn take_all(user: u32) -> Option<Self> {
        use std::os::unix::process::CommandExt;
        let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok()?;
        let most: usize = most.trim().parse().ok().filter(|most| *most <= 256)?;
        let hold = || {
            let mut tail = Command::new("tail");
            tail.args(["-f", "/etc/passwd"]).uid(user).stdout(Stdio::null()).stderr(Stdio::null());
            tail.spawn().ok()
        };
        let holders = Self((0..most + 5).map_while(|_| hold()).collect());
        // They have it once they stand in the kernel's list of descriptors.
        let holds = |child: &Child| {
            let fds = std::fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
            fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| to.to_string_lossy().contains("inotify"))
        };
        for _ in 0..1000 {
            if holders.0.iter().filter(|child| holds(child)).count() >= most {
                return Some(holders);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Holders {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_inotify_the_file_is_looked_at_and_that_is_said() {
    // A user of its own: nobody else's tests run out.
    const USER: u32 = 65_533;
    if !is_root() {
        return eprintln!("skipped: only root can use up another user's inotify instances");
    }
    let Some(_holders) = Holders::take_all(USER) else {
        return eprintln!("skipped: inotify instances cannot be used up here");
    };
    let upstream = Upstream::slow(Duration::ZERO).await;
    let mut place = Place::new(&config(&upstream, 20, ""));
    place.user = Some(USER);
    chown(place.dir.path(), Some(USER), None).expect("root");
    let daemon = place.start(&[]);
    let now = daemon.until("the polling", |now| !now["polling"].is_null()).await;
    assert!(now["polling"].as_str().expect("why").contains("Too many open files"), "{now}");
    place.write(&config(&upstream, 30, ""));
    daemon.until_max(30).await;
    assert_eq!(daemon.log().matches("cannot be watched").count(), 1, "{}", daemon.log());
    assert!(get(daemon.admin, "/metrics").await.text.lines().any(|line| line == "tidegate_config_polling 1"));
}
