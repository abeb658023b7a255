//! Strings with a meaning: durations, sizes, names, pointers, addresses, headers.

use std::time::Duration;

use redrive_core::redact;

/// Longest duration that is accepted: a hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);
/// Longest name of a pipeline, stage, gate or category.
const NAME_MAX: usize = 64;
/// Longest name of a model.
const MODEL_MAX: usize = 200;
/// Longest address; within what redaction looks at.
const URL_MAX: usize = 4_096;

/// Reads a duration above zero.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text.trim().bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(format!("{text:?} has no unit"));
    }
    let span = humantime::parse_duration(text.trim())
        .map_err(|error| format!("{text:?} is no duration: {error}"))?;
    match span {
        Duration::ZERO => Err("must be above zero".to_owned()),
        span if span > LONGEST => Err(format!("{text:?} is longer than a hundred years")),
        span => Ok(span),
    }
}

/// Reads a number of bytes such as "16MB" (decimal) or "16MiB" (binary).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" | "k" => 1_000,
        "mb" | "m" => 1_000_000,
        "gb" | "g" => 1_000_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        _ => return Err(format!("{text:?} is no size; write bytes, or \"64kB\", \"16MB\", \"16MiB\"")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("{text:?} is no size"))?;
    number.checked_mul(factor).ok_or_else(|| format!("{text:?} is too large"))
}

/// Writes a number of bytes with the largest unit that fits it evenly.
pub(crate) fn bytes(number: u64) -> String {
    let even = |factor: u64| number > 0 && number.is_multiple_of(factor);
    match number {
        1 => "1 byte".to_owned(),
        _ if even(1 << 30) => format!("{}GiB", number >> 30),
        _ if even(1 << 20) => format!("{}MiB", number >> 20),
        _ => format!("{number} bytes"),
    }
}

/// Reads the name of a stage or gate.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    if (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no name: 1 to {NAME_MAX} of a-z, 0-9, '_' and '-'"))
}

/// Reads the name of a pipeline or category, which may also have capitals and dots.
///
/// # Errors
/// What names look like, when it is none.
pub fn title(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    if (1..=NAME_MAX).contains(&text.len()) && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no name: 1 to {NAME_MAX} of letters, digits, '_', '-' and '.'"))
}

/// Reads the name of an event: words with dots between them, as messages are routed by.
pub(crate) fn event(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-');
    let word = |word: &str| !word.is_empty() && word.bytes().all(allowed);
    if text.len() <= NAME_MAX && text.split('.').all(word) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is no name of an event: words of a-z, 0-9, '_' and '-' with dots between them"))
}

/// Reads a JSON pointer (RFC 6901). The empty one is the whole document.
pub(crate) fn pointer(text: &str) -> Result<String, String> {
    if !text.is_empty() && !text.starts_with('/') {
        return Err(format!("{text:?} is no JSON pointer: it starts with '/', as in \"/id\""));
    }
    let escapes = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
    if escapes {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is no JSON pointer: '~' is written \"~0\""))
    }
}

/// What is wrong with an address, and what to do about it.
pub(crate) struct BadUrl {
    pub(crate) message: String,
    pub(crate) hint: Option<&'static str>,
}

/// Reads an `http` or `https` address without secrets in it. Messages never repeat the address: it may hold one.
pub(crate) fn url(text: &str) -> Result<String, BadUrl> {
    let bad = |message: &str, hint| Err(BadUrl { message: message.to_owned(), hint });
    let lower = text.to_ascii_lowercase();
    let Some(skip) =
        ["http://", "https://"].into_iter().find_map(|s| lower.starts_with(s).then_some(s.len()))
    else {
        return bad("expected an address that starts with http:// or https://", None);
    };
    if text.len() > URL_MAX {
        return bad("the address is longer than 4096 bytes", None);
    }
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return bad("an address has no spaces or control characters", Some("write a space as %20"));
    }
    let authority = text[skip..].split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') || redact::clean(text.as_bytes(), text.len()) != text {
        let hint = "send it as a header whose value is read from a variable: header_env = { Authorization = \"MY_VARIABLE\" }";
        return bad("the address holds a user name, password or key", Some(hint));
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, rest)) => (host, rest.strip_prefix(':')),
            None => return bad("the host's '[' is not closed", None),
        },
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return bad("the address has no host", None);
    }
    if !host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:%".contains(&b)) {
        return bad("the host has characters that a host cannot have", None);
    }
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return bad("the port is no number between 0 and 65535", None);
    }
    Ok(text.to_owned())
}

/// The host of an address that was read, in lower case, with its port where that is not the usual one.
pub(crate) fn authority(url: &str) -> String {
    let lower = url.to_ascii_lowercase();
    let (scheme, rest) = lower.split_once("://").unwrap_or(("", &lower));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(usual).or_else(|| authority.strip_suffix(':')).unwrap_or(authority).to_owned()
}

/// Checks the name of a model.
pub(crate) fn model(text: &str) -> Result<String, String> {
    if (1..=MODEL_MAX).contains(&text.len()) && !text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Ok(text.to_owned());
    }
    Err(format!("expected the name of a model, at most {MODEL_MAX} bytes without spaces"))
}

/// Checks a text in which `{/pointer}` stands for a part of the payload, `{{` and `}}` for braces.
pub(crate) fn template(text: &str) -> Result<String, String> {
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let brace = &rest[at..];
        if let Some(after) = brace.strip_prefix("{{").or_else(|| brace.strip_prefix("}}")) {
            rest = after;
            continue;
        }
        let inside = brace.strip_prefix('{').ok_or("a \"}\" has no \"{\"")?;
        let (inside, after) = inside.split_once('}').ok_or("a \"{\" is not closed")?;
        if inside.is_empty() {
            return Err("{} holds no JSON pointer".to_owned());
        }
        pointer(inside)?;
        rest = after;
    }
    if text.trim().is_empty() {
        return Err("expected a text".to_owned());
    }
    Ok(text.to_owned())
}

/// Checks the name of an HTTP header that a pipeline may set.
pub(crate) fn header_name(text: &str) -> Result<String, String> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.is_empty() || !text.bytes().all(token) {
        return Err(format!("{text:?} is no header name"));
    }
    let own = ["idempotency-key", "content-length", "transfer-encoding", "connection", "host"];
    if own.iter().any(|own| text.eq_ignore_ascii_case(own)) {
        return Err(format!("{text} is set by redrive itself"));
    }
    Ok(text.to_owned())
}

/// Checks the value of an HTTP header.
pub(crate) fn header_value(text: &str) -> Result<String, String> {
    if text.bytes().all(|b| (b' '..=b'~').contains(&b) || b == b'\t') {
        return Ok(text.to_owned());
    }
    Err("a header value has only printable ASCII characters".to_owned())
}

/// Whether a header is one that carries a key, or its value looks like one.
pub(crate) fn is_secret_header(name: &str, value: &str) -> bool {
    const NAMES: [&str; 6] =
        ["authorization", "proxy-authorization", "cookie", "api-key", "x-key", "x-token"];
    const PARTS: [&str; 6] = ["api-key", "apikey", "auth-token", "access-token", "secret", "password"];
    let lower = name.to_ascii_lowercase();
    let line = format!("{name}: {value}");
    NAMES.contains(&lower.as_str())
        || PARTS.iter().any(|part| lower.contains(part))
        || redact::clean(line.as_bytes(), line.len()) != line
}

/// Checks the name of an environment variable.
pub(crate) fn variable(text: &str) -> Result<String, String> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if !text.is_empty() && text.bytes().all(allowed) && !text.as_bytes()[0].is_ascii_digit() {
        return Ok(text.to_owned());
    }
    Err("expected the name of an environment variable, such as \"API_KEY\" (never its value)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_decimal_and_binary_units() {
        let table =
            [("512", 512), ("64kB", 64_000), ("16MB", 16_000_000), ("16 MiB", 16 << 20), ("1GiB", 1 << 30)];
        for (text, bytes) in table {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "MB", "1TB", "-1", "1.5MB", "99999999999999GB"] {
            assert!(size(text).is_err(), "{text}");
        }
        let table =
            [(0, "0 bytes"), (1, "1 byte"), (1_000, "1000 bytes"), (64 << 20, "64MiB"), (3 << 30, "3GiB")];
        for (number, text) in table {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn durations_need_a_unit_and_a_length() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5_400)));
        for text in ["", "30", "1.5", "0s", "5 parsecs", "99999999y", "-3s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_are_checked_without_being_repeated() {
        for text in ["http://127.0.0.1:9000/work", "https://api.test", "HTTP://[::1]:80/x?y=1"] {
            assert!(url(text).is_ok(), "{text}");
        }
        for text in [
            "ftp://x",
            "x",
            "http://",
            "http://:80",
            "http://h:99999",
            "http://h:x",
            "http://[::1",
            "http://a b",
            "https://me:hunter2@h/",
            "https://h/?api_key=hunter2",
        ] {
            let bad = url(text).unwrap_err();
            assert!(!bad.message.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn hosts_are_told_without_their_usual_port() {
        let table = [
            ("http://127.0.0.1:9000/work?x=1", "127.0.0.1:9000"),
            ("https://API.Test", "api.test"),
            ("https://api.test:443/v1", "api.test"),
            ("http://api.test:80", "api.test"),
            ("http://api.test:443#x", "api.test:443"),
            ("http://[::1]:8080/v1", "[::1]:8080"),
            ("http://[::1]/v1", "[::1]"),
        ];
        for (text, expected) in table {
            assert_eq!(authority(text), expected, "{text}");
        }
    }

    #[test]
    fn templates_have_pointers_in_braces() {
        for text in ["plain", "{/a}", "{{\"x\": {/a~1b/0}}}", "{{}}", "{{{/a}}}"] {
            assert!(template(text).is_ok(), "{text}");
        }
        for text in ["", " ", "{", "}", "a } b", "{text}", "{}", "{/a", "{/a~2}", "{{/a}"] {
            assert!(template(text).is_err(), "{text}");
        }
    }

    #[test]
    fn pointers_follow_the_rfc() {
        assert!(pointer("").is_ok() && pointer("/a~1b/0").is_ok());
        assert!(pointer("id").is_err() && pointer("/a~2").is_err() && pointer("/a~").is_err());
    }
}
