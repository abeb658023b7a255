//! HTML: what a reader would see, in blocks, with title and headings.
//!
//! Only the tokens are looked at. No tree is built, so that a million open tags are a million tokens and nothing more.

use std::borrow::Cow;
use std::convert::Infallible;

use html5gum::{DefaultEmitter, Token, Tokenizer};

use super::{Limits, ParseError, within};
use crate::decode::decode;
use crate::document::{BlockKind, Builder, Document};

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Document, ParseError> {
    let mut builder = Builder::default();
    let text = match declared(bytes) {
        Some(text) => text,
        None => {
            let decoded = decode(bytes)?;
            if let Some(note) = decoded.encoding.note() {
                builder.note(note);
            }
            decoded.text
        }
    };
    extract(&text, &mut builder, limits)?;
    Ok(builder.finish())
}

/// The text in the encoding that the source declares for itself, if it is not UTF-8 and keeps to what it declares.
fn declared(bytes: &[u8]) -> Option<String> {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(1024)]).to_ascii_lowercase();
    if bytes.contains(&0) || std::str::from_utf8(bytes).is_ok() {
        return None;
    }
    let (_, rest) = start.split_once("charset=")?;
    let label = rest.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|character: char| !character.is_ascii_alphanumeric() && !"-_:".contains(character));
    let encoding = encoding_rs::Encoding::for_label(&label.as_bytes()[..end.unwrap_or(label.len())])?;
    encoding.decode_without_bom_handling_and_without_replacement(bytes).map(Cow::into_owned)
}

/// Appends the text of an HTML source to a document.
pub(super) fn extract(source: &str, builder: &mut Builder, limits: &Limits) -> Result<(), ParseError> {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    let mut page = Page { builder, out: String::new(), place: Place::Body, listing: 0 };
    for token in Tokenizer::new_with_emitter(source, emitter) {
        let token = token.unwrap_or_else(|never: Infallible| match never {});
        match token {
            Token::StartTag(tag) => page.start(&tag),
            Token::EndTag(tag) => page.end(&tag.name),
            Token::String(text) => page.text(&String::from_utf8_lossy(&text.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
        within(page.builder.text().len() + page.out.len(), limits)?;
    }
    page.flush();
    Ok(())
}

/// Where the text that comes next belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Body,
    Title,
    Heading(u8),
    /// Scripts, styles and the like.
    Nowhere,
}

struct Page<'a> {
    builder: &'a mut Builder,
    out: String,
    place: Place,
    /// How many `pre` are open: line breaks count in them.
    listing: usize,
}

impl Page<'_> {
    fn start(&mut self, tag: &html5gum::StartTag<()>) {
        match &**tag.name {
            b"script" | b"style" | b"noframes" | b"iframe" => self.switch(Place::Nowhere),
            b"title" => self.switch(Place::Title),
            [b'h', level @ b'1'..=b'6'] => self.switch(Place::Heading(level - b'0')),
            b"pre" | b"textarea" | b"listing" => {
                self.flush();
                self.listing += 1;
            }
            b"br" => self.out.push('\n'),
            b"li" | b"dt" | b"dd" => {
                self.flush();
                self.out.push_str("- ");
            }
            b"td" | b"th" => self.space(" | "),
            b"tr" | b"option" => self.out.push('\n'),
            b"img" => {
                let alt = tag.attributes.get(&b"alt"[..]);
                if let Some(alt) = alt {
                    self.space(" ");
                    self.text(&String::from_utf8_lossy(&alt.value));
                    self.space(" ");
                }
            }
            name if is_block(name) => self.flush(),
            _ => {}
        }
    }

    fn end(&mut self, name: &[u8]) {
        match name {
            b"script" | b"style" | b"noframes" | b"iframe" | b"title" => self.switch(Place::Body),
            [b'h', b'1'..=b'6'] => self.switch(Place::Body),
            b"pre" | b"textarea" | b"listing" => {
                self.flush();
                self.listing = self.listing.saturating_sub(1);
            }
            name if is_block(name) => self.flush(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.place == Place::Nowhere {
            return;
        }
        if self.listing > 0 {
            self.out.push_str(text);
            return;
        }
        if text.starts_with(char::is_whitespace) {
            self.space(" ");
        }
        for (at, word) in text.split_whitespace().enumerate() {
            if at > 0 {
                self.out.push(' ');
            }
            self.out.push_str(word);
        }
        if text.ends_with(char::is_whitespace) {
            self.space(" ");
        }
    }

    /// Parts words that would otherwise run together.
    fn space(&mut self, mark: &str) {
        if !self.out.is_empty() && !self.out.ends_with(char::is_whitespace) {
            self.out.push_str(mark);
        }
    }

    fn switch(&mut self, place: Place) {
        self.flush();
        self.place = place;
    }

    /// Makes a block of what was collected.
    fn flush(&mut self) {
        let text = std::mem::take(&mut self.out);
        if matches!(text.trim(), "" | "-" | "|") {
            return;
        }
        match self.place {
            Place::Title => {
                self.builder.title(&text);
                self.builder.append(BlockKind::Heading, &text);
            }
            Place::Heading(level) => {
                self.builder.heading(level, &text);
                self.builder.append(BlockKind::Heading, &text);
            }
            Place::Body if self.listing > 0 => self.builder.append(BlockKind::Verbatim, &text),
            Place::Body => self.builder.append(BlockKind::Prose, &text),
            Place::Nowhere => {}
        }
    }
}

fn is_block(name: &[u8]) -> bool {
    const BLOCKS: &str = "\
        address article aside blockquote body caption center details dialog div dl fieldset figcaption \
        figure footer form header hr legend main nav ol p section select summary table tbody tfoot thead \
        ul";
    BLOCKS.split(' ').any(|known| known.as_bytes() == name)
}
