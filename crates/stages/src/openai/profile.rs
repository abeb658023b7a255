//! What a refusal of an OpenAI-compatible service means: status, code, type and text together.
//!
//! Services agree on statuses no more than on words: credit that is used up comes as 400, 401, 403, 412 or 429, a text that
//! is too long as 400, 413, 422, 429 or 500, and any of it with status 200. So codes come first, then phrases, then the
//! status. A key that is refused is nobody's fault but the key's: it waits for somebody, whatever the words.

use std::time::Duration;

use redrive_core::classify;
use redrive_core::failure::{Class, Kind};
use redrive_core::time::Timestamp;
use serde_json::Value;

use crate::service;

/// Most bytes of a refusal that are looked at.
const SEARCHED: usize = 16 * 1024;

/// Codes and types for "the credit is used up"; lower case, like everything below.
const QUOTA_CODES: [&str; 15] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "budget_exceeded",
    "insufficient_balance",
    "insufficient_account_balance",
    "insufficient_credits",
    "insufficient_funds",
    "credits_exhausted",
    "out_of_credits",
    "arrearage",
    "allocationquota.freetieronly",
    "account_suspended",
    "account_deactivated",
];
/// Sentences for the same.
const QUOTA_PHRASES: [&str; 22] = [
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient balance",
    "insufficient account balance",
    "insufficient credits",
    "insufficient funds",
    "not enough credits",
    "out of credits",
    "no credits left",
    "available credits",
    "budget has been exceeded",
    "billing hard limit",
    "spending limit",
    "key limit exceeded",
    "out of call volume quota",
    "quota has been exhausted",
    "quota exhausted",
    "free tier of the model has been exhausted",
    "account is suspended",
    "account has been suspended",
    "account is not active",
    "account is in arrears",
];
/// Codes for "the key is not good", which some services send with 400.
const KEY_CODES: [&str; 3] = ["invalid_api_key", "api_key_invalid", "incorrect_api_key"];
/// Sentences for the same.
const KEY_PHRASES: [&str; 9] = [
    "api key not valid",
    "api key is not valid",
    "api key is invalid",
    "invalid api key",
    "incorrect api key",
    "api key expired",
    "api key has expired",
    "api key not found",
    "provide an api key",
];
/// Words for a limit that is whole again in a day or later: with no wait named, nobody here can wait for it.
const LONG_LIMITS: [&str; 14] = [
    "per day",
    "per_day",
    "per-day",
    "perday",
    "/day",
    "/ day",
    "daily limit",
    "daily quota",
    "per month",
    "per_month",
    "/month",
    "/ month",
    "monthly limit",
    "monthly quota",
];
/// Codes for "this very text is not answered", which may come with the status of a refused key.
const CONTENT_CODES: [&str; 6] = [
    "content_filter",
    "content_policy_violation",
    "content_policy_violated",
    "moderation_blocked",
    "moderation_error",
    "content_blocked",
];
/// Sentences for the same.
const CONTENT_PHRASES: [&str; 5] = [
    "content policy",
    "content management policy",
    "flagged by moderation",
    "requires moderation",
    "safety policy",
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

/// The status that a code or type stands for, where an error comes without one.
const STATUS_WORDS: [(u16, &[&str]); 9] = [
    (
        400,
        &["invalid_request_error", "invalid_argument", "badrequesterror", "bad_request", "validation_error"],
    ),
    (401, &["invalid_api_key", "authentication_error", "unauthenticated", "unauthorized"]),
    (403, &["permission_error", "permission_denied", "forbidden"]),
    (404, &["model_not_found", "not_found_error", "not_found", "notfounderror"]),
    (408, &["timeout", "request_timeout", "timeout_error", "deadline_exceeded"]),
    (
        429,
        &[
            "rate_limit_exceeded",
            "rate_limit_error",
            "rate_limited",
            "resource_exhausted",
            "too_many_requests",
            "throttling_error",
        ],
    ),
    (500, &["server_error", "internal_error", "internal_server_error", "api_error", "internal"]),
    (503, &["service_unavailable", "unavailable", "unavailable_error", "model_loading"]),
    (529, &["overloaded_error", "overloaded"]),
];

/// What a refusal means, in words that may still repeat a secret.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) class: Class,
    pub(super) kind: Kind,
    /// The status it came with; none for an error in an answer of success.
    pub(super) status: Option<u16>,
    pub(super) hint: Option<Duration>,
    pub(super) text: String,
    /// Whether it is about the key, so that somebody has to look at that.
    pub(super) of_key: bool,
}

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

/// What a refusal means; `hint` is what its headers asked for, `resets` when a limit is whole again. What the text asks for
/// comes before that: there is something of a limit long before there is all of it.
pub(super) fn refusal(status: u16, body: &[u8], hint: Option<Duration>, resets: Option<Duration>) -> Refusal {
    let said = Said::read(&String::from_utf8_lossy(body));
    let hint = hint.or_else(|| said.wait()).or(resets);
    Refusal { status: Some(status), ..judged(status, &format!("HTTP {status}: "), &said, hint) }
}

/// What an error means that came with a status of success: the same as with the status that its code is or stands for.
pub(super) fn reported(body: &[u8]) -> Refusal {
    let said = Said::read(&String::from_utf8_lossy(body));
    let number =
        said.codes.iter().find_map(|code| code.parse().ok()).filter(|code| (400..600).contains(code));
    if let Some(status) = number {
        return judged(status, &format!("HTTP {status}: "), &said, None);
    }
    let lead = "the answer is an error: ";
    if let Some((status, _)) = STATUS_WORDS.iter().find(|(_, words)| said.has(words)) {
        return judged(*status, lead, &said, None);
    }
    // Words that mean something whatever the status are looked for as with 400; of the rest nothing is known.
    let judged = judged(400, lead, &said, None);
    match judged.class {
        Class::Quota | Class::Oversized => judged,
        _ => Refusal { class: Class::Retryable, kind: Kind::Answer, ..judged },
    }
}

fn judged(status: u16, lead: &str, said: &Said, hint: Option<Duration>) -> Refusal {
    let hint = hint.or_else(|| said.wait());
    let (class, kind) = class(status, said, hint);
    let about_key = matches!(status, 401 | 403) || said.refuses_key();
    let of_key = class == Class::Quota && about_key && !said.wants_money(status, hint);
    let note = match (class, status) {
        _ if of_key => "the API key was refused: ",
        (Class::Final, 404) => "no such model or address: ",
        _ => "",
    };
    let codes: Vec<&str> =
        said.codes.iter().map(String::as_str).filter(|code| code.parse::<u16>().is_err()).collect();
    let codes = if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
    let text = format!("{lead}{note}{}{codes}", said.message);
    let text = text.trim_end_matches([':', ' ']).to_owned();
    let waits = matches!(class, Class::RateLimited | Class::Retryable | Class::Timeout);
    Refusal { class, kind, status: None, hint: hint.filter(|_| waits), text, of_key }
}

fn class(status: u16, said: &Said, hint: Option<Duration>) -> (Class, Kind) {
    let kind = if status >= 500 { Kind::Server } else { Kind::Client };
    let class = match status {
        413 => Class::Oversized,
        _ if said.wants_money(status, hint) => Class::Quota,
        401 => Class::Quota,
        400..=499 if said.refuses_key() => Class::Quota,
        403 if said.has(&CONTENT_CODES) || said.says(&CONTENT_PHRASES) => Class::Final,
        // It may be about this one request after all: others tell.
        403 => return (Class::Quota, Kind::Access),
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

    /// Whether credit is used up, or a limit that will not be whole again while anybody waits.
    fn wants_money(&self, status: u16, hint: Option<Duration>) -> bool {
        // Some say "quota" of a limit per minute; who names a wait does not mean the credit.
        let in_words = hint.is_none() && status < 500 && self.says(&QUOTA_PHRASES);
        let for_long = hint.is_none() && status == 429 && self.says(&LONG_LIMITS);
        status == 402 || self.has(&QUOTA_CODES) || in_words || for_long
    }

    /// Whether it is the key that is not good, whatever the status.
    fn refuses_key(&self) -> bool {
        self.has(&KEY_CODES) || self.says(&KEY_PHRASES)
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
