//! Whole numbers of requests.
//!
//! To JSON, and to the schemas that describe requests, `2.0` and `2e0` are the integer 2, and some programs write it so.
//! Numbers with a fraction, and those that no float tells apart, are refused.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserializer, Error, Unexpected, Visitor};

/// Beyond this a float stands for several integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads a whole number, however it is written.
///
/// # Errors
/// When it is none, or too large or too small.
pub fn number<'de, D: Deserializer<'de>, T: TryFrom<i128>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_any(Whole(PhantomData))
}

/// The same, where there may be none.
///
/// # Errors
/// When it is none, or too large or too small.
pub fn optional<'de, D: Deserializer<'de>, T: TryFrom<i128>>(deserializer: D) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_option(Maybe(PhantomData))
}

struct Whole<T>(PhantomData<T>);

impl<T: TryFrom<i128>> Visitor<'_> for Whole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number ({})", std::any::type_name::<T>())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        T::try_from(value.into()).map_err(|_| E::invalid_value(Unexpected::Unsigned(value), &self))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        T::try_from(value.into()).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        let exact = value.fract() == 0.0 && value.abs() <= EXACT;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and below 2^53")]
        let whole = exact.then_some(value as i128);
        let whole = whole.and_then(|whole| T::try_from(whole).ok());
        whole.ok_or_else(|| E::invalid_value(Unexpected::Float(value), &self))
    }
}

struct Maybe<T>(PhantomData<T>);

impl<'de, T: TryFrom<i128>> Visitor<'de> for Maybe<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number ({}) or null", std::any::type_name::<T>())
    }

    fn visit_none<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<T>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        number(deserializer).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    struct Asked {
        #[serde(deserialize_with = "number")]
        items: u16,
        #[serde(default, deserialize_with = "optional")]
        priority: Option<i32>,
    }

    fn read(items: &str, priority: &str) -> Result<Asked, String> {
        let text = format!("{{\"items\": {items}, \"priority\": {priority}}}");
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_whole_number_is_taken_however_it_is_written() {
        for written in ["2", "2.0", "2e0", "0.2e1", "20.00e-1"] {
            assert_eq!(read(written, "-0.0"), Ok(Asked { items: 2, priority: Some(0) }), "{written}");
        }
        assert_eq!(read("65535.0", "-7.0"), Ok(Asked { items: 65_535, priority: Some(-7) }));
        assert_eq!(read("0", "null"), Ok(Asked { items: 0, priority: None }));
        assert_eq!(serde_json::from_str(r#"{"items": 1}"#).ok(), Some(Asked { items: 1, priority: None }));
    }

    #[test]
    fn what_is_no_whole_number_or_does_not_fit_is_refused() {
        for written in
            ["2.5", "65536", "65536.0", "-1", "-1.0", "1e300", "18446744073709551616", "\"2\"", "null", "[2]"]
        {
            let told = read(written, "null").expect_err(written);
            assert!(told.contains("a whole number (u16)"), "{written}: {told}");
        }
        assert!(read("1", "2147483648.0").is_err() && read("1", "0.5").is_err());
    }
}
