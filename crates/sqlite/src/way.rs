//! How a file is reached by those who only read it.

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use redrive_store::Error;

use crate::look::beside;

/// How a file is reached by connections that only read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// With the log and the memory that writers share, as a part of their company.
    Shared,
    /// With the log that somebody else writes, without making or changing anything beside the file.
    Guest,
    /// The file alone, because there is no log and none may be made there. Nothing tells SQLite when somebody begins to write,
    /// so the file is looked at again after every read.
    Alone(Stamp),
}

/// How a file looks that has not been written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Stamp {
    length: u64,
    written: Option<std::time::SystemTime>,
    number: u64,
}

impl Stamp {
    fn of(file: &Metadata) -> Self {
        #[cfg(unix)]
        let number = std::os::unix::fs::MetadataExt::ino(file);
        #[cfg(not(unix))]
        let number = 0;
        Self { length: file.len(), written: file.modified().ok(), number }
    }
}

impl Way {
    /// The way to a file that this process may not write, or not beside.
    pub(crate) fn without_writing(path: &Path) -> Result<Self, Error> {
        let logged = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
        if logged {
            return Ok(Self::Guest);
        }
        match std::fs::metadata(path) {
            Ok(file) => Ok(Self::Alone(Stamp::of(&file))),
            Err(error) => Err(Error::Open(format!("{}: {error}", path.display()))),
        }
    }

    /// Refuses what was read from a file that somebody has written meanwhile without being noticed.
    pub(crate) fn still_holds(self, path: &Path) -> Result<(), Error> {
        let Self::Alone(stamp) = self else { return Ok(()) };
        match std::fs::metadata(path) {
            Ok(file) if Stamp::of(&file) == stamp => Ok(()),
            Ok(_) => Err(Error::Busy(format!("{} was written while it was read", path.display()))),
            Err(error) => Err(Error::Unavailable(format!("{}: {error}", path.display()))),
        }
    }

    /// The file's address for SQLite, where it has to be a URI.
    pub(crate) fn address(self, path: &Path) -> Option<String> {
        let how = match self {
            Self::Shared => return None,
            Self::Guest => "?readonly_shm=1",
            Self::Alone(_) => "?immutable=1",
        };
        let mut address = "file:".to_owned();
        for byte in path.as_os_str().as_encoded_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                    address.push(char::from(*byte));
                }
                other => address.push_str(&format!("%{other:02X}")),
            }
        }
        address.push_str(how);
        Some(address)
    }
}

/// The number by which the file system knows a file.
pub(crate) fn file_number(path: &Path) -> Option<u64> {
    std::fs::metadata(path).ok().map(|file| Stamp::of(&file).number)
}

/// A number that changes when the file of a store, or the log beside it, is written.
pub(crate) fn file_stamp(path: &Path, number: Option<u64>) -> Result<u64, Error> {
    let stamps = [path.to_path_buf(), beside(path, "-wal")]
        .map(|file| std::fs::metadata(file).ok().map(|file| Stamp::of(&file)));
    if stamps[0].map(|file| file.number) != number {
        let what = format!("{} was removed, or another file is in its place", path.display());
        return Err(Error::Gone(what));
    }
    let mut hash = DefaultHasher::new();
    stamps.hash(&mut hash);
    Ok(hash.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_the_file_whatever_is_in_its_name() {
        let address = |path: &str| Way::Guest.address(Path::new(path)).unwrap();
        assert_eq!(address("/a b/c?d#e%f.db"), "file:/a%20b/c%3Fd%23e%25f.db?readonly_shm=1");
        assert_eq!(address("é"), "file:%C3%A9?readonly_shm=1");
    }
}
