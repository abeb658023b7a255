//! One JSON value a line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::fingerprint::fingerprint;
use redrive_core::id::ContentHash;
use redrive_core::item::{LastFailure, NewItem};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::{Piece, Source, SourceError};

/// Longest line that is taken as an item.
pub const MAX_LINE: usize = 16 << 20;
/// Most lines in one piece.
const PIECE_LINES: usize = 1_000;
/// A piece ends when it holds this many bytes.
const PIECE_BYTES: usize = 4 << 20;
/// How much of an unusable line is kept.
const KEPT_OF_REFUSED: usize = 4 << 10;
/// How much of a file's beginning tells it from another.
const HEAD: u64 = 4 << 10;

/// Lines of JSON from a file or a stream.
pub struct JsonLines {
    name: String,
    reader: BufReader<Box<dyn Read + Send>>,
    /// Whether more may come slowly, so that what is there is not kept waiting for it.
    live: bool,
    key: Option<String>,
    position: Position,
}

/// How far a file was read.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    offset: u64,
    line: u64,
    head: String,
}

impl JsonLines {
    /// Opens a file, and goes on where `position` says if it still is the same file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open(path: &Path, key: Option<String>, position: Option<&str>) -> Result<Self, SourceError> {
        let name = path.display().to_string();
        let fail = |cause| SourceError { what: name.clone(), cause };
        let mut file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            return Err(fail(std::io::Error::new(std::io::ErrorKind::IsADirectory, "it is a directory")));
        }
        let before: Option<Position> = position.and_then(|text| serde_json::from_str(text).ok());
        let read = before.as_ref().map_or(HEAD, |before| before.offset.min(HEAD));
        let mut head = Vec::new();
        file.by_ref().take(read).read_to_end(&mut head).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        let position = before
            .filter(|before| before.offset <= length && before.head == ContentHash::of(&[&head]).to_string())
            .unwrap_or_default();
        file.seek(SeekFrom::Start(position.offset)).map_err(fail)?;
        Ok(Self {
            name,
            reader: BufReader::with_capacity(1 << 16, Box::new(file)),
            live: false,
            key,
            position,
        })
    }

    /// Reads from a stream that cannot be gone back in.
    #[must_use]
    pub fn stream(name: &str, reader: Box<dyn Read + Send>, key: Option<String>) -> Self {
        let reader = BufReader::with_capacity(1 << 16, reader);
        Self { name: name.to_owned(), reader, live: true, key, position: Position::default() }
    }

    /// Reads a line without its end into `line`, at most [`MAX_LINE`] bytes of it. Returns its whole length, 0 at the end.
    fn read_line(&mut self, line: &mut Vec<u8>) -> std::io::Result<u64> {
        let mut length = 0;
        loop {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(length);
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            line.extend_from_slice(&part[..part.len().min(MAX_LINE.saturating_sub(line.len()))]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.reader.consume(used);
            length += used as u64;
            if end.is_some() {
                return Ok(length);
            }
        }
    }

    fn item(&self, line: &[u8], length: u64) -> NewItem {
        let number = self.position.line;
        if length > MAX_LINE as u64 + 1 {
            return refused(
                line,
                number,
                &format!("line {number} has {length} bytes, more than the {MAX_LINE} allowed"),
            );
        }
        if let Err(error) = serde_json::from_slice::<IgnoredAny>(line) {
            return refused(line, number, &format!("line {number} is not JSON: {error}"));
        }
        match self.key.as_deref().map(|pointer| key_at(line, pointer)) {
            None => NewItem::new(ContentHash::of(&[line]).to_string(), line, number),
            Some(Some(key)) => NewItem::new(key, line, number),
            Some(None) => {
                let pointer = self.key.as_deref().unwrap_or_default();
                refused(
                    line,
                    number,
                    &format!("line {number} has no string or number at {pointer} for its key"),
                )
            }
        }
    }
}

impl Source for JsonLines {
    fn next_piece(&mut self) -> Result<Piece, SourceError> {
        let mut piece = Piece { items: Vec::new(), position: String::new(), done: false };
        let mut bytes = 0;
        let mut line = Vec::new();
        let mut head = Vec::new();
        let from_start = self.position.offset == 0;
        while piece.items.len() < PIECE_LINES && bytes < PIECE_BYTES {
            if self.live && !piece.items.is_empty() && self.reader.buffer().is_empty() {
                break;
            }
            line.clear();
            let length =
                self.read_line(&mut line).map_err(|cause| SourceError { what: self.name.clone(), cause })?;
            if length == 0 {
                piece.done = true;
                break;
            }
            if from_start && (head.len() as u64) < HEAD {
                head.extend_from_slice(&line);
                head.push(b'\n');
            }
            if self.position.offset == 0 && line.starts_with(b"\xef\xbb\xbf") {
                line.drain(..3);
            }
            self.position.offset += length;
            self.position.line += 1;
            let content = line.trim_ascii();
            bytes += content.len();
            if !content.is_empty() {
                piece.items.push(self.item(content, length));
            }
        }
        if from_start {
            head.truncate(usize::try_from(self.position.offset.min(HEAD)).unwrap_or(usize::MAX));
            self.position.head = ContentHash::of(&[&head]).to_string();
        }
        piece.position = serde_json::to_string(&self.position).unwrap_or_default();
        Ok(piece)
    }
}

fn key_at(line: &[u8], pointer: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    match value.pointer(pointer)? {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(yes) => Some(yes.to_string()),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
    }
}

/// An item that cannot be worked on: it is admitted as dead, with what could be kept of its line.
fn refused(line: &[u8], number: u64, why: &str) -> NewItem {
    let kept = String::from_utf8_lossy(&line[..line.len().min(KEPT_OF_REFUSED)]);
    let payload = serde_json::to_vec(&kept).unwrap_or_else(|_| b"null".to_vec());
    let failure = Failure::new(Class::Final, Kind::Input, why);
    let mut item = NewItem::new(format!("line-{number}"), payload, number);
    item.refused = Some(refusal(&failure));
    item
}

/// A failure that happened before any stage was reached.
pub(crate) fn refusal(failure: &Failure) -> LastFailure {
    LastFailure {
        class: failure.class,
        kind: failure.kind,
        message: Arc::from(failure.message()),
        group: Arc::from(fingerprint(failure.class, "source", failure.message())),
        shared: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines(text: &[u8], key: Option<&str>) -> Vec<NewItem> {
        let mut source =
            JsonLines::stream("test", Box::new(std::io::Cursor::new(text.to_vec())), key.map(Into::into));
        let mut items = Vec::new();
        loop {
            let piece = source.next_piece().expect("memory can be read");
            items.extend(piece.items);
            if piece.done {
                return items;
            }
        }
    }

    #[test]
    fn a_line_that_is_not_usable_is_an_item_all_the_same() {
        let deep = "[".repeat(100_000);
        let cases: &[(&[u8], &str)] = &[
            (b"{oops", "is not JSON"),
            (b"\xff\xfe\x00", "is not JSON"),
            (b"{\"id\": [1]}", "no string or number at /id"),
            (b"{\"other\": 1}", "no string or number at /id"),
            (b"{\"id\":1} trailing", "is not JSON"),
            (deep.as_bytes(), "is not JSON"),
        ];
        for (bad, why) in cases {
            let mut text = b"{\"id\": \"a\"}\n".to_vec();
            text.extend_from_slice(bad);
            text.extend_from_slice(b"\n{\"id\": 7}\n");
            let items = lines(&text, Some("/id"));
            let keys: Vec<&str> = items.iter().map(|item| &*item.key).collect();
            assert_eq!(keys, ["a", "line-2", "7"], "{why}");
            let message = &items[1].refused.as_ref().expect("refused").message;
            assert!(message.contains(why), "{message}");
            assert!(serde_json::from_slice::<serde_json::Value>(&items[1].payload).is_ok());
        }
    }

    #[test]
    fn a_huge_line_is_refused_without_being_kept() {
        let mut text = b"\"".to_vec();
        text.extend(std::iter::repeat_n(b'x', MAX_LINE * 2));
        text.extend_from_slice(b"\"\n{}\n");
        let items = lines(&text, None);
        assert_eq!(items.len(), 2);
        assert!(items[0].refused.as_ref().expect("refused").message.contains("bytes, more than"));
        assert!(items[0].payload.len() < 2 * KEPT_OF_REFUSED);
    }

    #[test]
    fn blank_lines_and_a_byte_order_mark_are_no_items() {
        let items = lines(b"\xef\xbb\xbf{\"a\":1}\r\n\n   \n{\"a\":2}", None);
        assert_eq!(items.len(), 2);
        assert_eq!(&*items[0].payload, b"{\"a\":1}");
        assert_eq!(items[1].origin, 4);
    }

    #[test]
    fn reading_goes_on_where_it_stopped_unless_the_file_is_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("in.jsonl");
        let text: String = (0..2_500).map(|n| format!("{{\"n\":{n}}}\n")).collect();
        std::fs::write(&path, &text).expect("written");
        let mut first = JsonLines::open(&path, None, None).expect("opens");
        let piece = first.next_piece().expect("reads");
        assert_eq!((piece.items.len(), piece.done), (1_000, false));
        let mut again = JsonLines::open(&path, None, Some(&piece.position)).expect("opens");
        assert_eq!(&*again.next_piece().expect("reads").items[0].payload, b"{\"n\":1000}");
        let mut file = File::create(&path).expect("created");
        write!(file, "{}", text.replace("{\"n\":0}", "{\"n\":9}")).expect("written");
        let mut changed = JsonLines::open(&path, None, Some(&piece.position)).expect("opens");
        assert_eq!(&*changed.next_piece().expect("reads").items[0].payload, b"{\"n\":9}");
    }
}
