//! Answers: clean, short, and with a place to go on.

use redrive_operate::{Error, Result};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Serialize;

/// About how many bytes the rows of an answer may have.
const ROWS: usize = 7_000;
/// Most bytes of any text but a passage.
const TEXT: usize = 600;
/// Most bytes of a text of which an answer has many.
const BRIEF: usize = 240;

/// What every tool answers with: one JSON document as text.
pub(crate) fn answer<T: Serialize>(said: Result<T>) -> CallToolResult {
    match said.and_then(|said| written(&said)) {
        Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Err(error) => refusal(&error),
    }
}

fn written<T: Serialize>(said: &T) -> Result<String> {
    serde_json::to_string(said).map_err(|error| Error::internal(error.to_string()))
}

/// An error, for programs and with what can be done about it. Its message may repeat names that others gave.
#[derive(Serialize)]
struct Refusal<'a> {
    error: Why<'a>,
}

#[derive(Serialize)]
struct Why<'a> {
    code: redrive_operate::Code,
    kind: redrive_operate::Kind,
    hint: Option<String>,
    untrusted_text: Message<'a>,
}

#[derive(Serialize)]
struct Message<'a> {
    message: &'a str,
}

pub(crate) fn refusal(error: &Error) -> CallToolResult {
    let message = short(&error.message);
    let hint = error.hint.as_deref().map(short);
    let why = Why { code: error.code, kind: error.kind, hint, untrusted_text: Message { message: &message } };
    let text = serde_json::to_string(&Refusal { error: why }).unwrap_or(message.clone());
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// Rows that fit an answer.
pub(crate) struct Fitted<T> {
    pub(crate) rows: Vec<T>,
    /// Whether some did not.
    pub(crate) cut: bool,
}

/// Takes rows as long as they fit; the first always does.
pub(crate) fn fit<T: Serialize>(all: impl IntoIterator<Item = T>) -> Fitted<T> {
    let (mut rows, mut bytes) = (Vec::new(), 0);
    for row in all {
        bytes += serde_json::to_string(&row).map_or(ROWS, |text| text.len());
        if bytes > ROWS && !rows.is_empty() {
            return Fitted { rows, cut: true };
        }
        rows.push(row);
    }
    Fitted { rows, cut: false }
}

/// A text of somebody else, cleaned and cut.
pub(crate) fn short(text: &str) -> String {
    cut(text, TEXT)
}

/// The same, where there are many of its kind.
pub(crate) fn brief(text: &str) -> String {
    cut(text, BRIEF)
}

/// A text of somebody else, cleaned and cut at so many bytes.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut text = clean(text);
    if text.len() > most {
        let at = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(at);
        text.push('…');
    }
    text
}

/// A text of somebody else without what a terminal or a reader could be misled by: escape sequences, control characters other
/// than line breaks and tabs, and invisible characters that turn or hide text.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' && rest.peek() == Some(&'[') {
            rest.next();
            // The sequence ends with the first of these.
            while rest.next_if(|c| !('@'..='~').contains(c)).is_some() {}
            rest.next();
        } else if !is_hidden(c) {
            out.push(c);
        }
    }
    out
}

fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_a_reader_is_taken_out() {
        assert_eq!(clean("\u{1b}[31;1mred\u{1b}[0m\tand\nplain\r\u{7}\0"), "red\tand\nplain");
        assert_eq!(clean("a\u{202e}b\u{2066}c\u{e0041}d\u{feff}"), "abcd");
        assert_eq!(clean("\u{1b}[31"), "", "a sequence that does not end");
        assert_eq!(clean("naïve 日本 👩‍👩‍👧"), "naïve 日本 👩‍👩‍👧");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let long = "é".repeat(TEXT);
        assert!(short(&long).len() <= TEXT + '…'.len_utf8() && short(&long).ends_with("é…"));
        assert_eq!(short("as it is"), "as it is");
    }

    #[test]
    fn rows_are_taken_as_long_as_they_fit_and_the_first_always_is() {
        let fitted = fit(vec!["x".repeat(ROWS / 2 - 10); 5]);
        assert_eq!((fitted.rows.len(), fitted.cut), (2, true));
        let fitted = fit(vec!["x".repeat(ROWS * 2)]);
        assert_eq!((fitted.rows.len(), fitted.cut), (1, false));
    }
}
