//! Bytes to a [`Document`], by kind.
//!
//! Parsers never read a file, never panic on any input (those of others are fenced in) and stop at [`Limits`].

mod code;
mod email;
mod html;
mod markdown;
mod pdf;
mod plain;

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::{Deserialize, Serialize};

use crate::decode::{self, decode};
use crate::document::{Builder, Document};
use crate::kind::Kind;

/// How much of a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of the file. Default: 64 MiB.
    pub max_bytes: u64,
    /// Bytes of text that may come out of it. Default: 16 MiB.
    pub max_text: u64,
    /// Pages it may have. Default: 2,000.
    pub max_pages: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_bytes: 64 << 20, max_text: 16 << 20, max_pages: 2_000 }
    }
}

/// Why there is no document. All of these are the file's own: trying again does not help.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum ParseError {
    /// It is not what it says it is, or damaged beyond reading.
    #[error("broken {kind}: {reason}")]
    Broken {
        /// What it was read as.
        kind: Kind,
        /// What is wrong with it.
        reason: String,
    },
    /// It can only be read with a password.
    #[error("encrypted: it needs a password")]
    Encrypted,
    /// It, or the text in it, is larger than the limit.
    #[error("more than {limit} bytes of {what}")]
    TooLarge {
        /// The limit.
        limit: u64,
        /// What there is too much of.
        what: String,
    },
    /// It has more pages than the limit.
    #[error("{pages} pages are more than the {limit} that are read")]
    TooManyPages {
        /// How many it has.
        pages: u64,
        /// How many it may have.
        limit: u32,
    },
    /// It should be a text and is not.
    #[error("{reason}")]
    NotText {
        /// How that shows.
        reason: String,
    },
    /// There is no way to read this.
    #[error("not supported: {reason}")]
    Unsupported {
        /// What is missing.
        reason: String,
    },
}

impl From<decode::NotText> for ParseError {
    fn from(error: decode::NotText) -> Self {
        Self::NotText { reason: error.to_string() }
    }
}

/// Makes a document of a file's bytes. An empty file is a document without blocks.
///
/// # Errors
///
/// [`ParseError`], by what is wrong with the file.
pub fn parse(bytes: &[u8], kind: Kind, limits: &Limits) -> Result<Document, ParseError> {
    if bytes.len() as u64 > limits.max_bytes {
        return Err(ParseError::TooLarge { limit: limits.max_bytes, what: "file".into() });
    }
    let document = match kind {
        Kind::Text => plain::parse(decoded(bytes, limits)?),
        Kind::Markdown => fenced(kind, || Ok(markdown::parse(decoded(bytes, limits)?)))?,
        Kind::Code(_) => code::parse(decoded(bytes, limits)?),
        Kind::Html => fenced(kind, || html::parse(bytes, limits))?,
        Kind::Email => fenced(kind, || email::parse(bytes, limits))?,
        Kind::Mbox => fenced(kind, || email::parse_mbox(bytes, limits))?,
        Kind::Pdf => fenced(kind, || pdf::parse(bytes, limits))?,
    };
    Ok(document)
}

/// Begins a document over the decoded text.
fn decoded(bytes: &[u8], limits: &Limits) -> Result<Builder, ParseError> {
    let decoded = decode(bytes)?;
    within(decoded.text.len(), limits)?;
    let mut builder = Builder::over(decoded.text);
    if let Some(note) = decoded.encoding.note() {
        builder.note(note);
    }
    Ok(builder)
}

fn within(text: usize, limits: &Limits) -> Result<(), ParseError> {
    if text as u64 > limits.max_text {
        return Err(ParseError::TooLarge { limit: limits.max_text, what: "text".into() });
    }
    Ok(())
}

/// Turns a panic of somebody else's parser into the file's failure.
fn fenced<T>(kind: Kind, work: impl FnOnce() -> Result<T, ParseError>) -> Result<T, ParseError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no reason given");
        let reason = format!("its parser gave up ({})", said.chars().take(200).collect::<String>());
        Err(ParseError::Broken { kind, reason })
    })
}
