//! Where archives are, and how their bytes are read.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use serde::{Deserialize, Serialize};

/// Directories within directories that are looked into.
const DEPTH: usize = 8;
const BUFFER: usize = 128 << 10;

/// What an archive is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Messages one after the other in a file, which may be packed by gzip.
    Mbox,
    /// A directory with a file for each message.
    Maildir,
}

/// An archive that is there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundArchive {
    /// Its path, absolute and without links.
    pub path: String,
    /// Whether it is a Maildir.
    pub is_maildir: bool,
}

/// The archives that paths stand for: files, Maildirs, and everything like that below other directories.
///
/// # Errors
/// A sentence that names the path that is not there or cannot be read.
pub fn find_archives(paths: &[String]) -> Result<Vec<FoundArchive>, String> {
    let mut found = Vec::new();
    for path in paths {
        let whole = fs::canonicalize(path).map_err(|error| told(path, &error))?;
        if whole.is_dir() {
            let before = found.len();
            below(&whole, 0, &mut found).map_err(|error| told(path, &error))?;
            if found.len() == before {
                return Err(format!("there is no archive in '{path}': no mbox and no Maildir"));
            }
        } else {
            found.push(archive(&whole, false)?);
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn told(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no archive '{path}'"),
        io::ErrorKind::PermissionDenied => format!("'{path}' cannot be read: permission denied"),
        _ => format!("'{path}' cannot be read: {error}"),
    }
}

fn archive(path: &Path, is_maildir: bool) -> Result<FoundArchive, String> {
    let path = path.to_str().ok_or_else(|| format!("the name of '{}' is not UTF-8", path.display()))?;
    Ok(FoundArchive { path: path.to_owned(), is_maildir })
}

fn below(dir: &Path, depth: usize, found: &mut Vec<FoundArchive>) -> io::Result<()> {
    let is_maildir = dir.join("cur").is_dir() || dir.join("new").is_dir();
    if is_maildir {
        found.extend(archive(dir, true));
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Folders of a Maildir begin with a dot; those of others are nobody's archives.
        let is_own = is_maildir && matches!(name, "cur" | "new" | "tmp");
        if is_own || (name.starts_with('.') && !is_maildir) {
            continue;
        }
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        if kind.is_dir() && depth < DEPTH {
            // What cannot be looked into is passed over: others may own it.
            let _ = below(&path, depth + 1, found);
        } else if kind.is_file() && !is_maildir && looks_like_mail(&path, name) {
            found.extend(archive(&path, false));
        }
    }
    Ok(())
}

fn looks_like_mail(path: &Path, name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let bare = lower.strip_suffix(".gz").unwrap_or(&lower);
    let named = [".mbox", ".mbx", ".eml"].iter().any(|ending| bare.ends_with(ending));
    let begins = || {
        let mut start = [0; 5];
        unpacked(File::open(path)?)?.read_exact(&mut start).map(|()| start == *b"From ")
    };
    named || begins().unwrap_or(false)
}

/// A reader of a file's content, unpacked when it is packed.
pub(super) fn unpacked<R: Read + Send + 'static>(file: R) -> io::Result<Box<dyn BufRead + Send>> {
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let is_packed = reader.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    if is_packed {
        return Ok(Box::new(BufReader::with_capacity(BUFFER, MultiGzDecoder::new(reader))));
    }
    Ok(Box::new(reader))
}

/// The files of a Maildir, below it, in one order.
pub(super) fn maildir_files(dir: &Path) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in ["cur", "new"] {
        let entries = match fs::read_dir(dir.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let entry = entry?;
            if let Some(name) = entry.file_name().to_str().filter(|name| !name.starts_with('.'))
                && entry.file_type()?.is_file()
            {
                files.push(format!("{folder}/{name}"));
            }
        }
    }
    files.sort_by(|a, b| unique(a).cmp(unique(b)));
    Ok(files)
}

/// What stays of a message's file name in a Maildir when somebody reads it.
pub(super) fn unique(file: &str) -> &str {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.split_once(":2,").map_or(name, |(unique, _)| unique)
}
