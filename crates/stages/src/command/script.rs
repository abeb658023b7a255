//! The file that a command runs, so that children of an older version of it are not asked any more.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long a file has to be as it is before it counts: somebody may still be writing it.
const SETTLED: Duration = Duration::from_secs(1);

/// What tells one version of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    len: u64,
    changed: Option<SystemTime>,
}

/// The program, where it is named by a path, or else the first argument that is a file: the script of an interpreter.
#[derive(Debug)]
pub(super) struct Script(Option<PathBuf>);

impl Script {
    pub(super) fn of(argv: &[String], cwd: Option<&Path>) -> Self {
        let named = argv.iter().enumerate().filter(|(at, word)| *at > 0 || word.contains('/'));
        let path = |word: &str| cwd.map_or_else(|| PathBuf::from(word), |cwd| cwd.join(word));
        Self(named.map(|(_, word)| path(word)).find(|path| path.is_file()))
    }

    /// The file of a program that was found.
    pub(super) fn held(file: Option<PathBuf>) -> Self {
        Self(file)
    }

    /// The version that is there; `None` where there is no file, or none that can be read now.
    pub(super) fn version(&self) -> Option<Version> {
        let known = std::fs::metadata(self.0.as_ref()?).ok()?;
        Some(Version { len: known.len(), changed: known.modified().ok() })
    }

    /// Whether a child of this version is to be replaced: another one is there, whole.
    pub(super) fn is_outdated(&self, started_with: Option<Version>) -> bool {
        let (Some(before), Some(now)) = (started_with, self.version()) else { return false };
        // A time to come says nothing about when it was written.
        let settled = |at: SystemTime| at.elapsed().map_or(true, |ago| ago >= SETTLED);
        now != before && now.changed.is_none_or(settled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_script_is_the_program_by_its_path_or_the_first_argument_that_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.py", "b.csv", "run"] {
            std::fs::write(folder.path().join(name), "x").unwrap();
        }
        let of = |words: &[&str]| Script::of(&argv(words), Some(folder.path())).0;
        assert_eq!(of(&["python3", "-u", "a.py", "b.csv"]), Some(folder.path().join("a.py")));
        assert_eq!(of(&["./run", "a.py"]), Some(folder.path().join("./run")));
        assert_eq!(of(&["run", "--fast"]), None, "looked for in the path, not here");
        assert_eq!(of(&["cat"]), None);
    }

    #[test]
    fn another_version_counts_once_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.py");
        std::fs::write(&file, "one").unwrap();
        let script = Script::of(&argv(&["python3", "a.py"]), Some(folder.path()));
        let first = script.version();
        assert!(first.is_some() && !script.is_outdated(first));
        std::fs::write(&file, "two, and more").unwrap();
        let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
        assert!(!script.is_outdated(first), "it may still be written");
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(long_ago).unwrap();
        assert!(script.is_outdated(first));
        assert!(!script.is_outdated(script.version()));
        std::fs::remove_file(&file).unwrap();
        assert!(!script.is_outdated(first), "nothing is there to be started");
        assert!(!script.is_outdated(None));
    }
}
