//! Bytes from several files, one after the other, line by line.

use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Cursor, Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::record::MAX_LINE;

const BUFFER: usize = 1 << 16;

/// How a file looks from outside. A write changes it, whatever the writer does to the file's own times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Look {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Look {
    pub(super) fn at(path: &Path) -> Result<Self> {
        Ok(Self::of(&std::fs::metadata(path)?))
    }

    fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

/// One line.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Its bytes without the end, at most [`MAX_LINE`] of them.
    pub(super) bytes: Vec<u8>,
    /// How many bytes it has in all, with the end.
    pub(super) length: u64,
    /// Whether it has an end.
    pub(super) ended: bool,
    /// Whether a quote in it is left open.
    pub(super) open: bool,
}

/// An open file, or a stream.
pub(super) struct Feed {
    reader: BufReader<Box<dyn Read + Send>>,
}

impl Feed {
    /// Opens a file; one that is compressed is decompressed.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_dir() {
            return Err(Error::new(
                ErrorKind::IsADirectory,
                "it is a directory; name its files, for example DIR/*.jsonl",
            ));
        }
        let mut head = Vec::with_capacity(4);
        file.by_ref().take(4).read_to_end(&mut head)?;
        refuse_other_forms(&head)?;
        let gzip = head.starts_with(b"\x1f\x8b");
        let whole = Cursor::new(head).chain(file);
        let reader: Box<dyn Read + Send> =
            if gzip { Box::new(flate2::read::MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self::new(reader))
    }

    pub(super) fn new(reader: Box<dyn Read + Send>) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader) }
    }

    /// Whether the next line has to be waited for.
    pub(super) fn is_drained(&self) -> bool {
        self.reader.buffer().is_empty()
    }

    /// Reads a line, and shows all of its bytes to `saw`; a length of 0 is the end.
    pub(super) fn line(&mut self, line: &mut Line, mut saw: impl FnMut(&[u8])) -> Result<()> {
        line.bytes.clear();
        (line.length, line.ended) = (0, false);
        while !line.ended {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(());
            }
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let part = &buffer[..end.unwrap_or(buffer.len())];
            line.bytes.extend_from_slice(&part[..part.len().min(MAX_LINE.saturating_sub(line.bytes.len()))]);
            let used = end.map_or(buffer.len(), |end| end + 1);
            saw(&buffer[..used]);
            self.reader.consume(used);
            line.length += used as u64;
            line.ended = end.is_some();
        }
        Ok(())
    }

    /// Passes over `count` bytes and shows them to `saw`; `false` when there are not so many.
    pub(super) fn pass(&mut self, mut count: u64, mut saw: impl FnMut(&[u8])) -> Result<bool> {
        while count > 0 {
            let buffer = match self.reader.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if buffer.is_empty() {
                return Ok(false);
            }
            let used = buffer.len().min(usize::try_from(count).unwrap_or(usize::MAX));
            saw(&buffer[..used]);
            self.reader.consume(used);
            count -= used as u64;
        }
        Ok(true)
    }

    /// Whether nothing comes any more.
    pub(super) fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.reader.fill_buf()?.is_empty())
    }
}

/// Files that are certainly not lines of text are refused whole, before every line of them is.
fn refuse_other_forms(head: &[u8]) -> Result<()> {
    let other = match head {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "it is UTF-16; write it as UTF-8 (iconv -f UTF-16 -t UTF-8)",
        [0x28, 0xb5, 0x2f, 0xfd] => "it is compressed with zstd; decompress it, or compress it with gzip",
        [b'P', b'K', 3, 4] => "it is a ZIP archive; unpack it",
        [b'P', b'A', b'R', b'1'] => "it is Parquet; write it as JSON Lines or CSV",
        _ => return Ok(()),
    };
    Err(Error::new(ErrorKind::InvalidData, other))
}

/// Whether a path names files by a pattern.
#[must_use]
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '[']) && !Path::new(path).exists()
}

/// The files that paths and patterns name, each once: in the order of the paths, those of a pattern sorted.
///
/// # Errors
/// When a path is not there, a pattern is none, or matches nothing.
pub fn expand(paths: &[String]) -> std::result::Result<Vec<PathBuf>, super::SourceError> {
    let mut files: Vec<PathBuf> = Vec::new();
    for path in paths {
        let fail = |cause| super::SourceError { what: path.clone(), cause };
        let mut found = Vec::new();
        if is_pattern(path) {
            let invalid =
                |error: glob::PatternError| fail(Error::new(ErrorKind::InvalidInput, error.to_string()));
            for entry in glob::glob(path).map_err(invalid)? {
                let file = entry.map_err(|error| fail(error.into()))?;
                if !file.is_dir() {
                    found.push(file);
                }
            }
            found.sort();
            if found.is_empty() {
                return Err(fail(Error::new(ErrorKind::NotFound, "no file matches")));
            }
        } else {
            found.push(PathBuf::from(path));
        }
        for file in found {
            // A pipe by the name of a descriptor leads to no file.
            let file = if is_stream(&file) { file } else { std::fs::canonicalize(&file).map_err(fail)? };
            if !files.contains(&file) {
                files.push(file);
            }
        }
    }
    Ok(files)
}

/// Whether a path is something that can be read once only: a pipe, a terminal, a socket.
#[must_use]
pub fn is_stream(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|file| {
        let kind = file.file_type();
        kind.is_fifo() || kind.is_char_device() || kind.is_socket()
    })
}
