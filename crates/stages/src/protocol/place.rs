//! Putting an output into a payload, without touching the rest of it.
//!
//! Only the way to the place is taken apart; everything beside it is copied as it was written, so that long numbers
//! and the order of fields survive.

use std::fmt;

use redrive_core::item::Payload;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Makes the content for the next stage: the output itself, or the payload with the output at a JSON pointer.
///
/// Objects are created on the way where there is nothing (or `null`); `-` and the length of a list append to it.
///
/// # Errors
/// Says what is in the way.
pub fn place_output(payload: &[u8], pointer: Option<&str>, output: &RawValue) -> Result<Payload, String> {
    let Some(pointer) = pointer.filter(|pointer| !pointer.is_empty()) else {
        return Ok(super::payload(output));
    };
    let path = parse(pointer)?;
    let whole: &RawValue =
        serde_json::from_slice(payload).map_err(|error| format!("the payload is not JSON ({error})"))?;
    let mut text = String::with_capacity(payload.len() + output.get().len() + pointer.len() + 8);
    set(&mut text, Some(whole), &path, output)
        .map_err(|wrong| format!("the output cannot be put at {pointer}: {wrong}"))?;
    Ok(text.into_bytes().into())
}

/// The steps of a JSON pointer.
pub(super) fn parse(pointer: &str) -> Result<Vec<String>, String> {
    let rest = pointer
        .strip_prefix('/')
        .ok_or_else(|| format!("{pointer:?} is no JSON pointer: it begins with /"))?;
    Ok(rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect())
}

fn set(
    text: &mut String,
    value: Option<&RawValue>,
    path: &[String],
    output: &RawValue,
) -> Result<(), String> {
    let Some((token, rest)) = path.split_first() else {
        text.push_str(output.get());
        return Ok(());
    };
    match value.map_or("null", RawValue::get) {
        "null" => {
            text.push('{');
            push_key(text, token);
            set(text, None, rest, output)?;
            text.push('}');
            Ok(())
        }
        object if object.starts_with('{') => set_member(text, object, token, rest, output),
        list if list.starts_with('[') => set_element(text, list, token, rest, output),
        _ => Err(format!("there is a single value where {token:?} should be")),
    }
}

fn set_member(
    text: &mut String,
    object: &str,
    token: &str,
    rest: &[String],
    output: &RawValue,
) -> Result<(), String> {
    let Members(members) = serde_json::from_str(object).map_err(|error| error.to_string())?;
    let old = members.iter().position(|(key, _)| key == token);
    text.push('{');
    for (at, (key, value)) in members.iter().enumerate() {
        if key == token && Some(at) != old {
            continue;
        }
        push_key(text, key);
        if Some(at) == old {
            set(text, Some(value), rest, output)?
        } else {
            text.push_str(value.get())
        }
        text.push(',');
    }
    if old.is_none() {
        push_key(text, token);
        set(text, None, rest, output)?;
    } else {
        text.pop();
    }
    text.push('}');
    Ok(())
}

fn set_element(
    text: &mut String,
    list: &str,
    token: &str,
    rest: &[String],
    output: &RawValue,
) -> Result<(), String> {
    let mut elements: Vec<Option<&RawValue>> = serde_json::from_str::<Vec<&RawValue>>(list)
        .map_err(|error| error.to_string())?
        .into_iter()
        .map(Some)
        .collect();
    let place = if token == "-" { Some(elements.len()) } else { token.parse().ok() };
    let place = place
        .filter(|place| *place <= elements.len())
        .ok_or_else(|| format!("{token:?} is no place in a list of {}", elements.len()))?;
    if place == elements.len() {
        elements.push(None);
    }
    text.push('[');
    for (at, element) in elements.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        if at == place {
            set(text, element, rest, output)?
        } else {
            text.push_str(element.map_or("null", RawValue::get))
        }
    }
    text.push(']');
    Ok(())
}

fn push_key(text: &mut String, key: &str) {
    text.push_str(&serde_json::Value::from(key).to_string());
    text.push(':');
}

/// The members of an object in their order.
pub(super) struct Members<'a>(pub(super) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// Tells whether a value can be read back by everyone: not nested too deep, no broken escapes, no number beyond range.
pub(super) fn check(raw: &RawValue) -> Result<(), String> {
    serde_json::from_str::<Checked>(raw.get()).map(|_| ()).map_err(|error| error.to_string())
}

/// Any JSON value, read in full and kept nowhere.
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Checked {
    type Value = Self;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }
    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self, A::Error> {
        while seq.next_element::<Self>()?.is_some() {}
        Ok(self)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        while map.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}
