//! PDF: the text of each page.
//!
//! `pdf-extract` panics on much that is only slightly wrong. A page that does so is left out with a note, as long as
//! there are others. How much memory a stream takes when it is unpacked is not known before: only the limits of the
//! child process hold against that.

use std::cell::RefCell;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use pdf_extract::{OutputDev, OutputError, PlainTextOutput};

use super::{Limits, ParseError};
use crate::document::{BlockKind, Builder, Document};
use crate::kind::Kind;
use crate::outline;

/// How many pages without text are named one by one.
const MAX_NOTES: usize = 10;

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Document, ParseError> {
    let mut builder = Builder::default();
    if bytes.trim_ascii().is_empty() {
        return Ok(builder.finish());
    }
    let source = load(bytes)?;
    let pages = source.get_pages();
    if pages.len() as u64 > u64::from(limits.max_pages) {
        return Err(ParseError::TooManyPages { pages: pages.len() as u64, limit: limits.max_pages });
    }
    if pages.is_empty() {
        return Err(broken("it has no pages"));
    }
    let mut room = usize::try_from(limits.max_text).unwrap_or(usize::MAX);
    let (mut failed, mut blank) = (Vec::new(), 0_usize);
    for number in pages.keys() {
        let page = Page::new(room);
        // What the page had written when its parser gave up is kept: it is text of that page all the same.
        let done = catch_unwind(AssertUnwindSafe(|| page.fill(&source, *number)));
        let (text, full) = page.take();
        if full {
            return Err(ParseError::TooLarge { limit: limits.max_text, what: "text".into() });
        }
        if !matches!(done, Ok(Ok(()))) {
            failed.push(*number);
        } else if text.trim().is_empty() {
            blank += 1;
        }
        room = room.saturating_sub(text.len());
        builder.page(*number);
        for paragraph in outline::paragraphs(&text, 0..text.len()) {
            builder.append(BlockKind::Prose, &text[paragraph]);
        }
    }
    if failed.len() == pages.len() && builder.text().is_empty() {
        return Err(broken("none of its pages can be read"));
    }
    for number in failed.iter().take(MAX_NOTES) {
        builder.note(format!("page {number} could not be read to its end"));
    }
    if failed.len() > MAX_NOTES {
        builder.note(format!("{} more pages could not be read to their end", failed.len() - MAX_NOTES));
    }
    if blank == pages.len() {
        builder.note("no page has text: it may be a scan");
    }
    Ok(builder.finish())
}

/// Reads the structure of the file, and opens it if it is locked without a password.
fn load(bytes: &[u8]) -> Result<pdf_extract::Document, ParseError> {
    use pdf_extract::Error as Pdf;
    let explain = |error: Pdf| match error {
        Pdf::Decryption(_) | Pdf::InvalidPassword | Pdf::UnsupportedSecurityHandler(_) => {
            ParseError::Encrypted
        }
        other => broken(&other.to_string().chars().take(200).collect::<String>()),
    };
    let mut source = pdf_extract::Document::load_mem(bytes).map_err(explain)?;
    if source.is_encrypted() {
        source.decrypt("").map_err(|_| ParseError::Encrypted)?;
    }
    Ok(source)
}

fn broken(reason: &str) -> ParseError {
    ParseError::Broken { kind: Kind::Pdf, reason: reason.into() }
}

/// The text of one page while it is written.
#[derive(Clone)]
struct Page(Rc<RefCell<Sink>>);

struct Sink {
    bytes: Vec<u8>,
    room: usize,
    full: bool,
}

impl Page {
    fn new(room: usize) -> Self {
        Self(Rc::new(RefCell::new(Sink { bytes: Vec::new(), room, full: false })))
    }

    fn fill(&self, source: &pdf_extract::Document, number: u32) -> Result<(), OutputError> {
        let mut sink = self.clone();
        let writer: &mut dyn Write = &mut sink;
        let mut output = PlainTextOutput::new(writer);
        let output: &mut dyn OutputDev = &mut output;
        pdf_extract::output_doc_page(source, output, number)
    }

    /// The text, and whether there was more than there is room for.
    fn take(self) -> (String, bool) {
        let mut sink = self.0.borrow_mut();
        let bytes = std::mem::take(&mut sink.bytes);
        let text: String =
            String::from_utf8_lossy(&bytes).chars().filter(|character| *character != '\0').collect();
        (text, sink.full)
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut sink = self.0.borrow_mut();
        if sink.bytes.len() + bytes.len() > sink.room {
            sink.full = true;
            return Err(io::ErrorKind::StorageFull.into());
        }
        sink.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
