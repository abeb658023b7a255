//! Replaces a file as a whole, and leaves it to whom it belongs: somebody else may have to read it.
//!
//! Whoever runs a command beside a daemon need not be the user that the daemon runs as. A file that is put in the place of
//! another keeps that one's owner, group and mode; where that is not permitted, nothing is changed.

use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown, fchown};
use std::path::Path;

/// Why a file was not replaced. What was there is as it was.
#[derive(Debug)]
pub enum Refused {
    /// It would no longer belong to this user, or to its group.
    Owner(u32),
    /// The system says no.
    System(std::io::Error),
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Whom a file is to belong to.
struct Heir {
    uid: u32,
    gid: u32,
    mode: u32,
    /// Whether a file that belongs to somebody else would be of no use.
    strict: bool,
}

impl Heir {
    /// As a file was that is replaced.
    fn of(before: &Metadata) -> Self {
        Self { uid: before.uid(), gid: before.gid(), mode: before.mode() & 0o777, strict: true }
    }

    /// As the neighbour of a new file that only its owner may read.
    fn beside(neighbour: &Metadata, strict: bool) -> Self {
        Self { mode: 0o600, strict, ..Self::of(neighbour) }
    }

    /// Has a file belong to that one.
    fn inherits(&self, file: &File) -> Result<(), Refused> {
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (self.uid, self.gid)
            && let Err(error) = fchown(file, Some(self.uid), Some(self.gid))
        {
            // A group that may do nothing with a file is none that it has to be kept for.
            let is_missed = now.uid() != self.uid || self.mode & 0o070 != 0;
            match error.kind() {
                ErrorKind::PermissionDenied if self.strict && is_missed => {
                    return Err(Refused::Owner(self.uid));
                }
                ErrorKind::PermissionDenied => {}
                _ => return Err(error.into()),
            }
        }
        Ok(file.set_permissions(Permissions::from_mode(self.mode))?)
    }
}

/// Writes a file beside itself and puts it in place. A new one belongs to whoever `neighbour`, a file that is used together with
/// it, belongs to, or else the folder, as far as that is permitted; only its owner may read it.
///
/// # Errors
/// When it would no longer belong to whom it belonged to, or the system says no.
pub fn replace(path: &Path, neighbour: &Path, text: &str) -> Result<(), Refused> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_folder(folder)?;
    let heir = match (there(path)?, there(neighbour)?) {
        (Some(before), _) => Heir::of(&before),
        (None, Some(neighbour)) => Heir::beside(&neighbour, true),
        (None, None) => Heir::beside(&std::fs::metadata(folder)?, false),
    };
    let beside = path.with_extension(format!("json.{}", std::process::id()));
    // One that a process left behind which was killed may be there.
    let _ = std::fs::remove_file(&beside);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let written = fill(file, &heir, text).and_then(|()| Ok(std::fs::rename(&beside, path)?));
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&beside);
    })
}

fn fill(mut file: File, heir: &Heir, text: &str) -> Result<(), Refused> {
    heir.inherits(&file)?;
    file.write_all(text.as_bytes())?;
    Ok(file.sync_all()?)
}

fn there(path: &Path) -> std::io::Result<Option<Metadata>> {
    match std::fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a folder, and those above it, each of which belongs to whom the one above belongs to, as far as that is permitted.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    if folder.as_os_str().is_empty() || folder.exists() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    make_folder(above)?;
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        // A neighbour that starts at the same moment has made it.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    let above = std::fs::metadata(above)?;
    let _ = chown(folder, Some(above.uid()), Some(above.gid()));
    Ok(())
}

/// What a user is called, for `sudo -u`; the number where that is not known here.
pub fn user(uid: u32) -> String {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of = |line: &str| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?.to_owned(), fields.nth(1)?.parse::<u32>().ok()?);
        (number == uid).then_some(name)
    };
    known.lines().find_map(of).unwrap_or_else(|| format!("'#{uid}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_keeps_its_mode_and_leaves_nothing_beside_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, store) = (folder.path().join("sub/tokens.json"), folder.path().join("sub/state.db"));
        replace(&path, &store, "one").expect("made");
        let mode = |path: &Path| std::fs::metadata(path).expect("there").mode() & 0o777;
        assert_eq!((mode(&path), mode(&folder.path().join("sub"))), (0o600, 0o700));
        std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("set");
        replace(&path, &store, "two").expect("replaced");
        assert_eq!((mode(&path), std::fs::read_to_string(&path).expect("read")), (0o640, "two".to_owned()));
        assert_eq!(std::fs::read_dir(folder.path().join("sub")).expect("listed").count(), 1);
    }

    #[test]
    fn users_are_told_by_name_where_that_is_known() {
        assert_eq!((user(0), user(4_000_000_000)), ("root".to_owned(), "'#4000000000'".to_owned()));
    }
}
