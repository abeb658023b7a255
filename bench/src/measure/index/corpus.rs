//! Files to be indexed: sources and documentation of the crates that cargo has here, and small made-up ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::words::Words;
use crate::Failure;
use crate::report::round;

/// Larger files are tables and generated code; one of them would be much of a small corpus.
const LARGEST: u64 = 100_000;
/// Every corpus is as old as this, so that no file looks as if it was just being written.
const AGE: Duration = Duration::from_hours(24 * 365 * 50);
/// Files in one folder.
const IN_ONE: usize = 1_000;

/// A directory full of files.
#[derive(Debug, Clone)]
pub struct Corpus {
    /// The directory.
    pub folder: PathBuf,
    /// How many files.
    pub files: usize,
    /// How many bytes.
    pub bytes: u64,
}

impl Corpus {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({ "files": self.files, "mb": round(self.bytes as f64 / 1e6) })
    }
}

/// Copies sources and documentation out of cargo's registry, up to so many bytes. Crates are taken in the order of
/// their names' hashes: the same registry gives the same corpus, and a small one is a sample of a large one.
pub fn real(folder: &Path, bytes: u64) -> Result<Corpus, Failure> {
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let cargo =
        cargo.or_else(|| std::env::home_dir().map(|home| home.join(".cargo"))).ok_or("no home folder")?;
    let mut crates = Vec::new();
    for registry in fs::read_dir(cargo.join("registry/src"))? {
        for one in fs::read_dir(registry?.path())? {
            crates.push(one?.path());
        }
    }
    let name =
        |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    crates.sort_by_key(|path| (hash(&name(path)), name(path)));
    crates.dedup_by_key(|path| name(path));
    let mut corpus = Corpus { folder: folder.to_owned(), files: 0, bytes: 0 };
    for one in &crates {
        copy(one, &folder.join(name(one)), bytes, &mut corpus)?;
    }
    if corpus.bytes < bytes / 2 {
        return Err(format!("cargo's registry has only {} bytes of text", corpus.bytes).into());
    }
    Ok(corpus)
}

fn copy(from: &Path, to: &Path, most: u64, corpus: &mut Corpus) -> Result<(), Failure> {
    let mut entries = fs::read_dir(from)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (kind, path) = (entry.file_type()?, entry.path());
        if kind.is_dir() {
            copy(&path, &to.join(entry.file_name()), most, corpus)?;
        }
        let wanted = path.extension().is_some_and(|ending| ending == "rs" || ending == "md");
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let size = entry.metadata()?.len();
        if !kind.is_file() || !wanted || hidden || size == 0 || size > LARGEST || corpus.bytes + size > most {
            continue;
        }
        // Everybody takes all files, so these are what everybody can read.
        let Ok(text) = String::from_utf8(fs::read(&path)?) else { continue };
        if text.trim().is_empty() {
            continue;
        }
        fs::create_dir_all(to)?;
        write(&to.join(entry.file_name()), &text)?;
        corpus.files += 1;
        corpus.bytes += size;
    }
    Ok(())
}

/// Makes up small files, no two alike.
pub fn small(folder: &Path, files: usize, words: &Words) -> Result<Corpus, Failure> {
    let mut corpus = Corpus { folder: folder.to_owned(), files, bytes: 0 };
    let mut dice = super::words::Dice::new(files as u64);
    for n in 0..files {
        let place = folder.join(format!("{:04}", n / IN_ONE));
        if n % IN_ONE == 0 {
            fs::create_dir_all(&place)?;
        }
        let text = format!("Note {n}\n\n{}.\n", words.text(&mut dice, 60));
        write(&place.join(format!("{n:06}.txt")), &text)?;
        corpus.bytes += text.len() as u64;
    }
    Ok(corpus)
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)?;
    fs::File::options().write(true).open(path)?.set_modified(SystemTime::UNIX_EPOCH + AGE)?;
    Ok(())
}

/// FNV-1a: it only has to mix.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
