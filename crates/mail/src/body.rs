//! A message taken apart: its text, and what is attached to it.
//!
//! The text is the one that a message has in any index (`ingest`). What is attached is read where `ingest` knows how, each by itself: one that
//! cannot be read is listed with the reason, and takes nothing else with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use mail_parser::{Message, MessageParser, MimeHeaders, PartType};
use redrive_ingest::document::Document;
use redrive_ingest::kind::{Guess, Kind};
use redrive_ingest::parse::{Limits, ParseError, parse};
use serde::{Deserialize, Serialize};

/// Attachments of a message that are listed.
const ATTACHMENTS: usize = 200;
/// Messages within messages that are looked into.
const DEPTH: usize = 4;
const LONGEST_NAME: usize = 160;

/// A message taken apart.
#[derive(Debug, Clone)]
pub struct Opened {
    /// Its own text, with the lines that a mail program shows above it.
    pub document: Document,
    /// What is attached, with its text where that could be read.
    pub attached: Vec<(Attachment, Option<Document>)>,
}

/// Something that is attached to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The name that it came with; may be empty.
    pub name: String,
    /// What it says it is, for example `application/pdf`.
    pub content_type: String,
    /// Its size, decoded.
    pub bytes: u64,
    /// Why its text is not in the index; `None` when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// Takes a message apart.
///
/// # Errors
/// When it is no message, or larger than the limits.
pub fn open(raw: &[u8], limits: &Limits) -> Result<Opened, ParseError> {
    let document = parse(raw, Kind::Email, limits)?;
    if raw.trim_ascii().is_empty() {
        return Err(ParseError::Broken { kind: Kind::Email, reason: "it is empty".into() });
    }
    let attached = catch_unwind(AssertUnwindSafe(|| {
        let mut attached = Vec::new();
        if let Some(message) = MessageParser::default().parse(raw) {
            collect(&message, limits, 0, &mut attached);
        }
        attached
    }));
    // The text is there; that what is attached cannot even be listed costs that only.
    Ok(Opened { document, attached: attached.unwrap_or_default() })
}

fn collect(
    message: &Message<'_>,
    limits: &Limits,
    depth: usize,
    attached: &mut Vec<(Attachment, Option<Document>)>,
) {
    for part in message.attachments() {
        if attached.len() >= ATTACHMENTS {
            return;
        }
        let content_type = part.content_type().map_or_else(String::new, |kind| match kind.subtype() {
            Some(subtype) => format!("{}/{subtype}", kind.ctype()),
            None => kind.ctype().to_owned(),
        });
        let name: String =
            part.attachment_name().unwrap_or_default().chars().filter(|c| !c.is_control()).collect();
        let name = name.chars().take(LONGEST_NAME).collect();
        if let PartType::Message(inner) = &part.body {
            let raw = inner.raw_message();
            let attachment = Attachment { name, content_type, bytes: raw.len() as u64, left_out: None };
            attached.push(read(attachment, Kind::Email, raw, limits));
            if depth + 1 < DEPTH {
                collect(inner, limits, depth + 1, attached);
            }
            continue;
        }
        let bytes = part.contents();
        let kind = kind_of(&name, &content_type);
        let attachment = Attachment { name, content_type, bytes: bytes.len() as u64, left_out: None };
        attached.push(match kind {
            Some(kind) => read(attachment, kind, bytes, limits),
            None => (Attachment { left_out: Some("not a text".into()), ..attachment }, None),
        });
    }
}

/// What an attachment is read as: by its name, then by its type.
fn kind_of(name: &str, content_type: &str) -> Option<Kind> {
    match Kind::guess(Path::new(name)) {
        Guess::Is(kind) => return Some(kind),
        Guess::Binary => return None,
        Guess::Unknown => {}
    }
    match content_type.to_ascii_lowercase().as_str() {
        "application/pdf" => Some(Kind::Pdf),
        "text/html" => Some(Kind::Html),
        "text/markdown" => Some(Kind::Markdown),
        "message/rfc822" => Some(Kind::Email),
        other => other.starts_with("text/").then_some(Kind::Text),
    }
}

fn read(attachment: Attachment, kind: Kind, bytes: &[u8], limits: &Limits) -> (Attachment, Option<Document>) {
    match parse(bytes, kind, limits) {
        Ok(document) if document.blocks.is_empty() => {
            (Attachment { left_out: Some("no text in it".into()), ..attachment }, None)
        }
        Ok(document) => (attachment, Some(document)),
        Err(error) => (Attachment { left_out: Some(error.to_string()), ..attachment }, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NESTED: &str = "From: a@x\nSubject: s\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n\n\
        --b\nContent-Type: text/plain\n\nThe text.\n\
        --b\nContent-Type: text/csv; name=\"t.csv\"\nContent-Disposition: attachment; filename=\"t.csv\"\n\na,b\n1,2\n\
        --b\nContent-Type: application/zip\nContent-Disposition: attachment; filename=\"x.zip\"\nContent-Transfer-Encoding: base64\n\nUEsDBA==\n\
        --b\nContent-Type: message/rfc822\n\nFrom: b@x\nSubject: inner\n\nInner text.\n--b--\n";

    #[test]
    fn attachments_are_listed_and_read_where_that_is_possible() {
        let opened = open(NESTED.as_bytes(), &Limits::default()).unwrap();
        assert!(opened.document.text.contains("The text."));
        let told: Vec<_> = opened
            .attached
            .iter()
            .map(|(one, document)| (one.name.as_str(), one.left_out.as_deref(), document.is_some()))
            .collect();
        assert_eq!(told, [("t.csv", None, true), ("x.zip", Some("not a text"), false), ("", None, true)]);
        assert!(opened.attached[2].1.as_ref().is_some_and(|document| document.text.contains("Inner text.")));
    }

    #[test]
    fn what_is_no_message_says_so() {
        for poison in [&b""[..], b"\n\n", b"no header at all\nnothing\n"] {
            assert!(matches!(open(poison, &Limits::default()), Err(ParseError::Broken { .. })), "{poison:?}");
        }
    }
}
