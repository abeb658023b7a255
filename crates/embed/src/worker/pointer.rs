//! Finding a text in a payload without taking the rest of it apart.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

use super::LimitsError;

/// A JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    written: String,
    steps: Vec<String>,
}

/// What is at a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    Text(Cow<'a, str>),
    NotText,
    Nothing,
}

/// A text that is not copied unless it must be.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Pointer {
    pub(super) fn new(written: String) -> Result<Self, LimitsError> {
        let steps = match written.strip_prefix('/') {
            Some(rest) => rest.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
            None if written.is_empty() => Vec::new(),
            None => return Err(LimitsError(written)),
        };
        Ok(Self { written, steps })
    }

    /// Points to a field of the payload, of a name without special characters.
    pub(super) fn field(name: &str) -> Self {
        Self { written: format!("/{name}"), steps: vec![name.to_owned()] }
    }

    /// Looks into a payload.
    pub(super) fn look<'a>(&self, payload: &'a RawValue) -> Found<'a> {
        let mut here = payload;
        for step in &self.steps {
            let Some(next) = below(here, step) else { return Found::Nothing };
            here = next;
        }
        serde_json::from_str(here.get()).map_or(Found::NotText, |Text(text)| Found::Text(text))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.written.is_empty() { "the payload" } else { &self.written })
    }
}

/// What a list or an object has at a step.
fn below<'a>(value: &'a RawValue, step: &str) -> Option<&'a RawValue> {
    match value.get().as_bytes().first() {
        Some(b'{') => serde_json::Deserializer::from_str(value.get()).deserialize_map(Field(step)).ok()?,
        Some(b'[') if step == "0" || !step.starts_with(['0', '+']) => {
            let list: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
            list.get(step.parse::<usize>().ok()?).copied()
        }
        _ => None,
    }
}

/// Takes the last field of a name, as those do who read all fields.
struct Field<'n>(&'n str);

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Text(name)) = fields.next_key()? {
            if name == self.0 {
                found = Some(fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_find_what_they_point_to() {
        let payload = r#"{"a":[{"b/c":"x","~":"\u00e9"},7],"":"empty","t":1,"t":"last","n":null}"#;
        let payload: Box<RawValue> = serde_json::from_str(payload).unwrap();
        let text = |text: &'static str| Found::Text(text.into());
        for (pointer, expected) in [
            ("/a/0/b~1c", text("x")),
            ("/a/0/~0", text("é")),
            ("/", text("empty")),
            ("/t", text("last")),
            ("", Found::NotText),
            ("/a", Found::NotText),
            ("/n", Found::NotText),
            ("/a/1", Found::NotText),
            ("/a/2", Found::Nothing),
            ("/a/00", Found::Nothing),
            ("/a/+1", Found::Nothing),
            ("/t/x", Found::Nothing),
            ("/x", Found::Nothing),
        ] {
            assert_eq!(Pointer::new(pointer.into()).unwrap().look(&payload), expected, "{pointer}");
        }
    }
}
