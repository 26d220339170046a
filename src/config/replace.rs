//! Puts a new text in the place of a config file: whole or not at all, and only when the file still
//! holds what the new text was made from.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use super::content_hash;

/// Why a file was not replaced.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotReplaced {
    /// Somebody else changed it in the meantime: it has this hash now.
    Changed(String),
    /// It cannot be read or written.
    Io(io::Error),
}

impl fmt::Display for NotReplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(hash) => write!(f, "the config file was changed by someone else; its hash is now {hash}"),
            Self::Io(err) if err.kind() == io::ErrorKind::ResourceBusy => {
                write!(f, "the config file is mounted on its own and cannot be replaced; mount its directory ({err})")
            }
            Self::Io(err) => write!(f, "the config file cannot be replaced: {err}"),
        }
    }
}

impl std::error::Error for NotReplaced {}

impl From<io::Error> for NotReplaced {
    fn from(err: io::Error) -> Self {
        Self::Io(err)
    }
}

/// Replaces the content of `path`, whose hash must be `expected`. Symlinks are followed and stay; the
/// mode stays, and the owner where this user may set it. When this returns, the new file is on disk;
/// a crash leaves either the old or the new one.
///
/// # Errors
/// [`NotReplaced`]; the file is as it was then.
pub fn replace(path: &Path, expected: &str, text: &[u8]) -> Result<(), NotReplaced> {
    let real = path.canonicalize()?;
    let directory = real.parent().unwrap_or(Path::new("/"));
    let name = real.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = directory.join(format!(".{name}.tidegate-{}", std::process::id()));
    let done = write(&unfinished, &real, text).and_then(|()| still(&real, expected)).and_then(|()| {
        std::fs::rename(&unfinished, &real)?;
        Ok(File::open(directory)?.sync_all()?)
    });
    if done.is_err() {
        // It may not be there at all.
        let _ = std::fs::remove_file(&unfinished);
    }
    done
}

fn write(unfinished: &Path, like: &Path, text: &[u8]) -> Result<(), NotReplaced> {
    let like = std::fs::metadata(like)?;
    let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(unfinished)?;
    file.write_all(text)?;
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        // Only root may give files away; the content matters more than whose it is.
        let _ = fchown(&file, Some(like.uid()), Some(like.gid()));
    }
    file.set_permissions(PermissionsExt::from_mode(like.mode() & 0o7777))?;
    Ok(file.sync_all()?)
}

fn still(real: &Path, expected: &str) -> Result<(), NotReplaced> {
    let hash = content_hash(&std::fs::read(real)?);
    if hash == expected { Ok(()) } else { Err(NotReplaced::Changed(hash)) }
}
