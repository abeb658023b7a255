//! What a refusal of an OpenAI-compatible service means: status, code, type and text together.
//!
//! Services agree on statuses no more than on words: credit that is used up comes as 429, a text that is too long as
//! 400, 413, 422, 429 or 500. So codes come first, then phrases, then the status.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::time::Timestamp;
use serde_json::Value;

use crate::service;

/// Most bytes of a refusal that are looked at.
pub(super) const SEARCHED: usize = 16 * 1024;

/// Codes and types for "the credit is used up"; lower case, like everything below.
const QUOTA_CODES: [&str; 5] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "budget_exceeded",
    "insufficient_balance",
];
/// Sentences for the same.
const QUOTA_PHRASES: [&str; 5] = [
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient balance",
    "insufficient credits",
    "budget has been exceeded",
];
/// Codes and types for "this is more than fits into one request".
const OVERSIZED_CODES: [&str; 6] = [
    "context_length_exceeded",
    "string_above_max_length",
    "array_above_max_length",
    "max_tokens_per_request",
    "exceed_context_size_error",
    "request_too_large",
];
/// Sentences for the same, whatever the status; servers of local models say them with 500.
const OVERSIZED_PHRASES: [&str; 20] = [
    "maximum context length",
    "exceeds the context length",
    "exceeds context length",
    "context window",
    "contextwindowexceeded",
    "exceeds the available context size",
    "maximum model length",
    "input is too large",
    "is too large to process",
    "input is too long",
    "prompt is too long",
    "request too large",
    "too many tokens",
    "too many inputs",
    "tokens per request",
    "max allowed tokens per submitted batch",
    "must have less than",
    "maximum allowed batch size",
    "batch size limit is",
    "batch size is invalid",
];
/// Sentences that mean it even where the service speaks of its limits.
const OVERSIZED_ALONE: [&str; 3] = ["request too large", "maximum context length", "prompt is too long"];
/// Words that mean it only where the service blames the request, and nothing but its input.
const OVERSIZED_WORDS: [&str; 3] = ["too large", "too long", "array too long"];
/// Types for "come back later", whatever the status.
const OVERLOADED_CODES: [&str; 2] = ["overloaded_error", "overloaded"];
/// What stands before a wait in a text.
const WAITS: [&str; 3] = ["try again in ", "retry after ", "retry in "];

/// What a refusal says.
#[derive(Debug, Default)]
struct Said {
    /// Code and type.
    codes: Vec<String>,
    /// The parameter it blames.
    param: Option<String>,
    /// The text, as it was written.
    message: String,
    /// The text in lower case.
    lower: String,
}

/// Makes a failure of a refusal; `hint` is what its headers asked for.
pub(super) fn failure(status: u16, text: &str, hint: Option<Duration>) -> Failure {
    make(status, &Said::read(text), hint).with_status(status)
}

/// Makes a failure of an error that came with a status of success.
pub(super) fn reported(text: &str) -> Failure {
    let said = Said::read(text);
    let status = said.codes.iter().find_map(|code| code.parse().ok());
    match status.filter(|status| (400..600).contains(status)) {
        Some(status) => make(status, &said, None),
        None => {
            Failure::new(Class::Retryable, Kind::Answer, format!("the answer is an error: {}", said.message))
        }
    }
}

fn make(status: u16, said: &Said, hint: Option<Duration>) -> Failure {
    let hint = hint.or_else(|| said.wait());
    let (class, kind) = class(status, said, hint);
    let note = match (class, status) {
        (Class::Final, 401 | 403) => "the API key was refused: ",
        (Class::Final, 404) => "no such model or address: ",
        _ => "",
    };
    let codes: Vec<&str> =
        said.codes.iter().map(String::as_str).filter(|code| code.parse::<u16>().is_err()).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    let text = format!("HTTP {status}: {note}{}{codes}", said.message);
    let text = text.trim_end_matches([':', ' ']);
    let waits = matches!(class, Class::RateLimited | Class::Retryable | Class::Timeout);
    Failure::new(class, kind, text).with_hint(hint.filter(|_| waits))
}

fn class(status: u16, said: &Said, hint: Option<Duration>) -> (Class, Kind) {
    let kind = if status >= 500 { Kind::Server } else { Kind::Client };
    let class = match status {
        402 => Class::Quota,
        413 => Class::Oversized,
        400..=499 if said.has(&QUOTA_CODES) => Class::Quota,
        // Some say "quota" of a limit per minute; who names a wait does not mean the credit.
        400 | 403 | 429 if said.says(&QUOTA_PHRASES) && hint.is_none() => Class::Quota,
        // "Too many tokens" with 429 is a throttle, unless the one request is the reason.
        429 if said.has(&OVERSIZED_CODES) || said.says(&OVERSIZED_ALONE) => Class::Oversized,
        400 | 422 | 500..=599 if said.has(&OVERSIZED_CODES) || said.says(&OVERSIZED_PHRASES) => {
            Class::Oversized
        }
        400 | 422 if said.says(&OVERSIZED_WORDS) && said.blames_input() => Class::Oversized,
        429 | 529 => Class::RateLimited,
        500..=599 if said.has(&OVERLOADED_CODES) => Class::RateLimited,
        503 if hint.is_some() => Class::RateLimited,
        // The model failed, not the request.
        424 => return (Class::Retryable, Kind::Server),
        _ => {
            let failure = classify::from_status(status, &[], None);
            return (failure.class, failure.kind);
        }
    };
    (class, kind)
}

impl Said {
    fn read(text: &str) -> Self {
        let text = cut(text.trim());
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        // Google's services answer with a list of one.
        let value = value.get(0).unwrap_or(&value);
        let error = value.get("error").unwrap_or(value);
        let field = |name: &str| [error, value].into_iter().find_map(|object| word(object.get(name)?));
        let names = ["code", "type", "error_type", "status"];
        let mut codes: Vec<String> = names.into_iter().filter_map(field).collect();
        codes.dedup();
        let message = field("message").or_else(|| word(error)).or_else(|| field("detail"));
        let message = message.unwrap_or_else(|| text.to_owned());
        let lower = message.to_ascii_lowercase();
        Self { codes, param: field("param"), message, lower }
    }

    fn has(&self, known: &[&str]) -> bool {
        // Where there is no JSON the code is somewhere in the text.
        known.iter().any(|code| {
            self.codes.iter().any(|said| said.eq_ignore_ascii_case(code))
                || self.lower.contains(&format!("\"{code}\""))
        })
    }

    fn says(&self, phrases: &[&str]) -> bool {
        phrases.iter().any(|phrase| self.lower.contains(phrase))
    }

    fn blames_input(&self) -> bool {
        self.param.as_deref().is_none_or(|param| {
            ["input", "messages", "prompt"]
                .iter()
                .any(|input| param.trim_start_matches("$.").starts_with(input))
        })
    }

    /// A wait that the text names: "Please try again in 1m2.5s", "Please retry after 2 seconds."
    fn wait(&self) -> Option<Duration> {
        WAITS.iter().find_map(|phrase| {
            let rest = &self.lower[self.lower.find(phrase)? + phrase.len()..];
            let mut words = rest.split_whitespace();
            let amount = words.next()?.trim_end_matches(['.', ',', ')']);
            if amount.ends_with(|last: char| last.is_ascii_alphabetic()) {
                return service::span(amount, Timestamp(0));
            }
            let unit = match words.next()?.trim_end_matches(['.', ',', ')']) {
                "ms" | "millisecond" | "milliseconds" => "ms",
                "s" | "sec" | "second" | "seconds" => "s",
                "m" | "min" | "minute" | "minutes" => "m",
                "h" | "hour" | "hours" => "h",
                _ => return None,
            };
            service::span(&format!("{amount}{unit}"), Timestamp(0))
        })
    }
}

/// A text or number; lists and objects (the details of a validation) as JSON.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(list) if !list.is_empty() => Some(value.to_string()),
        _ => None,
    }
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(SEARCHED)]
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
