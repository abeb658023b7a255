//! A payload as an expression sees it, read from its JSON at once: what is made in between would be half of the memory.

use std::collections::HashMap;
use std::fmt;

use cel::common::types::{
    CelBool, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelNull, CelString, CelUInt,
};
use cel::common::value::Val;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Reads a payload. Whole numbers are `int`, so that they can be reckoned with literals.
pub(super) fn read(json: &[u8]) -> serde_json::Result<Box<dyn Val>> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = Seen.deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

#[derive(Clone, Copy)]
struct Seen;

impl<'de> DeserializeSeed<'de> for Seen {
    type Value = Box<dyn Val>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seen {
    type Value = Box<dyn Val>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Box::new(CelNull))
    }

    fn visit_bool<E>(self, bool: bool) -> Result<Self::Value, E> {
        Ok(Box::new(CelBool::from(bool)))
    }

    fn visit_i64<E>(self, int: i64) -> Result<Self::Value, E> {
        Ok(Box::new(CelInt::from(int)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(match i64::try_from(number) {
            Ok(int) => Box::new(CelInt::from(int)),
            Err(_) => Box::new(CelUInt::from(number)),
        })
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Box::new(CelDouble::from(number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Box::new(CelString::from(text.to_owned())))
    }

    fn visit_string<E>(self, text: String) -> Result<Self::Value, E> {
        Ok(Box::new(CelString::from(text)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(value) = from.next_element_seed(Seen)? {
            list.push(value);
        }
        Ok(Box::new(CelList::from(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut map: HashMap<CelMapKey<'static>, Box<dyn Val>> = HashMap::new();
        while let Some(key) = from.next_key::<String>()? {
            map.insert(CelMapKey::from(key), from.next_value_seed(Seen)?);
        }
        Ok(Box::new(CelMap::from(map)))
    }
}
