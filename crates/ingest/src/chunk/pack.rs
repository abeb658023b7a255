//! Puts units together to pieces that are as large as may be.

use std::collections::VecDeque;
use std::ops::Range;

use redrive_core::id::ContentHash;

use super::sizes::Sizes;
use super::split::{Room, Seam, split, tail};
use super::{ChunkOptions, SEPARATOR};
use crate::document::{BlockKind, Document};

/// A chunk without its name.
pub(super) struct Piece {
    pub(super) range: Range<usize>,
    pub(super) context: Context,
    pub(super) page: Option<u32>,
}

/// The line above a text, and the tokens of it and of what parts it from the text.
#[derive(Debug, Clone, Default)]
pub(super) struct Context {
    pub(super) text: String,
    tokens: usize,
}

/// What is not taken apart unless it must be.
#[derive(Debug, Clone)]
struct Unit {
    range: Range<usize>,
    size: usize,
    seam: Seam,
    heading: Option<u32>,
    /// The item it is a part of, if that began before it.
    label: Option<String>,
    /// Source code that is large enough to stand alone.
    alone: bool,
}

/// Blocks below one heading on one page.
struct Section {
    blocks: Range<usize>,
    heading: Option<u32>,
    page: Option<u32>,
    small: bool,
}

pub(super) fn pieces(
    document: &Document,
    options: &ChunkOptions,
    count: &dyn Fn(&str) -> usize,
) -> Vec<Piece> {
    let sizes = Sizes::of(&document.text, options.max_tokens, count);
    let packer = Packer { document, options, count, sizes };
    let sections = packer.sections();
    let mut found = Vec::new();
    let mut rest = &sections[..];
    while let Some(first) = rest.first() {
        let run =
            rest.iter().take_while(|section| section.small && section.page == first.page).count().max(1);
        found.extend(packer.pack(&rest[..run], first.page));
        rest = &rest[run..];
    }
    found
}

struct Packer<'a> {
    document: &'a Document,
    options: &'a ChunkOptions,
    count: &'a dyn Fn(&str) -> usize,
    sizes: Sizes<'a>,
}

impl Packer<'_> {
    fn sections(&self) -> Vec<Section> {
        let blocks = &self.document.blocks;
        let mut sections: Vec<Section> = Vec::new();
        for (at, block) in blocks.iter().enumerate() {
            match sections.last_mut() {
                Some(last) if last.page == block.page && last.heading == block.heading => {
                    last.blocks.end = at + 1
                }
                // A heading without anything of its own goes to the first section below it.
                Some(last) if last.page == block.page && self.is_bare(last, block.heading) => {
                    last.blocks.end = at + 1;
                    last.heading = block.heading;
                }
                _ => sections.push(Section {
                    blocks: at..at + 1,
                    heading: block.heading,
                    page: block.page,
                    small: false,
                }),
            }
        }
        for section in &mut sections {
            let span = blocks[section.blocks.start].range.start..blocks[section.blocks.end - 1].range.end;
            section.small = self.sizes.size(&span) < self.options.min_tokens;
        }
        sections
    }

    fn is_bare(&self, section: &Section, below: Option<u32>) -> bool {
        let headings = &self.document.headings;
        let parent = below.and_then(|index| headings.get(index as usize)).and_then(|heading| heading.parent);
        section.heading.is_some()
            && parent == section.heading
            && self.document.blocks[section.blocks.clone()]
                .iter()
                .all(|block| block.kind == BlockKind::Heading)
    }

    /// Packs the blocks of one section, or of a run of small ones.
    fn pack(&self, sections: &[Section], page: Option<u32>) -> Vec<Piece> {
        let context = sections.iter().map(|section| self.cost(section.heading)).max().unwrap_or(0);
        let budget = self.options.max_tokens.saturating_sub(context + self.options.overlap).max(1);
        let mut line = Line {
            packer: self,
            budget,
            page,
            queue: self.units(sections),
            taken: Vec::new(),
            size: 0,
            last: Vec::new(),
            done: Vec::new(),
        };
        line.run();
        self.overlapped(line.done)
    }

    fn units(&self, sections: &[Section]) -> VecDeque<Unit> {
        let mut units = VecDeque::new();
        for section in sections {
            for block in &self.document.blocks[section.blocks.clone()] {
                let size = self.sizes.size(&block.range);
                units.push_back(Unit {
                    range: block.range.clone(),
                    size,
                    seam: Seam::of(block.kind),
                    // The section's, which a bare heading above it belongs to as well.
                    heading: section.heading,
                    label: block.label.clone(),
                    alone: block.kind == BlockKind::Item && size >= self.options.min_tokens,
                });
            }
        }
        units
    }

    fn cost(&self, heading: Option<u32>) -> usize {
        self.context(&self.document.path(heading), None).tokens
    }

    /// Title and headings in one line of at most a quarter of a chunk; the nearest are kept longest.
    fn context(&self, path: &[&str], label: Option<&str>) -> Context {
        let title = self.document.title.as_deref().filter(|title| path.first() != Some(title));
        let parts: Vec<&str> = title.into_iter().chain(path.iter().copied()).chain(label).collect();
        (0..parts.len())
            .map(|from| {
                let mut text = parts[from..].join(" › ");
                let length = text.len();
                text.push_str(SEPARATOR);
                let tokens = (self.count)(&text);
                text.truncate(length);
                Context { text, tokens }
            })
            .find(|context| context.tokens <= self.options.max_tokens / 4)
            .unwrap_or_default()
    }

    /// The context of units that are put together: what their headings have in common.
    fn context_of(&self, units: &[Unit]) -> Context {
        let mut path = units.first().map(|unit| self.document.path(unit.heading)).unwrap_or_default();
        for unit in units.iter().skip(1).filter(|unit| unit.heading != units[0].heading) {
            let other = self.document.path(unit.heading);
            let common = path.iter().zip(&other).take_while(|(one, other)| one == other).count();
            path.truncate(common);
        }
        // An item that is whole shows its first line itself.
        let label = units
            .first()
            .filter(|first| {
                first.seam != Seam::Items(0) && units.iter().all(|unit| unit.label == first.label)
            })
            .and_then(|first| first.label.as_deref());
        self.context(&path, label)
    }

    /// Tells whether a text of so many tokens fits below a context of so many.
    fn fits(&self, context: usize, text: usize) -> bool {
        context.saturating_add(text) <= self.options.max_tokens
    }

    /// Lets each piece begin with the last words of the one before it.
    fn overlapped(&self, mut pieces: Vec<Piece>) -> Vec<Piece> {
        if self.options.overlap == 0 {
            return pieces;
        }
        let text = &self.document.text;
        for at in (1..pieces.len()).rev() {
            if pieces[at].context.text != pieces[at - 1].context.text {
                continue;
            }
            let few = |words: &str| (self.count)(words) <= self.options.overlap;
            let before = pieces[at - 1].range.clone();
            let start = tail(text, &before, &few);
            let longer = start..pieces[at].range.end;
            if start < before.end && self.fits(pieces[at].context.tokens, self.sizes.size(&longer)) {
                pieces[at].range.start = start;
            }
        }
        pieces
    }
}

/// Units on their way into pieces.
struct Line<'a, 'b> {
    packer: &'a Packer<'b>,
    budget: usize,
    page: Option<u32>,
    queue: VecDeque<Unit>,
    taken: Vec<Unit>,
    /// The tokens of what was taken, added up.
    size: usize,
    /// What the last piece was made of.
    last: Vec<Unit>,
    done: Vec<Piece>,
}

impl Line<'_, '_> {
    fn run(&mut self) {
        let min = self.packer.options.min_tokens;
        loop {
            let Some(unit) = self.queue.pop_front() else {
                if self.taken.is_empty() || self.join_rest() {
                    return;
                }
                self.close();
                continue;
            };
            let too_much = self.size + unit.size > self.budget;
            // What is too small to stand alone takes the beginning of what follows.
            let starved = !self.taken.is_empty() && self.size < min && !unit.alone;
            if !self.taken.is_empty() && self.ends_before(&unit) {
                self.queue.push_front(unit);
                self.close();
            } else if unit.seam != Seam::None && (unit.size > self.budget || too_much && starved) {
                self.take_apart(unit);
            } else if too_much && !self.taken.is_empty() {
                self.queue.push_front(unit);
                self.close();
            } else {
                self.size += unit.size;
                self.taken.push(unit);
            }
        }
    }

    /// Tells whether a chunk ends before this unit although there may be room for it.
    fn ends_before(&self, unit: &Unit) -> bool {
        let beside_large = unit.alone || self.taken.last().is_some_and(|last| last.alone);
        let text = &self.packer.document.text[unit.range.clone()];
        beside_large && self.size >= self.packer.options.min_tokens
            || self.size >= self.budget / 2 && ContentHash::of(&[text.as_bytes()]).0[0] & 3 == 0
    }

    fn take_apart(&mut self, unit: Unit) {
        self.split(&unit, unit.seam, self.budget);
    }

    /// Puts the parts of a unit in its place, of at most so many tokens where it is cut; tells whether there is more
    /// than one.
    fn split(&mut self, unit: &Unit, seam: Seam, tokens: usize) -> bool {
        let sizes = &self.packer.sizes;
        let room = Room { tokens, count: &|piece| sizes.counted(piece) };
        let pieces = split(&self.packer.document.text, &unit.range, seam, room);
        let parted = pieces.len() > 1;
        for (range, seam) in pieces.into_iter().rev() {
            let size = self.packer.sizes.size(&range);
            self.queue.push_front(Unit { range, size, seam, alone: false, ..unit.clone() });
        }
        parted
    }

    /// Makes a piece of what was taken. What does not fit after all goes back: its context may be longer than expected.
    fn close(&mut self) {
        let mut units = std::mem::take(&mut self.taken);
        self.size = 0;
        while let Some((first, last)) = units.first().zip(units.last()) {
            let range = first.range.start..last.range.end;
            let context = self.packer.context_of(&units);
            if !self.packer.fits(context.tokens, self.packer.sizes.size(&range)) {
                if units.len() > 1 {
                    if let Some(unit) = units.pop() {
                        self.queue.push_front(unit);
                    }
                    continue;
                }
                let unit = units[0].clone();
                let seam = if unit.seam == Seam::None { Seam::Anywhere } else { unit.seam };
                let room = self.packer.options.max_tokens.saturating_sub(context.tokens);
                if self.split(&unit, seam, room) {
                    return;
                }
                // One character that is too much by itself.
                self.queue.pop_front();
            }
            self.done.push(Piece { range, context, page: self.page });
            self.last = units;
            return;
        }
    }

    /// Adds a small rest to the last piece if there is room; tells whether it did.
    fn join_rest(&mut self) -> bool {
        let Some(piece) = self.done.last_mut() else { return false };
        let Some(end) = self.taken.last().map(|unit| unit.range.end) else { return true };
        if self.size >= self.packer.options.min_tokens || self.last.is_empty() {
            return false;
        }
        let units: Vec<Unit> = self.last.iter().chain(&self.taken).cloned().collect();
        let context = self.packer.context_of(&units);
        let range = piece.range.start..end;
        // An overlap may still come before it.
        let reserve = self.packer.options.overlap;
        if !self.packer.fits(context.tokens + reserve, self.packer.sizes.size(&range)) {
            return false;
        }
        (piece.range, piece.context) = (range, context);
        self.taken.clear();
        true
    }
}
