//! Known secrets, kept out of error texts.
//!
//! Redaction recognises secrets by their form. A value that was read from the environment is known by heart, so it
//! is removed whatever it looks like, wherever a service repeats it, and however it spells it: see `spelling`.
//!
//! What is cleaned is the message as it will be kept, after everything that takes an answer apart: parsing undoes escapes,
//! and a text that was clean before it need not be clean after it.

mod spelling;
mod unseen;

use std::fmt;

use redrive_core::redact;

use spelling::Needle;

/// How often addresses within addresses are looked into.
const DEEPEST: usize = 3;
/// Shorter values are left alone: removing every "1" would make a text unreadable and hide nothing.
const SHORTEST: usize = 4;
/// Shortest word of a value that is removed by itself: the token of `Bearer token`.
const SHORTEST_WORD: usize = 6;

/// Values that must not be seen in a message.
#[derive(Clone, Default)]
pub struct Secrets {
    values: usize,
    needles: Vec<Needle>,
}

impl Secrets {
    /// Knows these values and the words they consist of.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known: Vec<&str> = Vec::new();
        for value in values {
            let words = value.split_whitespace().filter(|word| word.len() >= SHORTEST_WORD);
            known.extend(std::iter::once(value.trim()).chain(words));
        }
        known.retain(|value| value.len() >= SHORTEST);
        known.sort_unstable();
        known.dedup();
        let needles = known.iter().flat_map(|value| spelling::needles(value)).collect();
        Self { values: known.len(), needles }
    }

    /// Turns any bytes into text of at most `max` bytes that shows no secret, neither a known one nor one that looks
    /// like it.
    #[must_use]
    pub fn clean(&self, bytes: &[u8], max: usize) -> String {
        let edge = self.needles.iter().map(Needle::longest).max().unwrap_or(0);
        redact::clean_hiding(bytes, max, edge, |text| self.hide_deep(self.hide(text)))
    }

    /// The same for what is spelled within an address: escapes of another kind inside percent signs. A text with such a
    /// value is shown without the percent signs.
    fn hide_deep(&self, text: String) -> String {
        let mut inner = text.clone();
        for _ in 0..DEEPEST {
            let Some(decoded) = without_percent(&inner) else { return text };
            let hidden = self.hide(decoded.clone());
            if hidden != decoded {
                return self.hide_deep(hidden);
            }
            inner = decoded;
        }
        text
    }

    /// Puts a mark in the place of every known value.
    fn hide(&self, text: String) -> String {
        if self.needles.is_empty() {
            return text;
        }
        let bytes = text.as_bytes();
        let (mut shown, mut from, mut at) = (String::new(), 0, 0);
        while at < bytes.len() {
            let ends = |needle: &Needle| Some((needle.ends(bytes, at)?, needle.takes_its_word()));
            let Some((mut end, word)) = self.needles.iter().filter_map(ends).max() else {
                at += 1;
                continue;
            };
            shown.push_str(text.get(from..at).unwrap_or_default());
            if word {
                let kept = shown
                    .trim_end_matches(|letter: char| u8::try_from(letter).is_ok_and(spelling::is_base64));
                shown.truncate(kept.len());
                end += bytes[end..].iter().take_while(|byte| spelling::is_base64(**byte)).count();
            }
            shown.push_str(redact::REDACTED);
            (from, at) = (end, end);
        }
        shown.push_str(text.get(from..).unwrap_or_default());
        shown
    }
}

/// The text with every `%41` as the letter that it stands for; `None` when there is none.
fn without_percent(text: &str) -> Option<String> {
    let (mut plain, mut rest, mut any) = (Vec::new(), text.as_bytes(), false);
    while let Some((first, after)) = rest.split_first() {
        let digits =
            after.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let byte = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        any |= byte.is_some();
        plain.push(byte.unwrap_or(*first));
        rest = &after[if byte.is_some() { 2 } else { 0 }..];
    }
    any.then(|| String::from_utf8_lossy(&plain).into_owned())
}

/// Shows how many there are, and none of them.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values)
    }
}

#[cfg(test)]
#[path = "secrets/tests.rs"]
mod tests;
