//! Which failures are the same failure: error text with its variable parts taken out, hashed.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

use crate::failure::Class;

/// Most bytes of a message that take part.
const MESSAGE_MAX: usize = 1_024;
/// Most bytes of a normalised message that take part: the end of a long text differs without meaning.
const NORMALISED_MAX: usize = 512;
/// A word of letters and digits this long is an identifier.
const ID_LENGTH: usize = 16;
/// A word of hexadecimal digits this long is a number: a shorter one may be a word, such as `a100`.
const HEX_LENGTH: usize = 6;
/// The same for one that has no digit from 0 to 9: no word that people write is as long and has no other letter.
const HEX_LETTERS_LENGTH: usize = 8;

/// Everything that varies between items, most specific first. A JSON string under a telling key is normalised
/// inside instead of being replaced: it *is* the message.
static VARIABLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r#"(?P<told>"(?:message|msg|error|code|type|reason|detail|title)"\s*:\s*")(?P<inner>(?:[^"\\]|\\.)*)""#,
        r#"|(?P<host>[A-Za-z][A-Za-z0-9+.\-]*://[^\s/?#"'<>,;)\]}]+)(?P<rest>[^\s"'<>,;)\]}]*)"#,
        r"|(?P<status>(?:HTTP|[Ss]tatus(?: code)?)(?:/[\d.]+)?[ :=]+\d{3}\b)",
        r"|(?P<time>\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?Z|[+\-]\d{2}:?\d{2})?)?)",
        r"|(?P<uuid>[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12})",
        r"|(?P<email>[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+)",
        r#"|(?P<quoted>"(?:[^"\\]|\\.)*"|`[^`]*`)"#,
        r"|(?P<edge>^|[^A-Za-z0-9])'[^']*'",
        r"|(?P<path>(?:[A-Za-z]:)?(?:~|\.{1,2})?[\\/][\w.@%+\-]+(?:[\\/][\w.@%+\-]*)*|[\w.\-]+(?:[\\/][\w.@%+\-]+)+)",
        r"|(?P<word>[A-Za-z0-9_][A-Za-z0-9_\-]*)",
    ))
    .ok()
});

/// Numbers that belong together: decimals, versions, addresses, times of day.
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"<n>(?:[.,:]<n>)+").ok());

/// Returns the group of a failure: 12 hexadecimal digits that are equal for equal stage, class and normalised
/// message.
#[must_use]
pub fn fingerprint(class: Class, stage_name: &str, message: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [stage_name, class.name(), &normalise(message)] {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    let mut hex = hasher.finalize().to_hex().to_string();
    hex.truncate(12);
    hex
}

/// Replaces what differs between items (numbers, identifiers, quoted text, paths, times, addresses) by
/// placeholders. HTTP status codes stay: they are what went wrong.
#[must_use]
pub fn normalise(message: &str) -> String {
    let words = message[..boundary(message, MESSAGE_MAX)].split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text = replace_variable(&words, true);
    text.truncate(boundary(&text, NORMALISED_MAX));
    text
}

fn replace_variable(text: &str, outer: bool) -> String {
    let (Some(variable), Some(numbers)) = (VARIABLE.as_ref(), NUMBERS.as_ref()) else {
        return text.to_owned();
    };
    let replaced = variable.replace_all(text, |found: &Captures<'_>| placeholder(found, outer));
    numbers.replace_all(&replaced, "<n>").into_owned()
}

fn placeholder(found: &Captures<'_>, outer: bool) -> String {
    let part = |name: &str| found.name(name).map(|part| part.as_str());
    if let (Some(told), Some(inner)) = (part("told"), part("inner")) {
        // One level is enough: a string inside a string has escaped quotes and does not match again.
        let inner = if outer { replace_variable(inner, false) } else { "<s>".to_owned() };
        return format!("{told}{inner}\"");
    }
    if let Some(host) = part("host") {
        let path = if part("rest").is_some_and(|rest| rest.len() > 1) { "/<path>" } else { "" };
        return format!("{}{path}", digits_replaced(host));
    }
    if let Some(status) = part("status") {
        return status.to_owned();
    }
    if let Some(word) = part("word") {
        return word_replaced(word);
    }
    if let Some(edge) = part("edge") {
        return format!("{edge}<s>");
    }
    let name = ["time", "uuid", "email", "quoted"].into_iter().find(|name| part(name).is_some());
    match name {
        Some("time") => "<time>",
        Some("uuid") => "<id>",
        Some("email") => "<email>",
        Some("quoted") => "<s>",
        _ => "<path>",
    }
    .to_owned()
}

/// A word without digits is text; one with digits all over is an identifier; else only its digits vary. A number may be
/// written in hexadecimal digits, and then happen to have no letter, or nothing else.
fn word_replaced(word: &str) -> String {
    let digits = word.bytes().filter(u8::is_ascii_digit).count();
    let least = if digits == 0 { HEX_LETTERS_LENGTH } else { HEX_LENGTH };
    let hex = word.len() >= least && word.bytes().all(|b| b.is_ascii_hexdigit()) && !is_labelled(word);
    if hex || (digits > 0 && digits == word.len()) {
        return "<n>".to_owned();
    }
    if digits == 0 {
        return word.to_owned();
    }
    if word.starts_with("0x") || digit_runs(word) > 2 || word.len() >= ID_LENGTH {
        return "<id>".to_owned();
    }
    digits_replaced(word)
}

/// Whether it is a letter and a number, as in `b10001`, and too short for an identifier that only happens to look like that: with a
/// smaller number it would be no hexadecimal one either.
fn is_labelled(word: &str) -> bool {
    let digits = word.strip_prefix(|c: char| c.is_ascii_alphabetic());
    word.len() < HEX_LETTERS_LENGTH && digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()))
}

fn digit_runs(word: &str) -> usize {
    word.split(|c: char| !c.is_ascii_digit()).filter(|run| !run.is_empty()).count()
}

fn digits_replaced(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    let mut within = false;
    for c in word.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !within {
            out.push_str("<n>");
        }
        within = c.is_ascii_digit();
    }
    out
}

fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn variable_parts_become_placeholders() {
        let table = [
            ("read /home/a/b.txt failed after 30s", "read <path> failed after <n>s"),
            ("took 1.5 s, then 2 s", "took <n> s, then <n> s"),
            ("can't open 'a b' here", "can't open <s> here"),
            ("HTTP 503: busy, id 42", "HTTP 503: busy, id <n>"),
            ("at 2026-07-01T10:00:00.123Z it broke", "at <time> it broke"),
            ("request 7f9c24e8-3b12-4fef-91e0-5a1c2d3e4f50 lost", "request <id> lost"),
            ("request req_8f3k2Qp9x lost", "request <id> lost"),
            ("https://api.test:8443/v1/items/9?x=1 refused", "https://api.test:<n>/<path> refused"),
            ("dial 10.0.0.7:5432", "dial <n>"),
            (
                r#"HTTP 500: {"error": "no row 12", "id": "abc"}"#,
                r#"HTTP 500: {"error": "no row <n>", <s>: <s>}"#,
            ),
            ("request 000000d3 refused", "request <n> refused"),
            ("request 00000279 refused", "request <n> refused"),
            ("request deadbeef refused", "request <n> refused"),
            ("a GPU a100 is added", "a GPU a<n> is added"),
            ("line b1: no 'xb1'", "line b<n>: no <s>"),
            ("line b10001: no 'xb10001'", "line b<n>: no <s>"),
            ("commit 3f2a91 is missing", "commit <n> is missing"),
            ("sample@example.test bounced", "<email> bounced"),
            ("", ""),
        ];
        for (message, expected) in table {
            assert_eq!(normalise(message), expected, "{message}");
        }
    }

    #[test]
    fn items_with_the_same_error_share_a_group() {
        let one = fingerprint(Class::Retryable, "parse", "item 17: cannot read \"a.txt\" at 0x7ffe01");
        let two = fingerprint(Class::Retryable, "parse", "item 4: cannot read \"b.txt\" at 0x10aa");
        assert_eq!(one, two);
        assert_eq!(one.len(), 12);
    }

    #[test]
    fn stage_class_status_and_words_tell_groups_apart() {
        let base = fingerprint(Class::Retryable, "parse", "HTTP 503: busy");
        assert_ne!(base, fingerprint(Class::Final, "parse", "HTTP 503: busy"));
        assert_ne!(base, fingerprint(Class::Retryable, "embed", "HTTP 503: busy"));
        assert_ne!(base, fingerprint(Class::Retryable, "parse", "HTTP 500: busy"));
        assert_ne!(base, fingerprint(Class::Retryable, "parse", "HTTP 503: closed"));
    }

    proptest! {
        #[test]
        fn numbers_never_split_a_group(a in 0_u64..1_000_000, b in 0_u64..1_000_000) {
            let of = |n| fingerprint(Class::Final, "s", &format!("row {n} of file /data/{n}.csv is bad ({n}.{n})"));
            prop_assert_eq!(of(a), of(b));
        }

        #[test]
        fn hexadecimal_ids_never_split_a_group(a in any::<u32>(), b in any::<u32>(), long in any::<u64>()) {
            let of = |id: &str| fingerprint(Class::Final, "s", &format!("request {id} refused"));
            prop_assert_eq!(of(&format!("{a:08x}")), of(&format!("{b:08X}")));
            prop_assert_eq!(of(&format!("{a:08x}")), of(&format!("{long:016x}")));
        }

        #[test]
        fn any_text_is_accepted(message in any::<String>()) {
            prop_assert!(normalise(&message).len() <= NORMALISED_MAX);
        }
    }
}
