//! The messages of an mbox, one after the other, in memory that does not grow with them.
//!
//! A message begins after a line `From …`. Such a line ends the message before it when it tells a sender and a date, and comes after
//! an empty line, at the start, or before a line that looks like a header. A message that tells its `Content-Length` (mboxcl) may have such
//! lines in its body: they count as text when the archive goes on with a new message exactly where that length says.

mod open;

use std::collections::VecDeque;
use std::io::{self, BufRead};

use redrive_core::id::ContentHash;

use open::Open;

/// Bytes of a line that are looked at at a time.
const PIECE: u64 = 16 << 10;
/// Lines that may begin a message, within the length that a message claims to have; with more, it is not believed.
const DOUBTS: usize = 1_000;

/// A message of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it begins in the (unpacked) archive, after its `From` line.
    pub offset: u64,
    /// How many bytes it has, without the empty lines that follow it.
    pub length: u64,
    /// Its content; see [`version`].
    pub version: ContentHash,
    /// The lines of its head, up to a bound.
    pub head: Vec<u8>,
}

/// Names a content so that of two under one name the longer one is the greater: a message that was cut off gives way to the whole
/// one, and copies that differ by a footer have one order, whoever comes first.
#[must_use]
pub fn version(length: u64, hash: &blake3::Hash) -> ContentHash {
    let mut bytes = [0; 16];
    bytes[..5].copy_from_slice(&length.min((1 << 40) - 1).to_be_bytes()[3..]);
    bytes[5..].copy_from_slice(&hash.as_bytes()[..11]);
    ContentHash(bytes)
}

/// The version of a message that is a file of its own.
#[must_use]
pub fn version_of(raw: &[u8]) -> ContentHash {
    let text = trimmed(raw);
    version(text.len() as u64, &blake3::hash(text))
}

/// A message without the empty lines at its end.
fn trimmed(raw: &[u8]) -> &[u8] {
    let end = raw.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |at| at + 1);
    &raw[..end]
}

/// A line, or a piece of a long one.
#[derive(Debug, Default)]
pub(crate) struct Line {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at: u64,
    /// Whether it is the beginning of a line.
    pub(crate) starts: bool,
}

impl Line {
    pub(crate) fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    /// Its bytes, and what ends it.
    pub(crate) fn parts(&self) -> (&[u8], &[u8]) {
        let bare = match self.bytes.as_slice() {
            [bare @ .., b'\r', b'\n'] | [bare @ .., b'\n'] => bare.len(),
            all => all.len(),
        };
        self.bytes.split_at(bare)
    }

    pub(crate) fn is_blank(&self) -> bool {
        self.starts && self.parts().0.is_empty()
    }
}

/// Finds the messages of an mbox.
///
/// Reading ends with the first error: what was read before it is told first, also the message that is cut off by it.
pub struct Mbox<R> {
    input: R,
    line: Line,
    next: Option<Line>,
    /// What was read last and is used again.
    spare: Line,
    before: Before,
    /// The message that is read, and those that may have begun within the length that it claims.
    inner: Vec<Open>,
    /// The same message as its length says, once that is in doubt, and where it ends.
    outer: Option<Open>,
    claimed_end: Option<u64>,
    ready: VecDeque<Entry>,
    failed: Option<io::Error>,
    ended: bool,
}

/// What came before a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    Nothing,
    Blank,
    Text,
}

impl<R: BufRead> Mbox<R> {
    /// Begins to read.
    pub fn new(input: R) -> Self {
        Self {
            input,
            line: Line::default(),
            next: None,
            spare: Line::default(),
            before: Before::Nothing,
            inner: Vec::new(),
            outer: None,
            claimed_end: None,
            ready: VecDeque::new(),
            failed: None,
            ended: false,
        }
    }

    /// Reads a line into `line`; `false` at the end.
    fn read(&mut self, mut line: Line, at: u64, starts: bool) -> Option<Line> {
        line.bytes.clear();
        (line.at, line.starts) = (at, starts);
        let mut limited = io::Read::take(&mut self.input, PIECE);
        if let Err(error) = limited.read_until(b'\n', &mut line.bytes) {
            self.failed = Some(error);
        }
        // A carriage return at the end of a piece may belong to the line feed that follows.
        if line.bytes.is_empty() {
            self.spare = line;
            return None;
        }
        Some(line)
    }

    /// Goes on by a line.
    fn advance(&mut self) -> bool {
        let first = self.next.is_none() && self.before == Before::Nothing && self.line.bytes.is_empty();
        let line = if first {
            let spare = std::mem::take(&mut self.spare);
            self.read(spare, 0, true)
        } else {
            self.next.take()
        };
        let Some(line) = line else { return false };
        let spare = std::mem::replace(&mut self.line, line);
        if self.failed.is_none() {
            let (at, starts) = (self.line.end(), self.line.bytes.ends_with(b"\n"));
            self.next = self.read(spare, at, starts);
        }
        true
    }

    fn begins_message(&self) -> bool {
        let line = &self.line;
        if !line.starts || !line.bytes.starts_with(b"From ") {
            return false;
        }
        match self.before {
            Before::Nothing => true,
            Before::Blank => tells_date(&line.bytes),
            Before::Text => tells_date(&line.bytes) && self.next.as_ref().is_some_and(is_header),
        }
    }

    /// Takes in the line that is at hand.
    fn take_in(&mut self) {
        let begins = self.begins_message();
        if let Some(end) = self.claimed_end
            && self.line.at >= end
        {
            let goes_on = self.line.at == end && (self.line.is_blank() || begins);
            self.settle(goes_on);
        }
        if begins {
            let is_inside = self.claimed_end.is_some() && self.inner.len() < DOUBTS;
            if is_inside {
                if self.outer.is_none() {
                    self.outer = self.inner.first().cloned();
                }
                if let Some(outer) = &mut self.outer {
                    outer.feed(&self.line);
                }
            } else {
                self.settle(false);
                self.ready.extend(self.inner.drain(..).map(Open::close));
            }
            self.inner.push(Open::at(self.line.end()));
        } else if !(self.inner.is_empty() && self.line.is_blank()) {
            // What comes before the first `From` line is a message that lost its beginning, or a file of one message.
            if self.inner.is_empty() {
                self.inner.push(Open::at(self.line.at));
            }
            if let Some(outer) = &mut self.outer {
                outer.feed(&self.line);
            }
            let is_alone = self.inner.len() == 1;
            if let Some(open) = self.inner.last_mut()
                && open.feed(&self.line)
                && is_alone
            {
                self.claimed_end = open.claimed_end();
            }
        }
        self.before = if self.line.is_blank() { Before::Blank } else { Before::Text };
    }

    /// Says whether the length that the message claimed is right.
    fn settle(&mut self, right: bool) {
        self.claimed_end = None;
        if let Some(outer) = self.outer.take() {
            if right {
                self.inner = vec![outer];
            } else if let Some(last) = self.inner.pop() {
                self.ready.extend(self.inner.drain(..).map(Open::close));
                self.inner.push(last);
            }
        }
    }
}

impl<R: BufRead> Iterator for Mbox<R> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(entry) = self.ready.pop_front() {
                return Some(Ok(entry));
            }
            if self.ended {
                return self.failed.take().map(Err);
            }
            if self.advance() {
                self.take_in();
            } else {
                let right = self.claimed_end == Some(self.line.end());
                self.settle(right);
                self.ready.extend(self.inner.drain(..).map(Open::close));
                self.ended = true;
            }
        }
    }
}

/// Whether a `From` line tells a date: a month, a time and a year. Real ones do, sentences seldom.
fn tells_date(line: &[u8]) -> bool {
    const MONTHS: [&[u8]; 12] =
        [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
    let digits = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    let (mut month, mut time, mut year) = (false, false, false);
    for word in line.split(|byte| byte.is_ascii_whitespace()).skip(1) {
        month |= MONTHS.contains(&word);
        year |= word.len() == 4 && digits(word);
        let mut parts = word.split(|byte| *byte == b':');
        time |= parts.clone().count() >= 2 && parts.all(|part| part.len() <= 2 && digits(part));
    }
    month && time && year
}

/// Whether a line looks like a header: a name without spaces, and a colon.
fn is_header(line: &Line) -> bool {
    let name = line.bytes.split(|byte| *byte == b':').next().unwrap_or_default();
    line.starts
        && name.len() < line.bytes.len()
        && !name.is_empty()
        && name.len() <= 76
        && name.iter().all(u8::is_ascii_graphic)
}

/// A message of an mbox as it was before it was put there: of lines that begin with `From ` after any number of `>`, one `>` goes.
#[must_use]
pub fn unquoted(raw: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(raw.len());
    let mut in_body = false;
    for line in raw.split_inclusive(|byte| *byte == b'\n') {
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        let is_quoted = in_body && quotes > 0 && line[quotes..].starts_with(b"From ");
        text.extend_from_slice(if is_quoted { &line[1..] } else { line });
        in_body |= matches!(line, b"\n" | b"\r\n");
    }
    text
}
