//! What a call consumes: as a service tells it, and as it is guessed before the call.

use redrive_core::usage::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

/// More tokens than this in one call are no tokens but a mistake.
const MOST: f64 = 1e12;

/// Reads what a service says that a call consumed; the names are those of OpenAI, Anthropic and this project.
///
/// A price in dollars may stand beside it, as `usd`. What is no count is left out. Of a total alone nothing is known but that it was consumed, so it counts as sent.
pub(crate) fn read(said: &RawValue) -> Option<Usage> {
    let said: Value = serde_json::from_str(said.get()).ok()?;
    let count = |names: &[&str]| names.iter().find_map(|name| tokens(said.get(name)?));
    let sent = count(&["prompt_tokens", "input_tokens", "tokens_in"]);
    let received = count(&["completion_tokens", "output_tokens", "tokens_out"]);
    let total = count(&["total_tokens"]);
    let rest = |part: Option<u64>| total.map(|total| total.saturating_sub(part.unwrap_or(0)));
    let (tokens_in, tokens_out) = match (sent, received) {
        (Some(sent), Some(received)) => (sent, received),
        (Some(sent), None) => (sent, rest(sent.into()).unwrap_or(0)),
        (None, Some(received)) => (rest(received.into()).unwrap_or(0), received),
        (None, None) => (total?, 0),
    };
    let nano_usd = said.get("usd").and_then(Value::as_f64).and_then(|usd| tokens(&(usd * 1e9).into()));
    Some(Usage { tokens_in, tokens_out, nano_usd })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a number between zero and the most there can be fits"
)]
fn tokens(value: &Value) -> Option<u64> {
    value.as_f64().filter(|count| (0.0..=MOST).contains(count)).map(|count| count as u64)
}

/// About how many tokens content of unknown form has: a quarter of its bytes.
pub(crate) fn of_bytes(content: &[u8]) -> u64 {
    (content.len() as u64).div_ceil(4).max(1)
}

/// About how many tokens a text has: a quarter of its bytes or four thirds of its words, whichever is more.
///
/// Prose comes out about right, code and scripts of many bytes a letter somewhat low or high; it is meant for sizing
/// calls, not for billing.
pub(crate) fn of_text(text: &str) -> u64 {
    let words = text.split_whitespace().count() as u64;
    of_bytes(text.as_bytes()).max((words * 4).div_ceil(3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_is_read_and_nonsense_is_not() {
        let table = [
            (r#"{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}"#, Some((7, 3))),
            (r#"{"prompt_tokens":7,"total_tokens":7}"#, Some((7, 0))),
            (r#"{"input_tokens":7,"output_tokens":3}"#, Some((7, 3))),
            (r#"{"tokens_in":7,"tokens_out":3}"#, Some((7, 3))),
            (r#"{"prompt_tokens":7,"total_tokens":12}"#, Some((7, 5))),
            (r#"{"output_tokens":3,"total_tokens":12}"#, Some((9, 3))),
            (r#"{"prompt_tokens":7,"total_tokens":3}"#, Some((7, 0))),
            (r#"{"total_tokens":12}"#, Some((12, 0))),
            (r#"{"total_tokens":0}"#, Some((0, 0))),
            (r#"{"prompt_tokens":null,"input_tokens":5}"#, Some((5, 0))),
            (r#"{"prompt_tokens":-1}"#, None),
            (r#"{"prompt_tokens":1e300}"#, None),
            (r#"{"prompt_tokens":"7"}"#, None),
            ("{}", None),
            ("null", None),
            ("[7]", None),
        ];
        for (said, expected) in table {
            let usage = read(serde_json::from_str(said).unwrap());
            assert_eq!(usage.map(|usage| (usage.tokens_in, usage.tokens_out)), expected, "{said}");
            assert!(usage.is_none_or(|usage| usage.nano_usd.is_none()));
        }
    }

    #[test]
    fn estimates_follow_bytes_and_words() {
        let table = [("", 1), ("a", 2), ("four", 2), ("a b c", 4), ("incomprehensibilities", 6)];
        for (text, tokens) in table {
            assert_eq!(of_text(text), tokens, "{text}");
        }
        assert_eq!((of_bytes(b""), of_bytes(&[0; 9])), (1, 3));
    }
}
