//! Error text made safe to keep: decoded, without terminal escapes, without secrets, bounded.
//!
//! Secrets are removed before the text is shortened, so a secret cut in half cannot leak; and only a bounded
//! prefix is looked at, so the size of an error does not matter.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

/// What stands where a secret was.
pub const REDACTED: &str = "[redacted]";

/// Most bytes of an error that are ever looked at.
const SCAN_MAX: usize = 64 * 1024;
/// Fewest bytes that are looked at, however short the result may be.
const SCAN_MIN: usize = 8 * 1024;
/// No secret is longer than this that cannot be told by its beginning.
const LONGEST_SECRET: usize = 4 * 1024;
/// Words that follow "bearer" or "basic" in prose and are no secret.
const PROSE: [&str; 9] = [
    "authentication",
    "authorization",
    "credentials",
    "required",
    "scheme",
    "token",
    "tokens",
    "realm",
    "header",
];

/// One way in which secrets are written.
struct Rule {
    /// Lower-case fragments of which at least one occurs in every match: spares the pattern on most texts.
    needles: &'static [&'static str],
    pattern: Regex,
    replace: fn(&Captures<'_>) -> String,
}

impl Rule {
    fn new(
        needles: &'static [&'static str],
        pattern: &str,
        replace: fn(&Captures<'_>) -> String,
    ) -> Option<Self> {
        Regex::new(pattern).ok().map(|pattern| Self { needles, pattern, replace })
    }
}

/// The rules in the order in which they are applied; the greedy `key = value` rule comes last, because it would
/// take the word "Bearer" for the value and leave the token behind it.
static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    [
        Rule::new(
            &["private key"],
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z0-9 ]*-----[\s\S]*?(?:-----END [A-Z0-9 ]*-----|\z)",
            |_| REDACTED.to_owned(),
        ),
        Rule::new(
            &["://"],
            r#"([A-Za-z][A-Za-z0-9+.\-]*://)(?:[^\s/?#"'<>]+|[^\s/:@"'<>]+:[^\s@"'<>]+)@"#,
            keep_first,
        ),
        Rule::new(&["@tcp(", "@unix("], r#"[^\s:@"'/]+:[^\s@"']+(@(?:tcp|unix)\()"#, |found| {
            format!("{REDACTED}{}", group(found, 1))
        }),
        Rule::new(
            &["authorization", "cookie"],
            concat!(
                r#"(?i)((?:authorization|cookie)\\*["']?[ \t]*[:=][ \t]*\\*["']?)"#,
                r#"(?:\[redacted\]|(?:bearer|basic|token|apikey)[ \t]+[^\s"',;\\]+|[^\r\n"'\\]+)"#
            ),
            keep_first,
        ),
        Rule::new(&["bearer", "basic"], r"(?i)((?:bearer|basic)[ \t]+)([A-Za-z0-9._~+/=\-]{6,})", |found| {
            let value = group(found, 2);
            let prose = PROSE.iter().any(|word| value.trim_end_matches('.').eq_ignore_ascii_case(word));
            if prose { group(found, 0).to_owned() } else { keep_first(found) }
        }),
        Rule::new(
            &["sk-", "sk_", "rk_", "pk_"],
            r"((?:^|[^A-Za-z0-9]))(?:sk|rk|pk)[-_][A-Za-z0-9_*\-]{8,}",
            keep_first,
        ),
        Rule::new(
            &["gh", "xox", "akia", "asia", "aiza", "hf_", "glpat", "npm_", "ya29", "sg."],
            concat!(
                r"(?:gh[pousr]_[A-Za-z0-9]{8,}|github_pat_[A-Za-z0-9_]{8,}|xox[a-z]-[A-Za-z0-9\-]{8,}",
                r"|(?:AKIA|ASIA)[A-Z0-9]{12,}|AIza[A-Za-z0-9_\-]{20,}|hf_[A-Za-z0-9]{16,}",
                r"|glpat-[A-Za-z0-9_\-]{12,}|npm_[A-Za-z0-9]{20,}|ya29\.[A-Za-z0-9_\-]{12,}",
                r"|SG\.[A-Za-z0-9_\-]{12,}\.[A-Za-z0-9_\-]+)"
            ),
            |_| REDACTED.to_owned(),
        ),
        Rule::new(&["eyj"], r"eyJ[A-Za-z0-9_\-]{6,}\.[A-Za-z0-9_\-]{4,}(?:\.[A-Za-z0-9_\-]*)?", |_| {
            REDACTED.to_owned()
        }),
        Rule::new(
            &["--"],
            r#"(?i)(--?[a-z\-]*(?:password|passwd|token|api-?key|secret)[ \t]+)[^\s"'\-][^\s"']*"#,
            keep_first,
        ),
        Rule::new(
            &["key", "secret", "passw", "pwd", "token", "credential", "signature", "sig=", "session"],
            concat!(
                r"(?i)((?:api[_\- ]?key|access[_\-]?key(?:[_\-]?id)?|account[_\-]?key|private[_\-]?key",
                r"|secret(?:[_\-]?key)?|passwd|password|passphrase|pwd|token|credentials?|signature|sig",
                r"|session[_\-]?id)",
                r#"(?: provided)?\\*["']?[ \t]*(?:=>|:=|[:=])[ \t]*)"#,
                r#"(?:\[redacted\]|\\+"[^"]*"?|"(?:[^"\\]|\\.)*"?|'[^']*'?|[^\s"'&;<>]+)"#
            ),
            keep_first,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
});

fn group<'t>(found: &Captures<'t>, index: usize) -> &'t str {
    found.get(index).map_or("", |part| part.as_str())
}

fn keep_first(found: &Captures<'_>) -> String {
    let url = group(found, 0).ends_with('@');
    format!("{}{REDACTED}{}", group(found, 1), if url { "@" } else { "" })
}

/// Turns any bytes into text of at most `max` bytes that is safe to store and to print.
///
/// Decodes leniently, drops control characters (line feed and tab stay), removes secrets, and cuts at a character
/// boundary with a note of how much is missing.
#[must_use]
pub fn clean(bytes: &[u8], max: usize) -> String {
    let scan = max.saturating_mul(4).clamp(SCAN_MIN, SCAN_MAX);
    clean_prefix(bytes, scan, max, 0, |text| text)
}

/// The same, for somebody who knows more secrets than can be told by their form: `hide` takes them out, before anything
/// else does, so that none is broken by the removal of a part of it. Where the end of the bytes is not looked at, another
/// `edge` bytes are not shown either: a secret may be cut there that is spelled so long.
#[must_use]
pub fn clean_hiding(bytes: &[u8], max: usize, edge: usize, hide: impl FnOnce(String) -> String) -> String {
    clean_prefix(bytes, SCAN_MAX, max, edge, hide)
}

fn clean_prefix(
    bytes: &[u8],
    scan: usize,
    max: usize,
    edge: usize,
    hide: impl FnOnce(String) -> String,
) -> String {
    let seen = bytes.get(..scan).unwrap_or(bytes);
    let mut unseen = bytes.len() - seen.len();
    let mut text = hide(printable(&String::from_utf8_lossy(seen)));
    if unseen > 0 {
        unseen += drop_end(&mut text, edge);
        let broken = text.len() - start_of_last_word(&text);
        if broken > LONGEST_SECRET {
            // No secret is as long, so that the word begins with something else. What it has of one is found while it is whole.
            text = redact(text);
            unseen += drop_end(&mut text, LONGEST_SECRET);
            return truncate(text, max, unseen);
        }
        unseen += drop_end(&mut text, broken);
    }
    truncate(redact(text), max, unseen)
}

/// Applies every rule.
fn redact(mut text: String) -> String {
    let mut lower = text.to_ascii_lowercase();
    for rule in RULES.iter() {
        if !rule.needles.iter().any(|needle| lower.contains(needle)) {
            continue;
        }
        if rule.pattern.is_match(&text) {
            text = rule.pattern.replace_all(&text, rule.replace).into_owned();
            lower = text.to_ascii_lowercase();
        }
    }
    text
}

/// Removes what a terminal would act upon. Nothing is put in its place, so that a secret interleaved with
/// control characters (or text in UTF-16) comes together again and is recognised.
fn printable(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => kept.push(c),
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    kept.push('\n');
                }
            }
            '\u{b}' | '\u{c}' | '\u{2028}' | '\u{2029}' => kept.push(' '),
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    while chars.next_if(|c| ('\u{20}'..='\u{3f}').contains(c)).is_some() {}
                    chars.next_if(|c| ('\u{40}'..='\u{7e}').contains(c));
                }
            }
            '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' => {}
            c if c.is_control() => {}
            c => kept.push(c),
        }
    }
    kept
}

/// Where the last word begins of a text whose end was not looked at: half a secret may not be recognisable as one.
fn start_of_last_word(text: &str) -> usize {
    let boundary =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '{' | '}' | '[' | ']' | '(' | ')');
    text.rfind(boundary).map_or(0, |at| at + text[at..].chars().next().map_or(0, char::len_utf8))
}

/// Drops so many bytes at the end of a text, and a few more where a character would be broken; returns how many.
fn drop_end(text: &mut String, bytes: usize) -> usize {
    let kept = floor_char_boundary(text, text.len().saturating_sub(bytes));
    let dropped = text.len() - kept;
    text.truncate(kept);
    dropped
}

/// Cuts to `max` bytes, the note included, where it fits.
fn truncate(mut text: String, max: usize, unseen: usize) -> String {
    if unseen == 0 && text.len() <= max {
        return text;
    }
    // The number printed is never longer than that of everything being cut.
    let longest = note(text.len().saturating_add(unseen)).len();
    let room = max.checked_sub(longest);
    let keep = floor_char_boundary(&text, room.unwrap_or(max).min(text.len()));
    let cut = (text.len() - keep).saturating_add(unseen);
    text.truncate(keep);
    if room.is_some() {
        text.push_str(&note(cut));
    }
    text
}

fn note(cut: usize) -> String {
    format!("… ({cut} bytes cut)")
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean_text(text: &str) -> String {
        clean(text.as_bytes(), 2_000)
    }

    /// Ways in which a secret gets into an error; `@` stands for it.
    const PLANTS: [&str; 24] = [
        "Authorization: Bearer @",
        "authorization: Basic @",
        "Authorization: Digest username=x, response=@",
        r#"{"Authorization": "Bearer @"}"#,
        "Bearer @",
        "api_key=@",
        "https://api.test/v1?api_key=@&x=1",
        r#"{"api_key": "@"}"#,
        r#"{\"api_key\": \"@\"}"#,
        "OPENAI_API_KEY=@",
        "x-api-key: @",
        "token: @",
        "client_secret='@'",
        "Password=@;User Id=sa",
        "password := \"@ with spaces @\"",
        "--password @",
        "Incorrect API key provided: @",
        "sk-@",
        "sk-proj-@",
        "ghp_@",
        "xoxb-@",
        "postgres://user:@@db.test/app",
        "eyJhbGciOiJIUzI1NiJ9.@.@",
        "-----BEGIN RSA PRIVATE KEY-----\nMII@\n@\n-----END RSA PRIVATE KEY-----",
    ];

    #[test]
    fn every_rule_compiles() {
        assert_eq!(RULES.len(), 10);
    }

    #[test]
    fn the_words_around_a_secret_stay() {
        let text = clean_text("calling https://u:p@api.test/v1 with api_key=abc123 failed: HTTP 503");
        assert_eq!(text, "calling https://[redacted]@api.test/v1 with api_key=[redacted] failed: HTTP 503");
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in [
            "HTTP 503: upstream connect error",
            "max_tokens: 4096 is above the limit",
            "basic authentication required",
            "GET https://api.test/v1/task-list?page=2 failed",
            "disk-management failed\n\tat line 3",
            "",
        ] {
            assert_eq!(clean_text(text), text);
        }
    }

    #[test]
    fn terminal_escapes_are_removed() {
        assert_eq!(clean(b"\x1b[31mred\x1b[0m \x1b]0;title\x07 a\0b\r\nc", 100), "red ]0;title ab\nc");
    }

    #[test]
    fn a_secret_interleaved_with_controls_is_recognised() {
        assert_eq!(clean(b"s\0k\0-\0abcdefghijkl", 100), "[redacted]");
    }

    #[test]
    fn cleaning_twice_changes_nothing() {
        for plant in PLANTS {
            let once = clean_text(&format!("{{{}}}, next", plant.replace('@', "Canary0123456789")));
            assert_eq!(clean_text(&once), once);
        }
    }

    #[test]
    fn the_cut_is_counted_with_what_was_never_looked_at() {
        let text = clean(&vec![b'x'; 1_000_000], 100);
        assert_eq!(text, format!("{}… (999923 bytes cut)", "x".repeat(77)));
        let text = clean("word ".repeat(200_000).as_bytes(), 100);
        assert!(text.starts_with("word word") && text.len() <= 100, "{text}");
        assert_eq!(clean("äöü".as_bytes(), 3), "ä");
    }

    #[test]
    fn of_a_long_text_without_spaces_the_beginning_stays_and_no_secret_of_it_does() {
        let long = |beginning: &str| clean(format!("{beginning}{}", "M".repeat(3_000_000)).as_bytes(), 2_000);
        assert!(long("HTTP-500:").starts_with("HTTP-500:MMMM"));
        for (beginning, secret) in [
            ("x;Bearer ", "MMM"),
            ("x;eyJhbGciOiJIUzI1NiJ9.Canary0123;", "Canary"),
            ("https://user:Canary@db.test/", "Canary"),
        ] {
            assert!(!long(beginning).contains(secret), "{beginning}");
        }
        // What is cut where nobody looks any more is not shown in part.
        for before in (0..SCAN_MIN).step_by(7) {
            let text =
                format!("{};eyJ{}.Canary;{}", "M".repeat(before), "C4n4ry".repeat(30), "M".repeat(20_000));
            assert!(!clean(text.as_bytes(), SCAN_MIN).contains("C4n4ry"), "{before}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_bounded_text(bytes in proptest::collection::vec(any::<u8>(), 0..3_000), max in 0_usize..2_500) {
            let text = clean(&bytes, max);
            prop_assert!(text.len() <= max);
            let controls = text.chars().any(|c| c.is_control() && c != '\n' && c != '\t');
            prop_assert!(!controls);
        }

        #[test]
        fn planted_secrets_never_survive(
            plant in 0..PLANTS.len(),
            secret in "[A-Za-z0-9]{20,40}",
            before in "[ -~]{0,60}",
            after in "[ -~]{0,60}",
            filler in 0_usize..70_000,
            max in 0_usize..20_000,
        ) {
            let planted = PLANTS[plant].replace('@', &secret).replace(&format!("{secret}{secret}"), &format!("{secret}@"));
            let text = format!("{}{before}\n{planted}\n{after}", "lorem ".repeat(filler / 6));
            let cleaned = clean(text.as_bytes(), max);
            prop_assert!(!cleaned.contains(&secret[..8]), "{cleaned}");
        }
    }
}
