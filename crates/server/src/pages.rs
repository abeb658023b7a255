//! Pages of lists: `{"items": […], "next": "cursor or null"}`, and cursors that say nothing to whoever has one.
//!
//! A cursor is what the floor goes on after, with the version of this writing and the list it is of before it, in hexadecimal. So
//! one of another list, or of a version that wrote it otherwise, is refused and not taken for something else.

use redrive_operate::{Error, Result};
use serde::Serialize;

use crate::route::{Kind, Param, param};

/// The parameter of every list that has pages.
pub const AFTER: Param = param("after", Kind::Text, "goes on after this, from `next` of the page before");

/// How cursors are written.
const VERSION: u8 = 1;
/// Bytes that stand for the list.
const LIST: usize = 4;

/// A page of a list.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one goes on; `null` when this is the last.
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// A list that has one page.
    pub fn only(items: Vec<T>) -> Self {
        Self { items, next: None }
    }
}

/// A cursor of a list, by the path of its route.
pub fn sealed(path: &str, place: &str) -> String {
    let bytes = [VERSION].into_iter().chain(list(path)).chain(place.bytes());
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// What a cursor of a list goes on after.
///
/// # Errors
/// When it is none of this list.
pub fn opened(path: &str, cursor: &str) -> Result<String> {
    let pair = |at: usize| cursor.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..cursor.len()).step_by(2).map(pair).collect();
    let bytes = bytes.ok_or_else(no_cursor)?;
    let place = match bytes.split_first() {
        Some((&VERSION, rest)) => rest.strip_prefix(&list(path)[..]),
        _ => None,
    };
    place.and_then(|place| String::from_utf8(place.to_vec()).ok()).ok_or_else(no_cursor)
}

/// What is told of something that is no cursor.
pub fn no_cursor() -> Error {
    Error::wrong("`after` is no cursor of this list").hint("take `next` of the page before, as it is")
}

fn list(path: &str) -> [u8; LIST] {
    let mut named = [0; LIST];
    named.copy_from_slice(&blake3::hash(path.as_bytes()).as_bytes()[..LIST]);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_taken_by_its_own_list_only_and_only_as_it_was_given() {
        let cursor = sealed("/v1/dead", "1700000000000.42.é");
        assert_eq!(opened("/v1/dead", &cursor).expect("opened"), "1700000000000.42.é");
        assert!(!cursor.contains("42") || !cursor.contains('.'), "it is not to be read: {cursor}");
        let newer = format!("02{}", &cursor[2..]);
        for (path, wrong) in [
            ("/v1/runs", cursor.as_str()),
            ("/v1/dead", "r12"),
            ("/v1/dead", "1700000000000.42"),
            ("/v1/dead", ""),
            ("/v1/dead", "é"),
            ("/v1/dead", &cursor[..cursor.len() - 1]),
            ("/v1/dead", &newer),
        ] {
            let told = opened(path, wrong).expect_err(wrong);
            assert!(told.message.contains("no cursor of this list") && told.hint.is_some(), "{wrong}");
        }
    }
}
