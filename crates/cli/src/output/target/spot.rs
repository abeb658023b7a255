//! Where a name leads: through links, to a file, a device, a pipe, or one of the process's own descriptors.

use std::fs::{Metadata, canonicalize, metadata, read_link, symlink_metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::Refusal;

/// As many links as Linux follows.
const LINKS: usize = 40;

/// One of the two streams every process may write to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standard {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Where a name leads.
#[derive(Debug)]
pub enum Spot {
    /// A stream of our own; it goes on where it is.
    Standard(Standard),
    /// A device, a pipe, or another descriptor of our own: it is opened as it is, and never replaced or cut.
    Through {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        there: Metadata,
    },
    /// A regular file, or none yet.
    File {
        /// Where it is, without links.
        path: PathBuf,
        /// What is there.
        there: Option<Metadata>,
    },
}

impl Spot {
    /// Finds out where a name leads.
    pub(super) fn of(named: &Path) -> Result<Self, Refusal> {
        let text = named.as_os_str().as_bytes();
        if text == b"-" {
            return Ok(Self::Standard(Standard::Output));
        }
        if text.is_empty() {
            return Err(Refusal::new("the name is empty", "name a file"));
        }
        let mut path = named.to_owned();
        for _ in 0..LINKS {
            if let Some(descriptor) = descriptor(&path) {
                return Self::descriptor(&path, &descriptor);
            }
            match symlink_metadata(&path) {
                Ok(there) if there.is_symlink() => {
                    let to = read_link(&path).map_err(|error| unreachable(&error))?;
                    path = folder(&path).join(to);
                }
                Ok(there) => return Self::there(path, there),
                Err(error) if error.kind() == ErrorKind::NotFound => return Self::new_file(&path),
                Err(error) => return Err(unreachable(&error)),
            }
        }
        Err(Refusal::new("too many symbolic links lead on from it", "name the file itself"))
    }

    /// The device and number by which the file is known under all its names; `None` when it is not there yet.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        use std::os::unix::fs::MetadataExt;
        let of = |there: &Metadata| (there.dev(), there.ino());
        match self {
            Self::Standard(stream) => super::sink::standard(*stream).ok()?.metadata().ok().as_ref().map(of),
            Self::Through { there, .. } => Some(of(there)),
            Self::File { there, .. } => there.as_ref().map(of),
        }
    }

    fn descriptor(path: &Path, number: &str) -> Result<Self, Refusal> {
        match number {
            "1" => return Ok(Self::Standard(Standard::Output)),
            "2" => return Ok(Self::Standard(Standard::Error)),
            _ => {}
        }
        let there = metadata(path).map_err(|error| unreachable(&error))?;
        if there.is_file() {
            return Ok(Self::Through { path: path.to_owned(), there });
        }
        Self::there(path.to_owned(), there)
    }

    fn there(path: PathBuf, there: Metadata) -> Result<Self, Refusal> {
        let kind = there.file_type();
        if kind.is_dir() {
            return Err(Refusal::new("it is a directory", "name a file in it"));
        }
        if kind.is_socket() {
            return Err(Refusal::new("it is a socket", "name a file or a pipe"));
        }
        if kind.is_block_device() {
            return Err(Refusal::new("it is a disk, with everything that is on it", "name a file"));
        }
        if kind.is_file() {
            let path = canonicalize(&path).map_err(|error| unreachable(&error))?;
            return Ok(Self::File { path, there: Some(there) });
        }
        Ok(Self::Through { path, there })
    }

    fn new_file(path: &Path) -> Result<Self, Refusal> {
        let missing = |folder: &Path| {
            Refusal::new(
                format!("there is no folder {}", folder.display()),
                format!("`mkdir -p {}` makes it, or name a file in another folder", folder.display()),
            )
        };
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(missing(path));
        }
        let Some(name) = path.file_name() else { return Err(missing(path)) };
        let folder = folder(path);
        match canonicalize(folder) {
            Ok(folder) => Ok(Self::File { path: folder.join(name), there: None }),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(missing(folder)),
            Err(error) => Err(unreachable(&error)),
        }
    }
}

/// The folder a file is in.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn unreachable(error: &std::io::Error) -> Refusal {
    Refusal::new(error.to_string(), "name another file")
}

/// The number of the descriptor of this process that a path names, as /dev/stdout, /dev/fd/3 and /proc/self/fd/3 do.
fn descriptor(path: &Path) -> Option<String> {
    let number = path.file_name()?.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))?;
    let folder = canonicalize(folder(path)).ok()?;
    let own = format!("/proc/{}", std::process::id());
    let own = folder.strip_prefix(own).ok()?;
    // A thread's descriptors are its process's.
    let parts: Vec<&str> = own.iter().filter_map(|part| part.to_str()).collect();
    matches!(parts[..], ["fd"] | ["task", _, "fd"]).then(|| number.to_owned())
}
