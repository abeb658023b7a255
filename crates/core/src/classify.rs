//! What an error means: HTTP statuses, provider codes and `Retry-After`, and the matchers of a pipeline file.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Class, Failure, Kind};
use crate::time::{Timestamp, millis};

/// Most bytes of an answer's body that are searched for provider codes.
const BODY_SEARCHED: usize = 16 * 1024;
/// Most bytes of an answer's body that are handed to redaction.
const BODY_KEPT: usize = 64 * 1024;
/// Codes and sentences of OpenAI-compatible services for "the credit is used up"; lower case.
const QUOTA_CODES: [&str; 5] = [
    "insufficient_quota",
    "exceeded your current quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "credit balance is too low",
];
/// Codes and sentences for "this request is too large for the model"; lower case.
const OVERSIZED_CODES: [&str; 5] = [
    "context_length_exceeded",
    "maximum context length",
    "string_above_max_length",
    "request too large",
    "prompt is too long",
];

/// A condition on a failure, as written in `retry_on` and `final_on`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matcher {
    /// Exactly this HTTP status.
    Status(u16),
    /// The failure's text contains this, ignoring ASCII case.
    Text(String),
    /// The failure has this kind.
    Kind(Kind),
    /// An HTTP status of this hundred: 5 is `5xx`.
    StatusClass(u8),
    /// The failure has this class.
    Class(Class),
}

/// A word that is no matcher.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown matcher {word:?}; known are a status such as 429, \"4xx\", \"5xx\", {known}, and {{ text = \"…\" }}"
)]
pub struct UnknownMatcher {
    /// What was written.
    pub word: String,
    known: String,
}

impl Matcher {
    /// Reads a matcher from a word: a status (`429`), a status class (`5xx`), a failure class or a kind.
    pub fn from_word(word: &str) -> Result<Self, UnknownMatcher> {
        let unknown = || UnknownMatcher {
            word: word.to_owned(),
            known: Self::words().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "),
        };
        if let Ok(status) = word.parse::<u16>() {
            return if (100..=599).contains(&status) { Ok(Self::Status(status)) } else { Err(unknown()) };
        }
        if let [hundred @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] = word.as_bytes() {
            return Ok(Self::StatusClass(hundred - b'0'));
        }
        Class::from_name(word)
            .map(Self::Class)
            .or_else(|| Kind::from_name(word).map(Self::Kind))
            .ok_or_else(unknown)
    }

    /// The words that name a class or a kind.
    pub fn words() -> impl Iterator<Item = &'static str> {
        let classes = Class::ALL.into_iter().map(Class::name);
        let kinds = Kind::ALL.into_iter().map(Kind::name);
        classes.chain(kinds.filter(|name| Class::from_name(name).is_none()))
    }

    /// Tells whether the failure meets the condition.
    #[must_use]
    pub fn matches(&self, failure: &Failure) -> bool {
        match self {
            Self::Status(status) => failure.status == Some(*status),
            Self::StatusClass(hundred) => {
                failure.status.is_some_and(|status| status / 100 == u16::from(*hundred))
            }
            Self::Class(Class::Timeout) => failure.class == Class::Timeout || failure.kind == Kind::Timeout,
            Self::Class(class) => failure.class == *class,
            Self::Kind(kind) => failure.kind == *kind,
            Self::Text(text) => contains(failure.message(), &text.to_ascii_lowercase()),
        }
    }

    /// Tells whether the failure is meant in particular, and not just as one of a hundred statuses.
    #[must_use]
    pub fn names(&self, failure: &Failure) -> bool {
        !matches!(self, Self::StatusClass(_)) && self.matches(failure)
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::StatusClass(hundred) => write!(f, "{hundred}xx"),
            Self::Class(class) => write!(f, "{class}"),
            Self::Kind(kind) => write!(f, "{kind}"),
            Self::Text(text) => write!(f, "text {text:?}"),
        }
    }
}

fn contains(text: &str, lower: &str) -> bool {
    text.to_ascii_lowercase().contains(lower)
}

/// Makes a failure of an answer whose status is not a success; `hint` is what its headers asked for.
///
/// The status decides, unless the body carries a provider's code that says more. An excerpt of the body becomes
/// the text.
#[must_use]
pub fn from_status(status: u16, body: &[u8], hint: Option<Duration>) -> Failure {
    let searched = String::from_utf8_lossy(&body[..body.len().min(BODY_SEARCHED)]).to_ascii_lowercase();
    let says = |codes: &[&str]| codes.iter().any(|code| searched.contains(code));
    let (class, kind) = match status {
        402 => (Class::Quota, Kind::Client),
        413 => (Class::Oversized, Kind::Client),
        429 if names_a_rate(body) => (Class::RateLimited, Kind::Client),
        400 | 403 | 429 if says(&QUOTA_CODES) => (Class::Quota, Kind::Client),
        400 | 422 | 429 if says(&OVERSIZED_CODES) => (Class::Oversized, Kind::Client),
        408 => (Class::Timeout, Kind::Client),
        425 => (Class::Retryable, Kind::Client),
        429 => (Class::RateLimited, Kind::Client),
        // "Overloaded": nobody means anything else by it.
        529 => (Class::RateLimited, Kind::Server),
        400..=499 => (Class::Final, Kind::Client),
        504 => (Class::Timeout, Kind::Server),
        500..=599 => (Class::Retryable, Kind::Server),
        100..=199 | 300..=399 => (Class::Final, Kind::Answer),
        200..=299 => (Class::Retryable, Kind::Answer),
        _ => (Class::Retryable, Kind::Unknown),
    };
    let mut message = format!("HTTP {status}").into_bytes();
    let excerpt = body[..body.len().min(BODY_KEPT)].trim_ascii();
    if !excerpt.is_empty() {
        message.extend_from_slice(b": ");
        message.extend_from_slice(excerpt);
    }
    Failure::new(class, kind, message).with_status(status).with_hint(hint)
}

/// Whether an error's own code or type is that of a rate limit: its message may repeat an item's words, whatever these say.
fn names_a_rate(body: &[u8]) -> bool {
    let Ok(said) = serde_json::from_slice::<Value>(body) else { return false };
    let named = |at: &Value| {
        ["code", "type"]
            .iter()
            .filter_map(|name| at[*name].as_str())
            .any(|name| name.starts_with("rate_limit"))
    };
    named(&said["error"]) || named(&said)
}

/// Reads a `Retry-After` value: seconds (decimals are accepted) or an HTTP date.
///
/// A date in the past is zero; a negative or unreadable value is none; a very long wait is returned as it is, the
/// policy decides about it.
#[must_use]
pub fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim();
    if value.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return seconds(value);
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(timestamp(date).since(now))
}

fn seconds(value: &str) -> Option<Duration> {
    if !value.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return None;
    }
    let seconds = value.parse::<f64>().ok()?;
    Some(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

fn timestamp(date: SystemTime) -> Timestamp {
    match date.duration_since(UNIX_EPOCH) {
        Ok(span) => Timestamp(millis(span)),
        Err(before) => Timestamp(millis(before.duration()).saturating_neg()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn status_and_provider_code_give_the_class() {
        use {Class as C, Kind as K};
        let table: [(u16, &str, C, K); 23] = [
            (
                429,
                r#"{"error":{"code":"rate_limit_exceeded","message":"what is insufficient_quota?"}}"#,
                C::RateLimited,
                K::Client,
            ),
            (400, "", C::Final, K::Client),
            (400, r#"{"error":{"code":"context_length_exceeded"}}"#, C::Oversized, K::Client),
            (400, "Your credit balance is too low", C::Quota, K::Client),
            (401, "", C::Final, K::Client),
            (402, "", C::Quota, K::Client),
            (403, "insufficient_quota", C::Quota, K::Client),
            (404, "insufficient_quota", C::Final, K::Client),
            (408, "", C::Timeout, K::Client),
            (413, "", C::Oversized, K::Client),
            (422, "", C::Final, K::Client),
            (425, "", C::Retryable, K::Client),
            (429, "slow down", C::RateLimited, K::Client),
            (429, "You exceeded your current quota, please check", C::Quota, K::Client),
            (429, "Request too large for model", C::Oversized, K::Client),
            (500, "", C::Retryable, K::Server),
            (502, "", C::Retryable, K::Server),
            (504, "", C::Timeout, K::Server),
            (599, "", C::Retryable, K::Server),
            (101, "", C::Final, K::Answer),
            (302, "", C::Final, K::Answer),
            (200, "", C::Retryable, K::Answer),
            (999, "", C::Retryable, K::Unknown),
        ];
        for (status, body, class, kind) in table {
            let failure = from_status(status, body.as_bytes(), None);
            assert_eq!((failure.class, failure.kind), (class, kind), "{status} {body}");
            assert_eq!(failure.status, Some(status));
        }
    }

    #[test]
    fn the_body_becomes_the_text() {
        assert_eq!(from_status(503, b" busy\n", None).message(), "HTTP 503: busy");
        assert_eq!(from_status(503, b" ", None).message(), "HTTP 503");
        assert_eq!(
            from_status(401, b"api_key=hunter2hunter2", None).message(),
            "HTTP 401: api_key=[redacted]"
        );
    }

    #[test]
    fn words_are_read() {
        let table = [
            ("429", Matcher::Status(429)),
            ("5xx", Matcher::StatusClass(5)),
            ("timeout", Matcher::Class(Class::Timeout)),
            ("crash", Matcher::Class(Class::Crash)),
            ("rate_limited", Matcher::Class(Class::RateLimited)),
            ("connection", Matcher::Kind(Kind::Connection)),
            ("answer", Matcher::Kind(Kind::Answer)),
            ("unknown", Matcher::Kind(Kind::Unknown)),
        ];
        for (word, matcher) in table {
            assert_eq!(Matcher::from_word(word), Ok(matcher), "{word}");
        }
        for word in ["", "6xx", "99", "600", "tiemout", "5x", "xx"] {
            let error = Matcher::from_word(word).unwrap_err().to_string();
            assert!(error.contains("\"timeout\"") && error.contains("\"connection\""), "{error}");
        }
    }

    #[test]
    fn every_listed_word_is_a_matcher() {
        assert!(Matcher::words().all(|word| Matcher::from_word(word).is_ok()));
    }

    #[test]
    fn matchers_look_at_what_they_name() {
        let gateway = from_status(504, b"Upstream Gone", None);
        for matcher in ["504", "5xx", "timeout", "server"] {
            assert!(Matcher::from_word(matcher).unwrap().matches(&gateway), "{matcher}");
        }
        assert!(Matcher::Text("upstream gone".into()).matches(&gateway));
        assert!(!Matcher::StatusClass(4).matches(&gateway));
        assert!(!Matcher::Kind(Kind::Connection).matches(&gateway));
        assert!(!Matcher::StatusClass(5).names(&gateway));
    }

    #[test]
    fn retry_after_reads_seconds_and_dates() {
        let now = Timestamp(784_111_777_000); // Sun, 06 Nov 1994 08:49:37 GMT
        let table = [
            ("120", Some(Duration::from_secs(120))),
            (" 1.5 ", Some(Duration::from_millis(1_500))),
            ("0", Some(Duration::ZERO)),
            ("315360000", Some(Duration::from_secs(315_360_000))),
            ("Sun, 06 Nov 1994 08:50:37 GMT", Some(Duration::from_secs(60))),
            ("Sunday, 06-Nov-94 08:50:37 GMT", Some(Duration::from_secs(60))),
            ("Sun Nov  6 08:50:37 1994", Some(Duration::from_secs(60))),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(Duration::ZERO)),
            ("-5", None),
            ("NaN", None),
            ("inf", None),
            ("1e9", None),
            ("1.2.3", None),
            (".", None),
            ("soon", None),
            ("", None),
        ];
        for (value, expected) in table {
            assert_eq!(retry_after(value, now), expected, "{value}");
        }
    }

    proptest! {
        #[test]
        fn any_header_and_any_answer_is_accepted(
            value in any::<String>(),
            now in any::<i64>(),
            status in any::<u16>(),
            body in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = retry_after(&value, Timestamp(now));
            let _ = retry_after(&format!("{status}{status}{status}{status}{status}"), Timestamp(now));
            let failure = from_status(status, &body, None);
            let expected = format!("HTTP {status}");
            prop_assert!(failure.message().starts_with(&expected));
        }
    }
}
