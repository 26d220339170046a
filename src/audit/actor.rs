//! Who a file belongs to.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name of the file's owner, or its number when it has no name here.
///
/// # Errors
/// When the file cannot be looked at.
pub fn owner_of(path: &Path) -> io::Result<String> {
    let uid = std::fs::metadata(path)?.uid();
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Ok(name_of(uid, &users).map_or_else(|| uid.to_string(), str::to_owned))
}

fn name_of(uid: u32, users: &str) -> Option<&str> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number.parse() == Ok(uid)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_by_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\n\nodd\ntide:x:1001:1001::/:/bin/false\n";
        assert_eq!(name_of(0, users), Some("root"));
        assert_eq!(name_of(1001, users), Some("tide"));
        assert_eq!(name_of(7, users), None);
    }
}
