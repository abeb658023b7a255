//! What a file is: by its name, and by its first bytes when the name does not say.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a file is parsed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Paragraphs.
    Text,
    /// CommonMark with tables and front matter.
    Markdown,
    /// HTML of any age.
    Html,
    /// One message (RFC 5322).
    Email,
    /// Messages one after the other.
    Mbox,
    /// PDF.
    Pdf,
    /// Source code of a language.
    Code(Lang),
}

/// A programming language, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lang(&'static str);

impl Lang {
    /// The language's name in lower case, such as `rust`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0
    }

    /// The language of a name in lower case, if it is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        LANGS.iter().find(|(known, _)| *known == name).map(|(known, _)| Self(known))
    }
}

/// Languages and the endings of their files.
const LANGS: &[(&str, &[&str])] = &[
    ("c", &["c", "h"]),
    ("clojure", &["clj", "cljs", "edn"]),
    ("cpp", &["cc", "cpp", "cxx", "hh", "hpp", "hxx"]),
    ("csharp", &["cs"]),
    ("css", &["css", "scss", "less"]),
    ("dart", &["dart"]),
    ("elixir", &["ex", "exs"]),
    ("erlang", &["erl", "hrl"]),
    ("go", &["go"]),
    ("haskell", &["hs"]),
    ("java", &["java"]),
    ("javascript", &["js", "jsx", "mjs", "cjs"]),
    ("julia", &["jl"]),
    ("kotlin", &["kt", "kts"]),
    ("lua", &["lua"]),
    ("make", &["mk"]),
    ("nix", &["nix"]),
    ("ocaml", &["ml", "mli"]),
    ("perl", &["pl", "pm"]),
    ("php", &["php"]),
    ("powershell", &["ps1"]),
    ("protobuf", &["proto"]),
    ("python", &["py", "pyi"]),
    ("r", &["r"]),
    ("ruby", &["rb"]),
    ("rust", &["rs"]),
    ("scala", &["scala"]),
    ("shell", &["sh", "bash", "zsh", "fish"]),
    ("sql", &["sql"]),
    ("swift", &["swift"]),
    ("terraform", &["tf", "hcl"]),
    ("toml", &["toml"]),
    ("typescript", &["ts", "tsx", "mts", "cts"]),
    ("vue", &["vue", "svelte"]),
    ("yaml", &["yaml", "yml"]),
    ("zig", &["zig"]),
];

/// Endings of files that hold no text worth reading.
const BINARY: &str = "\
    7z a aac avi bin bmp bz2 class db db-journal db-shm db-wal dll dmg doc docx dylib eot exe flac gif gz heic ico iso jar jpeg jpg \
    lz4 mkv mov mp3 mp4 npy o odt ogg onnx otf parquet png ppt pptx pt pyc pyd rar rlib rmeta safetensors so \
    sqlite sqlite-shm sqlite-wal sqlite3 sqlite3-shm sqlite3-wal tar tgz tif tiff ttf wasm wav webm webp woff woff2 xls xlsx xz zip zst";

/// What a file's name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guess {
    /// It is of this kind.
    Is(Kind),
    /// It is something that is not read.
    Binary,
    /// Nothing: ask [`Kind::sniff`] once the bytes are there.
    Unknown,
}

impl Kind {
    /// What the name of a file says about it.
    #[must_use]
    pub fn guess(path: &Path) -> Guess {
        let name =
            path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        match name.as_str() {
            "makefile" | "gnumakefile" => return Guess::Is(Self::code("make")),
            "dockerfile" | "containerfile" => return Guess::Is(Self::code("shell")),
            "gemfile" | "rakefile" => return Guess::Is(Self::code("ruby")),
            _ => {}
        }
        let Some((_, ending)) = name.rsplit_once('.') else { return Guess::Unknown };
        match ending {
            "md" | "markdown" | "mdx" | "qmd" | "rmd" => Guess::Is(Self::Markdown),
            "html" | "htm" | "xhtml" => Guess::Is(Self::Html),
            "eml" => Guess::Is(Self::Email),
            "mbox" => Guess::Is(Self::Mbox),
            "pdf" => Guess::Is(Self::Pdf),
            "txt" | "text" | "rst" | "adoc" | "org" | "tex" | "log" | "csv" | "tsv" => Guess::Is(Self::Text),
            _ if BINARY.split(' ').any(|known| known == ending) => Guess::Binary,
            _ => Self::lang(|(_, endings)| endings.contains(&ending)).map_or(Guess::Unknown, Guess::Is),
        }
    }

    /// What the first bytes say about a file whose name says nothing.
    #[must_use]
    pub fn sniff(bytes: &[u8]) -> Self {
        let start = &bytes[..bytes.len().min(1024)];
        let lower =
            String::from_utf8_lossy(start).trim_start_matches('\u{feff}').trim_start().to_ascii_lowercase();
        if start.starts_with(b"%PDF-") {
            Self::Pdf
        } else if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
            Self::Html
        } else if let Some(first) = lower.strip_prefix("#!").and_then(|rest| rest.lines().next()) {
            ["python", "perl", "ruby", "lua", "php"]
                .into_iter()
                .find(|name| first.contains(name))
                .map_or(Self::code("shell"), Self::code)
        } else {
            Self::Text
        }
    }

    fn code(name: &str) -> Self {
        Self::lang(|(known, _)| *known == name).unwrap_or(Self::Text)
    }

    fn lang(wanted: impl Fn(&(&'static str, &[&str])) -> bool) -> Option<Self> {
        LANGS.iter().find(|row| wanted(row)).map(|(name, _)| Self::Code(Lang(name)))
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => f.write_str("text"),
            Self::Markdown => f.write_str("markdown"),
            Self::Html => f.write_str("html"),
            Self::Email => f.write_str("email"),
            Self::Mbox => f.write_str("mbox"),
            Self::Pdf => f.write_str("pdf"),
            Self::Code(lang) => write!(f, "code:{}", lang.name()),
        }
    }
}

/// A word that names no kind of file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a kind of file (text, markdown, html, email, mbox, pdf, code:LANGUAGE)")]
pub struct BadKind(String);

impl FromStr for Kind {
    type Err = BadKind;
    fn from_str(text: &str) -> Result<Self, BadKind> {
        Ok(match text {
            "text" => Self::Text,
            "markdown" => Self::Markdown,
            "html" => Self::Html,
            "email" => Self::Email,
            "mbox" => Self::Mbox,
            "pdf" => Self::Pdf,
            _ => text
                .strip_prefix("code:")
                .and_then(|name| Self::lang(|(known, _)| *known == name))
                .ok_or_else(|| BadKind(text.chars().take(64).collect()))?,
        })
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_kinds() {
        for (name, guess) in [
            ("a.md", Guess::Is(Kind::Markdown)),
            ("A.PDF", Guess::Is(Kind::Pdf)),
            ("src/x.rs", Guess::Is(Kind::code("rust"))),
            ("Makefile", Guess::Is(Kind::code("make"))),
            ("photo.JPG", Guess::Binary),
            ("LICENSE", Guess::Unknown),
            ("x.unknown", Guess::Unknown),
        ] {
            assert_eq!(Kind::guess(Path::new(name)), guess, "{name}");
        }
    }

    #[test]
    fn first_bytes_tell_kinds() {
        for (bytes, kind) in [
            (&b"%PDF-1.4\n"[..], Kind::Pdf),
            (b"\xef\xbb\xbf <!DOCTYPE html>", Kind::Html),
            (b"#!/usr/bin/env python3\n", Kind::code("python")),
            (b"#!/bin/sh\n", Kind::code("shell")),
            (b"hello", Kind::Text),
            (b"", Kind::Text),
        ] {
            assert_eq!(Kind::sniff(bytes), kind);
        }
    }

    #[test]
    fn kinds_survive_their_names() {
        for kind in
            LANGS.iter().map(|(name, _)| Kind::Code(Lang(name))).chain([Kind::Text, Kind::Mbox, Kind::Pdf])
        {
            assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
        }
        assert!("code:klingon".parse::<Kind>().is_err());
    }
}
