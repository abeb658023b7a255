//! Finding a value in a payload, as it was written.

use serde_json::value::RawValue;

use super::place::{self, Members};

/// The value at a JSON pointer; `None` when there is nothing.
///
/// # Errors
/// Says why the payload or the pointer cannot be read.
pub(crate) fn look_up<'a>(payload: &'a [u8], pointer: &str) -> Result<Option<&'a RawValue>, String> {
    let mut value: &RawValue =
        serde_json::from_slice(payload).map_err(|error| format!("the payload is not JSON ({error})"))?;
    if pointer.is_empty() {
        return Ok(Some(value));
    }
    for step in place::parse(pointer)? {
        let below = match value.get().as_bytes().first() {
            // Of a key that is there twice the last one counts, as everywhere.
            Some(b'{') => {
                serde_json::from_str::<Members<'a>>(value.get()).ok().and_then(|Members(members)| {
                    members.into_iter().rev().find(|(key, _)| *key == step).map(|(_, value)| value)
                })
            }
            Some(b'[') => serde_json::from_str::<Vec<&'a RawValue>>(value.get())
                .ok()
                .and_then(|list| list.get(place_in_list(&step)?).copied()),
            _ => None,
        };
        let Some(below) = below else { return Ok(None) };
        value = below;
    }
    Ok(Some(value))
}

fn place_in_list(step: &str) -> Option<usize> {
    if step.len() > 1 && step.starts_with('0') { None } else { step.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_as_it_was_written() {
        let payload = br#"{"a":{"b/c":[1,{"~":123456789012345678901234567890}]},"t":"x","t":"y","n":null}"#;
        let table = [
            ("/a/b~1c/1/~0", Some("123456789012345678901234567890")),
            ("/a/b~1c/0", Some("1")),
            ("/t", Some("\"y\"")),
            ("/n", Some("null")),
            ("/n/x", None),
            ("/t/x", None),
            ("/a/b~1c/2", None),
            ("/a/b~1c/00", None),
            ("/a/b~1c/-", None),
            ("/missing", None),
        ];
        for (pointer, expected) in table {
            let found = look_up(payload, pointer).unwrap().map(RawValue::get);
            assert_eq!(found, expected, "{pointer}");
        }
        assert_eq!(look_up(b" [] ", "").unwrap().map(RawValue::get), Some("[]"));
        assert!(look_up(b"{", "/a").unwrap_err().contains("not JSON"));
        assert!(look_up(b"{}", "a").unwrap_err().contains("no JSON pointer"));
    }
}
