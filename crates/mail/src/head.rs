//! What identifies a message and says what it answers: the part of its head that outlives it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use mail_parser::{Address, MessageParser};
use redrive_core::id::ContentHash;
use serde::{Deserialize, Serialize};

/// Messages that one message says it answers; of more, the last ones count.
const REFERENCES: usize = 200;
/// Longest name of a message; a longer one is known by its hash.
const LONGEST_ID: usize = 300;
/// Characters of a subject or a name that are kept.
const LONGEST_TEXT: usize = 300;
/// Dates outside of the years 1970 to 2199 are mistakes.
const LATEST_MS: i64 = 7_258_118_400_000;

/// The head of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Head {
    /// Its `Message-ID`, without brackets; `None` when it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The messages before it: what `References` and `In-Reply-To` name, the one that it answers last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    /// Its subject, in one line; may be empty.
    pub subject: String,
    /// The sender's name, or the address where there is none.
    pub from: String,
    /// The sender's address, in lower case; may be empty.
    pub address: String,
    /// When it says it was sent, in UTC milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date_ms: Option<i64>,
    /// The mailing list that it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
}

impl Head {
    /// Reads a head. Whatever is in it, there is one: what cannot be read is left empty.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let fields = fields(bytes);
        let value =
            |name: &str| fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let mut head = catch_unwind(AssertUnwindSafe(|| decoded(bytes))).unwrap_or_default();
        head.id = value("message-id").and_then(|value| ids(value).into_iter().next());
        let mut references = value("references").map(ids).unwrap_or_default();
        // Some programs quote the whole answer here; the first name is the message.
        if let Some(answered) = value("in-reply-to").and_then(|value| ids(value).into_iter().next())
            && !references.contains(&answered)
        {
            references.push(answered);
        }
        references.dedup();
        references.drain(..references.len().saturating_sub(REFERENCES));
        head.references = references;
        head.list = ["list-id", "x-mailing-list", "mailing-list", "list-post"]
            .into_iter()
            .find_map(|name| value(name).and_then(list_name));
        head
    }

    /// The name that a message is kept by: its own, or one made of its content.
    #[must_use]
    pub fn key(&self, version: ContentHash) -> String {
        self.id.clone().unwrap_or_else(|| format!("content:{version}"))
    }
}

/// What the parser makes of the head: encodings, addresses and dates.
fn decoded(bytes: &[u8]) -> Head {
    let Some(message) = MessageParser::default().parse_headers(bytes) else { return Head::default() };
    let sender = message.from().and_then(Address::first);
    let address = sender.and_then(|sender| sender.address()).map(one_line).unwrap_or_default().to_lowercase();
    let from = sender.and_then(|sender| sender.name()).map(one_line).filter(|name| !name.is_empty());
    let date_ms =
        message.date().filter(|date| date.is_valid()).map(|date| date.to_timestamp().saturating_mul(1_000));
    Head {
        subject: message.subject().map(one_line).unwrap_or_default(),
        from: from.unwrap_or_else(|| address.clone()),
        address,
        date_ms: date_ms.filter(|ms| (0..LATEST_MS).contains(ms)),
        ..Head::default()
    }
}

/// The lines of a head by name, in lower case, folded ones joined.
fn fields(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push_str(line);
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.to_owned()));
        } else {
            // A broken line has no value to go on with.
            fields.push((String::new(), String::new()));
        }
    }
    fields
}

/// The names of messages in a value: what stands in angle brackets; without any, words with an `@`.
fn ids(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = value;
    while let Some(start) = rest.find('<') {
        let inner = &rest[start + 1..];
        let Some(end) = inner.find(['>', '<']) else { break };
        if inner[end..].starts_with('>') {
            found.extend(id(&inner[..end]));
        }
        rest = &inner[end..];
    }
    if found.is_empty() {
        found.extend(
            value
                .split_whitespace()
                .filter(|word| word.contains('@') && !word.contains(['<', '>']))
                .filter_map(id),
        );
    }
    found
}

fn id(text: &str) -> Option<String> {
    let text: String = text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    match text.len() {
        0 => None,
        1..=LONGEST_ID => Some(text),
        _ => Some(format!("long:{}", ContentHash::of(&[text.as_bytes()]))),
    }
}

/// The name of a list: what stands in brackets, or the address, without `mailto:`.
fn list_name(value: &str) -> Option<String> {
    let inner =
        value.rsplit_once('<').and_then(|(_, rest)| rest.split_once('>')).map_or(value, |(inner, _)| inner);
    let bare = inner.trim().trim_start_matches("mailto:").trim_start_matches("list ");
    let name = one_line(bare.split(';').next().unwrap_or_default()).to_lowercase();
    (!name.is_empty()).then_some(name)
}

/// A text in one line of bounded length, without characters that steer a terminal.
fn one_line(text: &str) -> String {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Head {
        Head::read(text.as_bytes())
    }

    #[test]
    fn a_head_is_read_with_encodings_folds_and_lists() {
        let head = head(
            "Message-ID: <a@x>\nReferences: <r1@x>\n\t<r2@x>\nIn-Reply-To: <r2@x>\nFrom: =?utf-8?q?J=C3=B6rg?= <J@X.org>\n\
             Subject: =?iso-8859-1?q?caf=E9?=\n  again\nDate: Tue, 17 Nov 2026 20:00:00 +0100\nList-Id: Dev <dev.x.org>\n",
        );
        assert_eq!(head.id.as_deref(), Some("a@x"));
        assert_eq!(head.references, ["r1@x", "r2@x"]);
        assert_eq!((head.from.as_str(), head.address.as_str()), ("Jörg", "j@x.org"));
        assert_eq!(head.subject, "café again");
        assert_eq!(head.date_ms, Some(1_794_942_000_000));
        assert_eq!(head.list.as_deref(), Some("dev.x.org"));
    }

    #[test]
    fn broken_heads_give_what_can_be_read() {
        assert_eq!(head("Message-ID: a@x\nno colon here\n folded into nothing\n").id.as_deref(), Some("a@x"));
        assert_eq!(head("message-id: <a b\tc@x>").id.as_deref(), Some("abc@x"));
        assert_eq!(head("Message-ID: <>\n").id, None);
        assert_eq!(
            head("References: <a@x <b@x> c>\nIn-Reply-To: Your message of <never> <b@x>").references,
            ["b@x", "never"]
        );
        let long = format!("Message-ID: <{}@x>", "a".repeat(5_000));
        assert!(head(&long).id.is_some_and(|id| id.len() < 50 && id.starts_with("long:")));
        assert_eq!(head("Date: Thu, 32 Foo 9999 99:99:99 +9999").date_ms, None);
    }

    #[test]
    fn a_message_without_a_name_is_known_by_its_content() {
        let version = ContentHash([7; 16]);
        assert_eq!(Head::default().key(version), "content:07070707070707070707070707070707");
    }
}
