//! What travels between the process that walks and the one that parses: the payload of a file, and that of a chunk.
//!
//! Both sides read and write them here. Unknown fields are passed over, so that either side may be the newer one.

use std::borrow::Cow;

use redrive_core::id::ContentHash;
use serde::{Deserialize, Serialize};

use crate::chunk::{Chunk, joined};
use crate::path::RelPath;

/// A file that was listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePayload {
    /// Where it is below the root.
    pub path: RelPath,
    /// The hash of what it held when it was listed; of a file that is gone, the last that was known.
    #[serde(with = "digits")]
    pub hash: ContentHash,
    /// How many bytes it has.
    #[serde(default)]
    pub size: u64,
    /// How often its content had been seen to change; tells content that came back from content that stayed.
    #[serde(default)]
    pub looks: u64,
    /// Which version of the file this one takes the place of; 0 for none. Parsing does not look at it.
    #[serde(default)]
    pub replaces: u64,
    /// Whether it was listed before and is there no more. Left out when it is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gone: bool,
    /// Whether it is there, but no longer among the files that are to be listed; only of one that is gone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_out: bool,
}

/// A chunk of a file, with all that a search shows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkPayload<'a> {
    /// The file's path in its printable form.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    /// The hash of the file that it was cut from.
    #[serde(with = "digits")]
    pub version: ContentHash,
    /// Its place in the file, from 0.
    pub ordinal: u32,
    /// Title and headings above it in one line; may be empty.
    #[serde(borrow)]
    pub context: Cow<'a, str>,
    /// Its text.
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    /// The page it is on, for formats that have pages.
    pub page: Option<u32>,
    /// Its first and last line, both counted from 1.
    pub lines: [u32; 2],
    /// Where it begins and ends in the text of the file, in bytes; the end is not in it.
    pub bytes: [u64; 2],
    /// Whether the model could make no vector of it, so that it is found by words only. Left out when it could, and before
    /// it was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub words_only: bool,
}

impl<'a> ChunkPayload<'a> {
    /// The payload of a chunk of this version of this file.
    #[must_use]
    pub fn new(path: &'a str, version: ContentHash, chunk: &'a Chunk) -> Self {
        Self {
            path: path.into(),
            version,
            ordinal: chunk.ordinal,
            context: chunk.context.as_str().into(),
            text: chunk.text.as_str().into(),
            page: chunk.page,
            lines: [chunk.lines.first, chunk.lines.last],
            bytes: [chunk.range.start as u64, chunk.range.end as u64],
            words_only: false,
        }
    }

    /// What is embedded: the context, then the text, exactly as [`Chunk::input`] has it.
    #[must_use]
    pub fn input(&self) -> String {
        joined(&self.context, &self.text)
    }
}

/// Hashes as hexadecimal digits.
mod digits {
    use redrive_core::id::ContentHash;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(hash: &ContentHash, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(hash)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ContentHash, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "000102030405060708090a0b0c0d0e0f";

    #[test]
    fn files_are_written_as_agreed() {
        let written = format!(r#"{{"path":"a\\x0a.md","hash":"{HASH}","size":9,"looks":2,"replaces":7}}"#);
        let file: FilePayload = serde_json::from_str(&written).unwrap();
        assert_eq!(file.path.as_bytes(), b"a\n.md");
        assert_eq!((file.replaces, file.gone), (7, false));
        assert_eq!(serde_json::to_string(&file).unwrap(), written);
        let gone = FilePayload { gone: true, ..file };
        assert!(serde_json::to_string(&gone).unwrap().ends_with(r#""gone":true}"#));
        let least = format!(r#"{{"path":"a","hash":"{HASH}","size":9}}"#);
        assert_eq!(serde_json::from_str::<FilePayload>(&least).unwrap().replaces, 0);
        for bad in [least.replace("\"a\"", "\"../a\""), least.replace("0f\"", "\"")] {
            assert!(serde_json::from_str::<FilePayload>(&bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn chunks_are_written_as_agreed_and_join_as_chunks_do() {
        let written = format!(
            r#"{{"path":"a.md","version":"{HASH}","ordinal":2,"context":"A › B","text":"one\ntwo","page":null,"lines":[3,4],"bytes":[10,17]}}"#
        );
        let chunk: ChunkPayload<'_> = serde_json::from_str(&written).unwrap();
        assert_eq!(serde_json::to_string(&chunk).unwrap(), written);
        assert!(matches!(chunk.path, Cow::Borrowed(_)));
        assert_eq!(chunk.input(), "A › B\n\none\ntwo");
        assert_eq!(ChunkPayload { context: "".into(), ..chunk }.input(), "one\ntwo");
    }
}
