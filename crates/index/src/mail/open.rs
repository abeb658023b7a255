//! Where archives are, and how their bytes are read.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use redrive_ingest::path::{from_printable, printable};
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
    /// Its path, absolute and without links, in the printable form of any name ([`printable`]).
    pub path: String,
    /// Whether it is a Maildir.
    pub is_maildir: bool,
}

/// The archives that paths stand for, and what could not be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FoundArchives {
    /// The archives, each once, in order.
    pub archives: Vec<FoundArchive>,
    /// What is below a directory and was passed over, in printable form, and why.
    pub passed_over: Vec<(String, String)>,
}

/// The archives that paths stand for: files, Maildirs, and everything like that below other directories.
///
/// # Errors
/// A sentence that names the path that is not there or cannot be read.
pub fn find_archives(paths: &[String]) -> Result<FoundArchives, String> {
    let mut found = FoundArchives::default();
    for path in paths {
        let whole = fs::canonicalize(path).map_err(|error| told(path, &error))?;
        if whole.is_dir() {
            let before = found.archives.len();
            below(&whole, 0, &mut found).map_err(|error| told(path, &error))?;
            if found.archives.len() == before {
                return Err(format!("there is no archive in '{path}': no mbox and no Maildir"));
            }
        } else {
            found.add(&whole, false);
        }
    }
    found.archives.sort();
    found.archives.dedup();
    found.passed_over.sort();
    found.passed_over.dedup();
    Ok(found)
}

impl FoundArchives {
    fn add(&mut self, path: &Path, is_maildir: bool) {
        self.archives.push(FoundArchive { path: printable(path), is_maildir });
    }

    fn pass_over(&mut self, path: &Path, why: impl ToString) {
        self.passed_over.push((printable(path), why.to_string()));
    }
}

/// The path that a printable form stands for. What was kept before names were made printable stands for itself.
#[must_use]
pub fn archive_path(shown: &str) -> PathBuf {
    from_printable(shown).unwrap_or_else(|| PathBuf::from(shown))
}

fn told(path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no archive '{path}'"),
        io::ErrorKind::PermissionDenied => format!("'{path}' cannot be read: permission denied"),
        _ => format!("'{path}' cannot be read: {error}"),
    }
}

fn below(dir: &Path, depth: usize, found: &mut FoundArchives) -> io::Result<()> {
    let is_maildir = dir.join("cur").is_dir() || dir.join("new").is_dir();
    if is_maildir {
        found.add(dir, true);
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.as_ref();
        // Folders of a Maildir begin with a dot; those of others are nobody's archives.
        let is_own = is_maildir && matches!(name, "cur" | "new" | "tmp");
        if is_own || (name.starts_with('.') && !is_maildir) {
            continue;
        }
        let Ok(kind) = fs::symlink_metadata(&path) else { continue };
        if kind.is_dir() && depth == DEPTH {
            found.pass_over(&path, format!("directories are looked into {DEPTH} deep"));
        } else if kind.is_dir() {
            // What cannot be looked into fails nothing: others may own it.
            below(&path, depth + 1, found).unwrap_or_else(|error| found.pass_over(&path, error));
        } else if kind.is_file() && !is_maildir && looks_like_mail(&path, name) {
            found.add(&path, false);
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

/// The files of a Maildir, below it, in printable form, in one order.
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
            let name = printable(Path::new(&entry.file_name()));
            if !name.starts_with('.') && entry.file_type()?.is_file() {
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
