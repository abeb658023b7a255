//! Passages: what is in an indexed file, read from the index. No file is opened, so nothing can be read that was not indexed.

use std::sync::Arc;

use redrive_store::index::{Collection, Doc, FoundChunk};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Code, Error, Result};

/// Chunks that are read at a time.
const PAGE: usize = 32;
/// Most bytes of a name that is repeated in an error.
const SHOWN: usize = 200;

/// Which part of which file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PassageOf {
    /// The file, below its root, as a search tells it.
    pub path: String,
    /// The indexed directory, where several have such a file.
    pub root: Option<String>,
    /// Only from this line on, counted from 1.
    pub first_line: Option<u32>,
    /// Only up to this line.
    pub last_line: Option<u32>,
    /// Only this page, counted from 1.
    pub page: Option<u32>,
    /// Goes on with this part, from `next` of an answer before.
    pub from: u32,
    /// About so many bytes of text at most.
    pub max_bytes: usize,
}

/// What is in a part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passages {
    /// The indexed directory.
    pub root: String,
    /// The file, below it.
    pub path: String,
    /// What the file is.
    pub kind: String,
    /// The parts, in their order. Neighbours may overlap.
    pub parts: Vec<Part>,
    /// The number of the part with which it goes on; `None` when this is all.
    pub next: Option<u32>,
}

/// One part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The page, from 1, where there are pages.
    pub page: Option<u32>,
    /// The first line, from 1.
    pub first_line: u32,
    /// The last line; of a part that was cut, the one at which it was.
    pub last_line: u32,
    /// Title and headings above it.
    pub context: String,
    /// Its text, as it was indexed.
    pub text: String,
    /// Whether its text was longer than what fits an answer.
    pub cut: bool,
}

/// Reads a part of an indexed file.
///
/// # Errors
/// When no index has such a file, several have, or the store fails.
pub async fn read(floor: &Floor, request: &PassageOf) -> Result<Passages> {
    floor.require_payloads()?;
    let (collection, doc) = found(floor, request).await?;
    let (mut parts, mut left, mut from) = (Vec::new(), request.max_bytes.max(1), request.from);
    let next = 'all: loop {
        let page = floor.index.chunks_of(doc.no, from, PAGE).await?;
        let Some(last) = page.last().map(|chunk| chunk.place.ordinal) else { break None };
        for chunk in page.into_iter().filter(|chunk| request.means(chunk)) {
            let ordinal = chunk.place.ordinal;
            let mut part = request.part(chunk);
            if part.text.len() > left && !parts.is_empty() {
                break 'all Some(ordinal);
            }
            // Only one that fits no answer is cut; its lines tell where to read on.
            part.shorten(left);
            left = left.saturating_sub(part.text.len());
            parts.push(part);
        }
        from = last.saturating_add(1);
    };
    Ok(Passages { root: collection.spec.root, path: doc.path.to_string(), kind: doc.kind, parts, next })
}

/// The one published file that is meant.
async fn found(floor: &Floor, request: &PassageOf) -> Result<(Collection, Doc)> {
    let mut found = Vec::new();
    for collection in floor.index.collections().await? {
        if request.root.as_ref().is_some_and(|root| *root != collection.spec.root) {
            continue;
        }
        let path: Arc<str> = request.path.as_str().into();
        let docs = floor.index.docs(collection.no, vec![path]).await?;
        let published = docs.into_iter().flatten().filter(|doc| doc.published.is_some());
        found.extend(published.map(|doc| (collection.clone(), doc)));
    }
    if found.len() > 1 {
        let roots: Vec<&str> = found.iter().map(|(collection, _)| collection.spec.root.as_str()).collect();
        return Err(Error::wrong("several indexes have a file of that name")
            .hint(format!("name the root as well: {}", roots.join(", "))));
    }
    found.pop().ok_or_else(|| {
        let shown: String = request.path.chars().take(SHOWN).collect();
        Error::not_found(format!("no index has a file {shown:?}"))
            .code(Code::NotFound)
            .hint("take path and root from a search; only what was indexed can be read")
    })
}

impl PassageOf {
    fn means(&self, chunk: &FoundChunk) -> bool {
        let (first, last) = chunk.place.lines;
        self.page.is_none_or(|page| chunk.place.page == Some(page))
            && self.first_line.is_none_or(|line| last >= line)
            && self.last_line.is_none_or(|line| first <= line)
    }

    /// The lines of a chunk that are meant.
    fn part(&self, chunk: FoundChunk) -> Part {
        let (first, last) = chunk.place.lines;
        let from = self.first_line.unwrap_or(first).max(first);
        let to = self.last_line.unwrap_or(last).min(last);
        let whole = from == first && to == last;
        let wanted = |at: usize| {
            let line = first.saturating_add(u32::try_from(at).unwrap_or(u32::MAX));
            (from..=to).contains(&line)
        };
        let lines = chunk.text.split_inclusive('\n').enumerate().filter(|(at, _)| whole || wanted(*at));
        let text: String = lines.map(|(_, line)| line).collect();
        let (page, context) = (chunk.place.page, chunk.context);
        Part { page, first_line: from, last_line: to, context, text, cut: false }
    }
}

impl Part {
    /// Cuts the text at so many bytes.
    fn shorten(&mut self, most: usize) {
        if self.text.len() > most {
            let at = (0..=most).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
            self.text.truncate(at);
            let lines = u32::try_from(self.text.matches('\n').count()).unwrap_or(u32::MAX);
            self.last_line = self.first_line.saturating_add(lines).min(self.last_line);
            self.cut = true;
        }
    }
}
