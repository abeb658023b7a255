//! What comes from an agent, line by line, before the protocol looks at it.
//!
//! The SDK leaves a line without an answer that it cannot read, and whoever sent it waits. So every line is looked at
//! first: one that can be read goes on, and one that cannot is refused, with its id where that can be told.

use rmcp::model::{ErrorData, RequestId};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt};

/// Longest line; a longer one is no request to this server.
const LONGEST: usize = 16 << 20;

/// Why a line is not passed on.
#[derive(Debug, PartialEq)]
pub(crate) struct Refusal {
    /// Whose answer it is, as far as that is known.
    pub(crate) id: Option<RequestId>,
    /// What is said.
    pub(crate) error: ErrorData,
}

/// The part of a message that says whether and to whom it is answered; whatever else is in it is not taken apart.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// What is to be done with a line.
#[derive(Debug, PartialEq)]
pub(crate) enum Look {
    /// The protocol takes it, or says itself what is wrong with it.
    Pass,
    /// It is answered with this.
    Refuse(Refusal),
    /// Nobody waits for an answer to it.
    Drop,
}

/// Looks at a line.
pub(crate) fn look(line: &[u8]) -> Look {
    if line.trim_ascii().is_empty() {
        return Look::Drop;
    }
    let Err(error) = serde_json::from_slice::<serde_json::Value>(line) else { return Look::Pass };
    // Skipping a value knows no depth: this tells what is nested too deep from what is no JSON.
    let Ok(head) = serde_json::from_slice::<Head<'_>>(line) else {
        let why = format!("Parse error: {error}");
        return Look::Refuse(Refusal { id: None, error: ErrorData::parse_error(why, None) });
    };
    match head.id.map(|id| serde_json::from_str::<RequestId>(id.get()).ok()) {
        None => Look::Drop,
        Some(id) => {
            let why = format!("Invalid request: {error}");
            Look::Refuse(Refusal { id, error: ErrorData::invalid_request(why, None) })
        }
    }
}

/// The answer to a line that is longer than any may be.
pub(crate) fn too_long() -> Refusal {
    let why = format!("Invalid request: longer than {LONGEST} bytes");
    Refusal { id: None, error: ErrorData::invalid_request(why, None) }
}

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// It is in the buffer, with its end.
    Line,
    /// It was skipped.
    TooLong,
    /// There is none; a last one without its end was cut off and is nobody's.
    End,
}

/// Reads a line of bounded length.
pub(crate) async fn read(
    from: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> std::io::Result<Read> {
    line.clear();
    let mut is_long = false;
    loop {
        let chunk = from.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(Read::End);
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(chunk.len(), |at| at + 1);
        is_long |= line.len() + taken > LONGEST;
        if is_long {
            *line = Vec::new();
        } else {
            line.extend_from_slice(&chunk[..taken]);
        }
        from.consume(taken);
        if end.is_some() {
            return Ok(if is_long { Read::TooLong } else { Read::Line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> Option<(Option<RequestId>, i32)> {
        match look(line.as_bytes()) {
            Look::Refuse(refusal) => Some((refusal.id, refusal.error.code.0)),
            Look::Pass | Look::Drop => None,
        }
    }

    fn nested(depth: usize, id: &str) -> String {
        let arguments = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"jsonrpc":"2.0",{id}"method":"tools/call","params":{arguments}}}"#)
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_what_can_be_goes_on() {
        for line in ["{\"jsonrpc\":", "nonsense", "{\"id\":1", "[1,", "\u{0}"] {
            assert_eq!(refused(line), Some((None, -32700)), "{line}");
        }
        for line in
            ["{}", "[]", "1", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", &nested(100, "\"id\":1,")]
        {
            assert_eq!(look(line.as_bytes()), Look::Pass, "{line}");
        }
        assert_eq!(look(b" \r\n"), Look::Drop);
    }

    #[test]
    fn what_is_nested_too_deep_is_refused_under_its_id() {
        for depth in [200, 1_000_000] {
            assert_eq!(refused(&nested(depth, "\"id\":7,")), Some((Some(RequestId::Number(7)), -32600)));
            assert_eq!(
                refused(&nested(depth, "\"id\":\"a\",")),
                Some((Some(RequestId::String("a".into())), -32600))
            );
            assert_eq!(refused(&nested(depth, "\"id\":{},")), Some((None, -32600)));
            assert_eq!(look(nested(depth, "").as_bytes()), Look::Drop, "nobody waits for an answer");
        }
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_and_the_next_is_read() {
        let text = format!("a\n{}\nb\nrest", "x".repeat(LONGEST));
        let (mut from, mut line, mut seen) = (text.as_bytes(), Vec::new(), Vec::new());
        loop {
            let read = read(&mut from, &mut line).await.unwrap();
            if read == Read::End {
                break;
            }
            seen.push((read, line.clone()));
        }
        let expected =
            [(Read::Line, b"a\n".to_vec()), (Read::TooLong, Vec::new()), (Read::Line, b"b\n".to_vec())];
        assert_eq!(seen, expected);
    }
}
