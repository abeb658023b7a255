//! Takes the bytes of one file, or says why not.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use redrive_core::id::ContentHash;

use crate::path::RelPath;
use crate::walk::Stamp;

/// What a file held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    /// Their hash.
    pub hash: ContentHash,
    /// How it looked when it was read.
    pub stamp: Stamp,
}

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing of that name, or something above it is no directory.
    #[error("it vanished")]
    Vanished,
    /// It changed while it was read; reading it again later helps.
    #[error("it changed while it was read")]
    Changed,
    /// It is larger than the limit; nothing beyond that was read.
    #[error("more than the {limit} bytes that are read")]
    TooLarge {
        /// How large it may be.
        limit: u64,
    },
    /// It is a symbolic link, a directory, a device, a pipe or a socket.
    #[error("not a regular file")]
    NotRegular,
    /// The permission to read it is missing.
    #[error("permission denied")]
    Denied,
    /// Something else went wrong.
    #[error("{0}")]
    Io(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Vanished,
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ if error.raw_os_error() == Some(libc::ELOOP) => Self::NotRegular,
            // What opening a socket, or a pipe without a reader, answers.
            _ if error.raw_os_error() == Some(libc::ENXIO) => Self::NotRegular,
            _ => Self::Io(error),
        }
    }
}

/// Reads a file below `root` of at most `limit` bytes. A final symbolic link is read only with `follow_symlinks`.
///
/// # Errors
///
/// [`Error`]; only [`Error::Changed`] says that the same call may succeed in a moment.
pub fn read(root: &Path, rel: &RelPath, limit: u64, follow_symlinks: bool) -> Result<Content, Error> {
    let file = open(&root.join(rel.as_path()), follow_symlinks)?;
    read_open(file, limit, || {})
}

/// Opens without ever waiting: a pipe without a writer would otherwise hold the caller for good.
fn open(path: &Path, follow: bool) -> Result<File, Error> {
    let link = if follow { 0 } else { libc::O_NOFOLLOW };
    Ok(OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC | link).open(path)?)
}

/// Reads an open file; `between` runs after the bytes and before the second look, for tests.
fn read_open(mut file: File, limit: u64, between: impl FnOnce()) -> Result<Content, Error> {
    let before = file.metadata()?;
    if !before.is_file() {
        return Err(Error::NotRegular);
    }
    if before.len() > limit {
        return Err(Error::TooLarge { limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(before.len()).unwrap_or(0));
    // One byte more than expected shows that it grew, and no more than that is ever taken.
    (&mut file).take(before.len().saturating_add(1)).read_to_end(&mut bytes)?;
    between();
    let after = file.metadata()?;
    if mark(&before) != mark(&after) || bytes.len() as u64 != before.len() {
        return Err(Error::Changed);
    }
    Ok(Content { hash: ContentHash::of(&[&bytes]), stamp: Stamp::of(&after), bytes })
}

/// What differs after a write: size, and the times of the last write and the last change.
fn mark(metadata: &Metadata) -> (u64, i64, i64, i64, i64) {
    (metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_with(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn read_path(path: &Path, limit: u64) -> Result<Content, Error> {
        read_open(open(path, true)?, limit, || {})
    }

    #[test]
    fn a_file_that_changes_while_it_is_read_is_noticed() {
        for (name, change) in [
            ("grows", &(|file: &mut File| file.write_all(b"more")) as &dyn Fn(&mut File) -> io::Result<()>),
            ("shrinks", &|file: &mut File| file.set_len(1)),
            ("touched", &|file: &mut File| file.set_modified(std::time::UNIX_EPOCH)),
        ] {
            let mut file = file_with(b"text");
            let opened = open(file.path(), false).unwrap();
            let read = read_open(opened, 100, || change(file.as_file_mut()).unwrap());
            assert!(matches!(read, Err(Error::Changed)), "{name}");
        }
    }

    #[test]
    fn the_limit_is_exact() {
        let file = file_with(b"12345");
        assert_eq!(read_path(file.path(), 5).unwrap().bytes, b"12345");
        assert!(matches!(read_path(file.path(), 4), Err(Error::TooLarge { limit: 4 })));
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        assert!(matches!(read_path(Path::new("/dev/zero"), 10), Err(Error::NotRegular)));
        assert!(matches!(read_path(Path::new("/"), 10), Err(Error::NotRegular)));
        assert!(matches!(read_path(Path::new("/no/such/file"), 10), Err(Error::Vanished)));
    }
}
