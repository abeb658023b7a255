//! Known secrets, kept out of error texts.
//!
//! Redaction recognises secrets by their form. A value that was read from the environment is known by heart, so it
//! is removed whatever it looks like and wherever a service repeats it.

use std::fmt;

use redrive_core::redact;

/// Shorter values are left alone: removing every "1" would make a text unreadable and hide nothing.
const SHORTEST: usize = 4;
/// Shortest word of a value that is removed by itself: the token of `Bearer token`.
const SHORTEST_WORD: usize = 6;
/// More than redaction ever looks at, so that nothing is cut before the known values are removed.
const UNCUT: usize = 1 << 20;

/// Values that must not be seen in a message.
#[derive(Clone, Default)]
pub struct Secrets {
    /// Longest first, so that a value is not broken by the removal of a part of it.
    values: Vec<String>,
}

impl Secrets {
    /// Knows these values, the words they consist of, and how JSON writes them.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut known = Vec::new();
        for value in values {
            let words = value.split_whitespace().filter(|word| word.len() >= SHORTEST_WORD);
            for part in std::iter::once(value.trim()).chain(words) {
                let escaped = serde_json::Value::from(part).to_string();
                known.push(escaped[1..escaped.len() - 1].to_owned());
                known.push(part.to_owned());
            }
        }
        known.retain(|value| value.len() >= SHORTEST);
        known.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        known.dedup();
        Self { values: known }
    }

    /// Turns any bytes into text of at most `max` bytes that shows no secret, neither a known one nor one that looks
    /// like it.
    #[must_use]
    pub fn clean(&self, bytes: &[u8], max: usize) -> String {
        if self.values.is_empty() {
            return redact::clean(bytes, max);
        }
        let mut text = redact::clean(bytes, UNCUT);
        for value in &self.values {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), redact::REDACTED);
            }
        }
        redact::clean(text.as_bytes(), max)
    }
}

/// Shows how many there are, and none of them.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_are_removed_in_every_form() {
        let secrets = Secrets::new(["Bearer canary/\"quoted\"", "plain-canary"]);
        for text in [
            "you sent Bearer canary/\"quoted\"",
            "you sent canary/\"quoted\"",
            r#"{"you sent": "canary/\"quoted\""}"#,
            "xplain-canaryx",
            "plain-\0canary",
        ] {
            let cleaned = secrets.clean(text.as_bytes(), 2_000);
            assert!(!cleaned.contains("canary"), "{cleaned}");
            assert!(cleaned.contains(redact::REDACTED), "{cleaned}");
        }
    }

    #[test]
    fn a_value_at_the_cut_does_not_leak_in_half() {
        let value = "canary".repeat(40);
        let secrets = Secrets::new([value.as_str()]);
        for filler in 0..300 {
            let text = format!("{} {value} {value}", "x ".repeat(filler));
            let cleaned = secrets.clean(text.as_bytes(), 300);
            assert!(!cleaned.contains("can"), "{cleaned}");
        }
    }

    #[test]
    fn short_values_are_left_alone() {
        assert_eq!(Secrets::new(["1", ""]).clean(b"status 1", 100), "status 1");
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", Secrets::new(["canary-value"])), "Secrets(1)");
    }
}
