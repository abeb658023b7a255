//! In whose headers answers tell what is left of the limits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// In whose headers answers tell what is left of the limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Told {
    /// They do not.
    #[default]
    No,
    /// `x-ratelimit-limit-requests` and so on; a reset is the time until all of it is there.
    OpenAi,
    /// `anthropic-ratelimit-*`, with moments as RFC 3339.
    Anthropic,
    /// Only what is left.
    Azure,
    /// What is left and the limit, of a minute.
    Mistral,
    /// As OpenAI, but the calls are those of a day.
    Groq,
    /// `x-ratelimit-*` with seconds since 1970.
    GitHub,
    /// `RateLimit` and `RateLimit-Policy` of the IETF's draft.
    Ietf,
    /// `RateLimit-Limit`, `-Remaining` and `-Reset` of its older versions.
    IetfOld,
}

const NAMES: [(&str, Told); 8] = [
    ("openai", Told::OpenAi),
    ("anthropic", Told::Anthropic),
    ("azure", Told::Azure),
    ("mistral", Told::Mistral),
    ("groq", Told::Groq),
    ("github", Told::GitHub),
    ("ietf", Told::Ietf),
    ("ietf-old", Told::IetfOld),
];

impl Told {
    /// Whose they are, as it is written in a plan.
    pub(crate) fn name(self) -> Option<&'static str> {
        NAMES.into_iter().find(|(_, told)| *told == self).map(|(name, _)| name)
    }
}

struct Word;

impl Visitor<'_> for Word {
    type Value = Told;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("true, false, or whose headers: ")?;
        f.write_str(&NAMES.map(|(name, _)| format!("\"{name}\"")).join(", "))
    }

    fn visit_bool<E: Error>(self, told: bool) -> Result<Told, E> {
        Ok(if told { Told::OpenAi } else { Told::No })
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Told, E> {
        let found = NAMES.into_iter().find(|(name, _)| *name == word).map(|(_, told)| told);
        found.ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(word), &self))
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Word)
    }
}
