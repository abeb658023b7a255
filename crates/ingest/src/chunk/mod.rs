//! A document to chunks of at most so many tokens, cut where the document itself has seams.
//!
//! A section is never mixed with another unless both are smaller than `min_tokens`; pages are never mixed. Within a
//! section, where a chunk ends depends on the text around that place and not on how much came before it (some units are
//! anchors by their hash), so that an edit changes the chunks it touches and, as a rule, one or two after them.
//!
//! A chunk's key is made of what is embedded: its context and its text, and its number among equals.

mod pack;
mod sizes;
mod split;

use std::collections::HashMap;
use std::ops::Range;

use redrive_core::id::ContentHash;

use crate::document::{Document, LineIndex, Lines};

/// How large chunks are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkOptions {
    /// Tokens of a chunk with its context. Default: 256.
    pub max_tokens: usize,
    /// Below this a section is joined with neighbours that are as small, and a rest with what it follows. Default: 48.
    pub min_tokens: usize,
    /// Tokens of the chunk before it that a chunk of the same section repeats; at most half of `max_tokens`. Default: 0.
    pub overlap: usize,
}

impl Default for ChunkOptions {
    fn default() -> Self {
        Self { max_tokens: 256, min_tokens: 48, overlap: 0 }
    }
}

/// A piece of a document to embed and to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its place in the document, from 0.
    pub ordinal: u32,
    /// Its name within the document; stays while its content stays.
    pub key: ContentHash,
    /// Title and headings above it in one line; may be empty.
    pub context: String,
    /// Its text: exactly `document.text[range]`.
    pub text: String,
    /// The page it is on, for formats that have pages.
    pub page: Option<u32>,
    /// Where it is in the document's text.
    pub range: Range<usize>,
    /// The lines it is on.
    pub lines: Lines,
}

impl Chunk {
    /// What is embedded: the context, then the text. This is what has at most `max_tokens` tokens.
    #[must_use]
    pub fn input(&self) -> String {
        joined(&self.context, &self.text)
    }
}

/// What parts the context from the text.
const SEPARATOR: &str = "\n\n";

/// The context, then the text.
pub(crate) fn joined(context: &str, text: &str) -> String {
    if context.is_empty() { text.to_owned() } else { format!("{context}{SEPARATOR}{text}") }
}

/// Cuts a document.
///
/// `count` says how many tokens a text has. It should not count marks that a model adds around every text; a longer
/// text should not have fewer tokens, and a text not more than its lines together: those are what is counted, once
/// each. A line that has to be cut is counted again, in pieces. A chunk has at most 16 bytes of text for each of
/// `max_tokens`, however few tokens they are. A single character that alone has more than `max_tokens`
/// tokens is a chunk nevertheless: nothing is left out.
#[must_use]
pub fn chunk(document: &Document, options: &ChunkOptions, count: &dyn Fn(&str) -> usize) -> Vec<Chunk> {
    let options = ChunkOptions {
        max_tokens: options.max_tokens.max(1),
        min_tokens: options.min_tokens.min(options.max_tokens / 2),
        overlap: options.overlap.min(options.max_tokens / 2),
    };
    let pieces = pack::pieces(document, &options, count);
    let index = LineIndex::of(&document.text);
    let mut seen: HashMap<ContentHash, u64> = HashMap::new();
    pieces
        .into_iter()
        .enumerate()
        .map(|(ordinal, piece)| {
            let text = document.text[piece.range.clone()].to_owned();
            let context = piece.context.text;
            let content = ContentHash::of(&[context.as_bytes(), text.as_bytes()]);
            let number = seen.entry(content).or_default();
            let key = ContentHash::of(&[&content.0, &number.to_le_bytes()]);
            *number += 1;
            Chunk {
                ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
                key,
                lines: index.lines(&piece.range),
                context,
                text,
                page: piece.page,
                range: piece.range,
            }
        })
        .collect()
}
