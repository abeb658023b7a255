//! What a parser makes of a file: its text, and where in it the blocks and headings are.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How many blocks a document has at most; what follows is added to the last one.
const MAX_BLOCKS: usize = 200_000;
/// How many characters of a heading or label are kept.
const MAX_TITLE: usize = 160;

/// The text of one file and its structure.
///
/// Blocks are in order, do not overlap, and hold every character that is not white space.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Document {
    /// The decoded or extracted text. All ranges are byte ranges of it.
    pub text: String,
    /// The name that the document gives itself.
    pub title: Option<String>,
    /// Headings in order.
    pub headings: Vec<Heading>,
    /// Blocks in order.
    pub blocks: Vec<Block>,
    /// What a reader of the result should know, such as a guessed encoding or a page without text.
    pub notes: Vec<String>,
}

/// A heading and the one above it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heading {
    /// Its rank: 1 is the highest.
    pub level: u8,
    /// Its text in one line, shortened when very long.
    pub title: String,
    /// The index of the heading it is below.
    pub parent: Option<u32>,
}

/// A piece of the text that should stay together if it can.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// Where it is in the text; begins and ends with a character that is not white space.
    pub range: Range<usize>,
    /// The lines it is on.
    pub lines: Lines,
    /// The page it is on, counted from 1, for formats that have pages.
    pub page: Option<u32>,
    /// The index of the heading it is below (a heading's own block: itself).
    pub heading: Option<u32>,
    /// The first line of a source code item, for pieces of it that do not show it.
    pub label: Option<String>,
}

/// What a block is, which says how it is split when it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// A heading's own line.
    Heading,
    /// A paragraph, list item or quotation: split at sentences.
    Prose,
    /// A listing or table: split at lines.
    Verbatim,
    /// A top-level item of source code: split at its inner items, then at lines.
    Item,
}

/// Lines of the text, both counted from 1 and included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// The first line.
    pub first: u32,
    /// The last line.
    pub last: u32,
}

impl Document {
    /// The text of a block.
    #[must_use]
    pub fn text_of(&self, block: &Block) -> &str {
        &self.text[block.range.clone()]
    }

    /// The titles from the highest heading down to the given one.
    #[must_use]
    pub fn path(&self, heading: Option<u32>) -> Vec<&str> {
        let mut titles = Vec::new();
        let mut next = heading.and_then(|index| self.headings.get(index as usize));
        while let Some(heading) = next {
            titles.push(heading.title.as_str());
            // A parent always comes before its child, so this ends; a document that somebody else made may claim otherwise.
            next = heading
                .parent
                .filter(|_| titles.len() < 16)
                .and_then(|index| self.headings.get(index as usize));
        }
        titles.reverse();
        titles
    }

    /// Tells whether the promises above hold.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let mut end = 0;
        self.blocks.iter().all(|block| {
            let gap = self.text.get(end..block.range.start);
            let ordered = gap.is_some_and(is_blank)
                && self.text.get(block.range.clone()).is_some_and(|text| !is_blank(text))
                && block.heading.is_none_or(|index| (index as usize) < self.headings.len());
            end = block.range.end;
            ordered
        }) && self.text.get(end..).is_some_and(is_blank)
            && self
                .headings
                .iter()
                .enumerate()
                .all(|(at, heading)| heading.parent.is_none_or(|parent| (parent as usize) < at))
    }
}

/// Collects a document. Parsers name blocks by ranges of the text; what they leave out becomes blocks of its own.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    document: Document,
    open: Vec<(u8, u32)>,
    page: Option<u32>,
}

impl Builder {
    /// Begins with a text that is there already.
    pub(crate) fn over(text: String) -> Self {
        let text = without_zeros(text.into()).into_owned();
        Self { document: Document { text, ..Document::default() }, ..Self::default() }
    }

    pub(crate) fn text(&self) -> &str {
        &self.document.text
    }

    pub(crate) fn note(&mut self, note: impl Into<String>) {
        self.document.notes.push(note.into());
    }

    pub(crate) fn title(&mut self, title: &str) {
        let title = one_line(title);
        if self.document.title.is_none() && !title.is_empty() {
            self.document.title = Some(title);
        }
    }

    pub(crate) fn page(&mut self, page: u32) {
        self.page = Some(page);
    }

    /// Opens a heading: the blocks that follow are below it.
    pub(crate) fn heading(&mut self, level: u8, title: &str) {
        let title = one_line(title);
        if title.is_empty() || self.document.headings.len() >= MAX_BLOCKS {
            return;
        }
        self.open.retain(|(above, _)| *above < level);
        let index = u32::try_from(self.document.headings.len()).unwrap_or(u32::MAX);
        let parent = self.open.last().map(|(_, index)| *index);
        self.document.headings.push(Heading { level, title, parent });
        self.open.push((level, index));
    }

    /// Names a block; ranges come in order. A blank one is left out.
    pub(crate) fn block(&mut self, kind: BlockKind, range: Range<usize>) {
        self.labelled(kind, range, None);
    }

    /// Names a block that has a label.
    pub(crate) fn labelled(&mut self, kind: BlockKind, range: Range<usize>, label: Option<&str>) {
        let covered = self.document.blocks.last().map_or(0, |block| block.range.end);
        let range = trimmed(&self.document.text, range.start.max(covered)..range.end.max(covered));
        if range.is_empty() {
            return;
        }
        let heading = self.open.last().map(|(_, index)| *index);
        let gap = trimmed(&self.document.text, covered..range.start);
        if !gap.is_empty() {
            self.push(BlockKind::Prose, gap, heading, None);
        }
        self.push(kind, range, heading, label.map(one_line));
    }

    /// Appends text to the document as a block of its own.
    pub(crate) fn append(&mut self, kind: BlockKind, text: &str) {
        let text = without_zeros(text.into());
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        if !self.document.text.is_empty() {
            self.document.text.push_str("\n\n");
        }
        let start = self.document.text.len();
        self.document.text.push_str(text);
        self.block(kind, start..start + text.len());
    }

    fn push(&mut self, kind: BlockKind, range: Range<usize>, heading: Option<u32>, label: Option<String>) {
        let page = self.page;
        if self.document.blocks.len() >= MAX_BLOCKS
            && let Some(last) = self.document.blocks.last_mut()
        {
            last.range.end = range.end;
            return;
        }
        let lines = Lines { first: 0, last: 0 };
        self.document.blocks.push(Block { kind, range, lines, page, heading, label });
    }

    /// Fills what is left and counts the lines.
    pub(crate) fn finish(mut self) -> Document {
        let end = self.document.text.len();
        let covered = self.document.blocks.last().map_or(0, |block| block.range.end);
        self.block(BlockKind::Prose, covered..end);
        let index = LineIndex::of(&self.document.text);
        for block in &mut self.document.blocks {
            block.lines = index.lines(&block.range);
        }
        self.document
    }
}

/// A zero ends a text in many a place that it goes to; a blank is as long.
fn without_zeros(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', " ").into() } else { text }
}

/// Where the lines of a text end.
#[derive(Debug)]
pub(crate) struct LineIndex(Vec<usize>);

impl LineIndex {
    pub(crate) fn of(text: &str) -> Self {
        Self(text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect())
    }

    /// The lines that a range is on.
    pub(crate) fn lines(&self, range: &Range<usize>) -> Lines {
        let line = |at: usize| u32::try_from(self.0.partition_point(|end| *end < at) + 1).unwrap_or(u32::MAX);
        Lines { first: line(range.start), last: line(range.end.saturating_sub(1).max(range.start)) }
    }
}

/// The range without white space at its ends.
pub(crate) fn trimmed(text: &str, range: Range<usize>) -> Range<usize> {
    let piece = &text[range.clone()];
    let start = range.start + (piece.len() - piece.trim_start().len());
    let end = start + piece.trim().len();
    start..end
}

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The text in one line with single spaces, shortened.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > MAX_TITLE * 4 {
            break;
        }
    }
    if line.chars().count() > MAX_TITLE {
        line = line.chars().take(MAX_TITLE - 1).chain(['…']).collect();
    }
    line
}
