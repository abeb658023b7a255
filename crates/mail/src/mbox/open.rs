//! A message that is being read.

use super::{Entry, Line, version};

/// Bytes of a head that are kept.
const LARGEST_HEAD: usize = 64 << 10;
/// Bytes of empty lines that are held back, because they may be the end.
const HELD: usize = 4 << 10;

#[derive(Debug, Clone)]
pub(super) struct Open {
    start: u64,
    /// After the last byte that is not part of an empty end.
    end: u64,
    hasher: blake3::Hasher,
    held: Vec<u8>,
    head: Vec<u8>,
    /// Where the body begins, once the head is over.
    body: Option<u64>,
}

impl Open {
    pub(super) fn at(start: u64) -> Self {
        let hasher = blake3::Hasher::new();
        Self { start, end: start, hasher, held: Vec::new(), head: Vec::new(), body: None }
    }

    /// Takes in a line; `true` when that was the end of the head.
    pub(super) fn feed(&mut self, line: &Line) -> bool {
        let ends_head = self.body.is_none() && line.is_blank();
        if ends_head {
            self.body = Some(line.end());
        } else if self.body.is_none() && self.head.len() + line.bytes.len() <= LARGEST_HEAD {
            self.head.extend_from_slice(&line.bytes);
        }
        let (text, ending) = line.parts();
        let is_end = text.iter().all(|byte| *byte == b'\r') && self.held.len() < HELD;
        if is_end {
            self.held.extend_from_slice(&line.bytes);
        } else {
            self.hasher.update(&self.held);
            self.held.clear();
            let kept = text.iter().rposition(|byte| *byte != b'\r').map_or(text.len(), |at| at + 1);
            self.hasher.update(&text[..kept]);
            self.held.extend_from_slice(&text[kept..]);
            self.held.extend_from_slice(ending);
            self.end = line.at + kept as u64;
        }
        ends_head
    }

    /// Where the body ends, if its head tells how long it is.
    pub(super) fn claimed_end(&self) -> Option<u64> {
        let line = self.head.split(|byte| *byte == b'\n').find_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
            name.eq_ignore_ascii_case(b"content-length").then_some(&value[1..])
        })?;
        let length: u64 = str::from_utf8(line.trim_ascii()).ok()?.parse().ok()?;
        self.body?.checked_add(length).filter(|_| length > 0)
    }

    pub(super) fn close(self) -> Entry {
        let length = self.end - self.start;
        let version = version(length, &self.hasher.finalize());
        Entry { offset: self.start, length, version, head: self.head }
    }
}
