//! How an answer of a chat model ended, and what it says.
//!
//! Only an end that is known to be one makes a text whole. What is read is what is needed: a field that is odd and that
//! nobody needs does no harm, and one that is needed is named.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Ends of a text that the model meant to end there.
const WHOLE: [&str; 6] = ["stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete"];
/// Ends that somebody else put to it, because of what it says.
const FILTERED: [&str; 8] = [
    "content_filter",
    "content_filtered",
    "safety",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "refusal",
];

/// How an answer ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Where it was meant to.
    Whole,
    /// At the most tokens.
    Cut,
    /// It was filtered; in the service's word.
    Filtered(String),
    /// Nobody knows; in the service's word.
    Unknown(String),
}

/// What a model answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) end: End,
    pub(super) text: Option<String>,
    pub(super) refusal: Option<String>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    finish_reason: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    refusal: Option<&'a RawValue>,
}

/// The first of the choices.
///
/// # Errors
/// Says what the answer has instead.
pub(super) fn first(choices: Option<&RawValue>) -> Result<&RawValue, &'static str> {
    let choices = present(choices).ok_or("has no \"choices\"")?;
    let choices: Vec<&RawValue> =
        serde_json::from_str(choices.get()).map_err(|_| "has \"choices\" that are no list")?;
    choices.into_iter().next().ok_or("has no choice")
}

/// Reads a choice.
///
/// # Errors
/// Names the field that cannot be read.
pub(super) fn read(choice: &RawValue) -> Result<Said, String> {
    let choice: Choice<'_> = object(choice, "choices[0]")?;
    let end = end(present(choice.finish_reason))?;
    let Some(message) = present(choice.message) else { return Ok(Said { end, text: None, refusal: None }) };
    let message: Message<'_> = object(message, "message")?;
    let refusal = present(message.refusal).and_then(word).filter(|refusal| !refusal.is_empty());
    let Some(content) = present(message.content) else { return Ok(Said { end, text: None, refusal }) };
    if content.get().starts_with('[') {
        let (text, refused) = parts(content)?;
        return Ok(Said { end, text: Some(text), refusal: refusal.or(refused) });
    }
    Ok(Said { end, text: Some(text(content, "message.content")?), refusal })
}

fn end(reason: Option<&RawValue>) -> Result<End, String> {
    let Some(reason) = reason else { return Ok(End::Whole) };
    let Some(word) = word(reason) else {
        return Err(format!("has a \"finish_reason\" that is no word ({})", reason.get()));
    };
    let lower = word.trim().to_ascii_lowercase();
    Ok(match lower.as_str() {
        "" => End::Whole,
        known if WHOLE.contains(&known) => End::Whole,
        known if FILTERED.contains(&known) => End::Filtered(word),
        known
            if known.contains("length")
                || known.contains("max_tokens")
                || known.contains("max_output_tokens") =>
        {
            End::Cut
        }
        _ => End::Unknown(word),
    })
}

/// The text of content that is a list of parts, and the refusal among them. What a model thinks before it answers is no
/// part of the answer.
fn parts(content: &RawValue) -> Result<(String, Option<String>), String> {
    let list: Vec<&RawValue> = serde_json::from_str(content.get())
        .map_err(|error| format!("has \"message.content\" that cannot be read ({error})"))?;
    let (mut all, mut refusal) = (String::new(), None);
    for (at, raw) in list.into_iter().enumerate() {
        let name = format!("message.content[{at}]");
        if raw.get().starts_with('"') {
            all.push_str(&text(raw, &name)?);
            continue;
        }
        let part: Part<'_> = object(raw, &name)?;
        match present(part.kind).and_then(word).as_deref() {
            None | Some("text" | "output_text") => {
                let raw = present(part.text).ok_or_else(|| format!("has \"{name}\" without a text"))?;
                all.push_str(&text(raw, &format!("{name}.text"))?);
            }
            Some("refusal") => refusal = present(part.refusal).and_then(word).or(refusal),
            Some(_) => {}
        }
    }
    Ok((all, refusal))
}

fn present(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|raw| raw.get() != "null")
}

fn word(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

fn text(raw: &RawValue, name: &str) -> Result<String, String> {
    serde_json::from_str(raw.get()).map_err(|error| format!("has \"{name}\" that is no text ({error})"))
}

fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue, name: &str) -> Result<T, String> {
    let is = raw.get().starts_with('{');
    is.then(|| serde_json::from_str(raw.get()).ok())
        .flatten()
        .ok_or_else(|| format!("has \"{name}\" that is no object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(choice: &str) -> Result<Said, String> {
        read(serde_json::from_str(choice).unwrap())
    }

    #[test]
    fn only_an_end_that_is_known_makes_an_answer_whole() {
        let end = |reason: &str| {
            said(&format!(r#"{{"message":{{"content":"half a sen"}},"finish_reason":{reason}}}"#))
                .unwrap()
                .end
        };
        for whole in ["null", "\"\"", "\"stop\"", "\"STOP\"", "\"eos\"", "\"end_turn\"", "\"stop_sequence\""]
        {
            assert_eq!(end(whole), End::Whole, "{whole}");
        }
        for cut in
            ["\"length\"", "\"model_length\"", "\"MAX_TOKENS\"", "\"max_tokens\"", "\"max_output_tokens\""]
        {
            assert_eq!(end(cut), End::Cut, "{cut}");
        }
        for filtered in ["content_filter", "content_filtered", "SAFETY", "RECITATION"] {
            assert_eq!(end(&format!("\"{filtered}\"")), End::Filtered(filtered.to_owned()));
        }
        for unknown in ["error", "abort", "incomplete", "tool_calls", "canary"] {
            assert_eq!(end(&format!("\"{unknown}\"")), End::Unknown(unknown.to_owned()));
        }
        assert_eq!(said(r#"{"message":{"content":"x"}}"#).unwrap().end, End::Whole, "none is told");
    }

    #[test]
    fn content_in_parts_is_read_as_one_text() {
        let text =
            |content: &str| said(&format!(r#"{{"message":{{"content":{content}}}}}"#)).map(|said| said.text);
        let table = [
            (r#"[{"type":"text","text":"Short"},{"type":"text","text":"."}]"#, "Short."),
            (
                r#"[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"Short."}]"#,
                "Short.",
            ),
            (r#"[{"text":"Short."}]"#, "Short."),
            (r#"["Sho","rt."]"#, "Short."),
            ("[]", ""),
        ];
        for (content, expected) in table {
            assert_eq!(text(content), Ok(Some(expected.to_owned())), "{content}");
        }
        let refused = said(r#"{"message":{"content":[{"type":"refusal","refusal":"I will not"}]}}"#).unwrap();
        assert_eq!(refused.refusal.as_deref(), Some("I will not"));
    }

    #[test]
    fn a_field_that_nobody_needs_may_be_odd_and_one_that_is_needed_is_named() {
        let fine = r#"{"index":"x","message":{"role":7,"content":"fine","refusal":{},"tool_calls":{}},"logprobs":"\ud800","finish_reason":"stop"}"#;
        assert_eq!(said(fine).unwrap().text.as_deref(), Some("fine"));
        let table = [
            (r#"{"message":{"content":"x"},"finish_reason":7}"#, "\"finish_reason\" that is no word (7)"),
            (r#"{"message":7}"#, "\"message\" that is no object"),
            (r#"{"message":{"content":7}}"#, "\"message.content\" that is no text"),
            (
                r#"{"message":{"content":"a\ud800b"}}"#,
                "\"message.content\" that is no text (unexpected end of hex escape",
            ),
            (r#"{"message":{"content":[7]}}"#, "\"message.content[0]\" that is no object"),
            (r#"{"message":{"content":[{"type":"text"}]}}"#, "\"message.content[0]\" without a text"),
            (r#"{"message":{"content":[{"text":7}]}}"#, "\"message.content[0].text\" that is no text"),
            ("7", "\"choices[0]\" that is no object"),
        ];
        for (choice, wrong) in table {
            let told = said(choice).unwrap_err();
            assert!(told.contains(wrong), "{choice}: {told}");
        }
    }
}
