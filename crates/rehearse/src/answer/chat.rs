//! Chat completions: the answer is made of the user's last words.

use serde_json::{Value, json};

use crate::call::Call;
use crate::plan::{FaultKind, Plan};

/// The answer, and the tokens of question and answer.
pub(super) fn answer(
    plan: &Plan,
    call: &Call<'_>,
    model: &str,
    last: &str,
    most: Option<u64>,
    fault: Option<&FaultKind>,
) -> (Vec<u8>, u64) {
    let hash = blake3::hash(last.as_bytes()).to_hex();
    let words: Vec<&str> = last.split_whitespace().take(12).collect();
    let mut content = format!("Rehearsed {}: {}", &hash[..8], words.join(" "));
    let mut tokens = plan.tokens_of(&content);
    let mut reason = "stop";
    if let Some(most) = most.filter(|most| *most < tokens) {
        content = content.chars().take(usize::try_from(most).unwrap_or(0).saturating_mul(4)).collect();
        tokens = most;
        reason = "length";
    }
    let content = match fault {
        Some(FaultKind::Null) => Value::Null,
        Some(FaultKind::Empty) => Value::String(String::new()),
        _ => Value::String(content),
    };
    let choice = |index: usize| json!({"index": index, "message": {"role": "assistant", "content": content}, "finish_reason": reason});
    let choices = match fault {
        Some(FaultKind::TooFew) => 0,
        Some(FaultKind::TooMany) => 2,
        _ => 1,
    };
    let total = call.tokens + tokens;
    let usage = json!({"prompt_tokens": call.tokens, "completion_tokens": tokens, "total_tokens": total});
    let answer = json!({
        "id": format!("chatcmpl-{}", &hash[..24]),
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": (0..choices).map(choice).collect::<Vec<_>>(),
        "usage": usage,
    });
    let mut text = answer.to_string();
    if fault == Some(&FaultKind::Nan) {
        text = text.replace(&format!("\"total_tokens\":{total}"), "\"total_tokens\":NaN");
    }
    (text.into_bytes(), total)
}
