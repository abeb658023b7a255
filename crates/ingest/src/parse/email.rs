//! Messages: sender, subject and date, the text of the body, and the names of what is attached.

use mail_parser::{Address, Message, MessageParser, MimeHeaders, PartType};

use super::{Limits, ParseError, html, within};
use crate::document::{BlockKind, Builder, Document};
use crate::kind::Kind;
use crate::outline;

pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Document, ParseError> {
    let mut builder = Builder::default();
    if !bytes.trim_ascii().is_empty() {
        message(bytes, Kind::Email, &mut builder, limits)?;
    }
    Ok(builder.finish())
}

/// Messages one after the other, each begun by a line `From `.
pub(super) fn parse_mbox(bytes: &[u8], limits: &Limits) -> Result<Document, ParseError> {
    let mut builder = Builder::default();
    let mut starts = Vec::new();
    let mut at = 0;
    let mut after_blank = true;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if after_blank && line.starts_with(b"From ") {
            starts.push((at, at + line.len()));
        }
        after_blank = line.trim_ascii().is_empty();
        at += line.len();
    }
    if starts.is_empty() && !bytes.trim_ascii().is_empty() {
        message(bytes, Kind::Mbox, &mut builder, limits)?;
    }
    for (index, (_, start)) in starts.iter().enumerate() {
        let end = starts.get(index + 1).map_or(bytes.len(), |(next, _)| *next);
        if let Err(error) = message(&bytes[*start..end], Kind::Mbox, &mut builder, limits) {
            match error {
                ParseError::Broken { reason, .. } => builder.note(format!("message {}: {reason}", index + 1)),
                other => return Err(other),
            }
        }
    }
    Ok(builder.finish())
}

fn message(bytes: &[u8], kind: Kind, builder: &mut Builder, limits: &Limits) -> Result<(), ParseError> {
    let message = MessageParser::default()
        .parse(bytes)
        .filter(|message| message.headers().iter().any(|header| !header.value().is_empty()))
        .ok_or_else(|| ParseError::Broken { kind, reason: "it has no headers".into() })?;
    let subject = message.subject().unwrap_or("(no subject)");
    builder.heading(1, subject);
    builder.title(subject);
    builder.append(BlockKind::Heading, &head(&message, subject));
    let bodies = message.text_body.iter().filter_map(|part| message.part(*part));
    for part in bodies {
        match &part.body {
            PartType::Text(text) => {
                within(builder.text().len() + text.len(), limits)?;
                for paragraph in outline::paragraphs(text, 0..text.len()) {
                    builder.append(BlockKind::Prose, &text[paragraph]);
                }
            }
            PartType::Html(source) => html::extract(source, builder, limits)?,
            PartType::Binary(_)
            | PartType::InlineBinary(_)
            | PartType::Message(_)
            | PartType::Multipart(_) => {}
        }
    }
    let attached: Vec<&str> =
        message.attachments().filter_map(MimeHeaders::attachment_name).take(100).collect();
    if !attached.is_empty() {
        builder.append(BlockKind::Prose, &format!("Attached: {}", attached.join(", ")));
    }
    within(builder.text().len(), limits)
}

/// The lines that a mail program shows above a message.
fn head(message: &Message<'_>, subject: &str) -> String {
    let mut lines = vec![format!("Subject: {subject}")];
    for (name, address) in [("From", message.from()), ("To", message.to()), ("Cc", message.cc())] {
        let shown = address.map(people).unwrap_or_default();
        if !shown.is_empty() {
            lines.push(format!("{name}: {shown}"));
        }
    }
    if let Some(date) = message.date() {
        lines.push(format!("Date: {}", date.to_rfc3339()));
    }
    lines.join("\n")
}

fn people(address: &Address<'_>) -> String {
    let shown: Vec<String> = address
        .iter()
        .take(20)
        .filter_map(|person| match (person.name(), person.address()) {
            (Some(name), Some(address)) => Some(format!("{name} <{address}>")),
            (name, address) => name.or(address).map(str::to_owned),
        })
        .collect();
    shown.join(", ")
}
