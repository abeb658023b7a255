//! File names below a root, whatever bytes they are made of.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A path relative to the root of a walk.
///
/// It keeps the bytes of the name. Its printable form ([`fmt::Display`]) is one line of valid UTF-8, the same on every
/// machine, and can be read back ([`FromStr`]): a backslash is doubled; control characters and bytes that are not
/// UTF-8 are `\xNN`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelPath(PathBuf);

/// A text that is not the printable form of a relative path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is not a path below the directory: {why}")]
pub struct BadPath {
    given: String,
    why: &'static str,
}

impl RelPath {
    /// Takes a path that is relative and does not climb (`..`); any other is `None`.
    #[must_use]
    pub fn new(path: &Path) -> Option<Self> {
        let plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        (plain && !path.as_os_str().is_empty()).then(|| Self(path.components().collect()))
    }

    /// The path, to be joined to the root.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.0
    }

    /// The bytes of the path.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_os_str().as_bytes()
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(self.as_bytes(), f)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelPath({self})")
    }
}

/// The printable form of any path, for messages and for payloads; see [`RelPath`] for its rules.
#[must_use]
pub fn printable(path: &Path) -> String {
    struct Shown<'a>(&'a [u8]);
    impl fmt::Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            escape(self.0, f)
        }
    }
    Shown(path.as_os_str().as_bytes()).to_string()
}

/// The path that [`printable`] showed, or `None` for a text it cannot have made.
#[must_use]
pub fn from_printable(text: &str) -> Option<PathBuf> {
    unescape(text).map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)))
}

fn escape(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for piece in bytes.utf8_chunks() {
        for character in piece.valid().chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                _ if is_unprintable(character) => {
                    let mut buffer = [0; 4];
                    for byte in character.encode_utf8(&mut buffer).bytes() {
                        write!(f, "\\x{byte:02x}")?;
                    }
                }
                _ => write!(f, "{character}")?,
            }
        }
        for byte in piece.invalid() {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Control characters, line and paragraph separators, and marks that turn the direction of what follows.
fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = match (first, tail) {
            (b'\\', [b'\\', after @ ..]) => {
                bytes.push(b'\\');
                after
            }
            (b'\\', [b'x', high, low, after @ ..]) => {
                let digit =
                    |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                after
            }
            (b'\\', _) => return None,
            _ => {
                bytes.push(first);
                tail
            }
        };
    }
    Some(bytes)
}

impl FromStr for RelPath {
    type Err = BadPath;
    fn from_str(text: &str) -> Result<Self, BadPath> {
        let bad = |why| BadPath { given: text.chars().take(200).collect(), why };
        let path = from_printable(text).ok_or_else(|| bad("a backslash begins neither \\\\ nor \\xNN"))?;
        Self::new(&path).ok_or_else(|| bad("it is empty, absolute, or climbs"))
    }
}

impl Serialize for RelPath {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RelPath {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn printable_form_is_one_line_and_readable() {
        for (bytes, shown) in [
            (&b"docs/a.md"[..], "docs/a.md"),
            (b"two\nlines", "two\\x0alines"),
            (b"back\\slash", "back\\\\slash"),
            (b"caf\xe9.txt", "caf\\xe9.txt"),
            ("café.txt".as_bytes(), "café.txt"),
        ] {
            let rel = RelPath::new(Path::new(OsStr::from_bytes(bytes))).unwrap();
            assert_eq!(rel.to_string(), shown);
            assert_eq!(shown.parse::<RelPath>().unwrap(), rel);
        }
    }

    #[test]
    fn paths_that_leave_the_root_are_refused() {
        for text in ["", "/etc/passwd", "../x", "a/../../x", "bad\\escape", "\\x2e\\x2e/x", "\\xzz"] {
            assert!(text.parse::<RelPath>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_name_survives_its_printable_form(bytes in proptest::collection::vec(any::<u8>(), 1..40)) {
            let path = PathBuf::from(OsStr::from_bytes(&bytes));
            let shown = printable(&path);
            prop_assert!(!shown.contains(char::is_control));
            prop_assert_eq!(from_printable(&shown), Some(path));
        }
    }
}
