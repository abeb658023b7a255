//! Items as they are handed in.

use std::sync::Arc;

use redrive_core::item::NewItem;
use redrive_engine::source::{document, key_of};
use redrive_pipeline::title;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// An item that is handed in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Given {
    /// Its key; `None`: what the pipeline's `key` points at, or the hash of its content.
    pub key: Option<String>,
    /// Its content: the text of one JSON document.
    pub payload: String,
    /// Its category; `None`: the one that was asked for, or the pipeline's.
    pub category: Option<String>,
}

/// An item with what is said about it, as one JSON document.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(default)]
    key: Option<Value>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(default)]
    category: Option<String>,
}

impl Given {
    /// Reads `{"key": …, "payload": …, "category": …}`; only `payload` has to be there.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence that begins with what it is called.
    pub fn from_envelope(text: &[u8]) -> Result<Self, String> {
        const FORM: &str = "is no envelope {\"key\", \"payload\", \"category\"}";
        // By serde's rules a list would do for an object.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Err(format!("{FORM}: it is no object"));
        }
        let wrong = |error: serde_json::Error| {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or(&text);
            format!("{FORM}: {text}")
        };
        let Envelope { key, payload, category } = serde_json::from_slice(text).map_err(wrong)?;
        let key = key.filter(|key| !key.is_null()).map(|key| key_of(&key));
        let key = key.transpose().map_err(|why| format!("has a key at /key that is {why}"))?;
        Ok(Self { key, payload: payload.get().to_owned(), category })
    }

    /// The item that it is, by the pipeline's `key`.
    pub(super) fn sighted(&self, line: u64, pointer: Option<&str>) -> Sighted {
        let Self { key, payload, category } = self;
        let pointer = pointer.filter(|_| key.is_none());
        let item = document(payload.as_bytes(), line, pointer).map(|item| match key {
            Some(key) => NewItem { key: Arc::from(key.as_str()), ..item },
            None => item,
        });
        Sighted { line, key: key.clone(), category: category.clone(), item }.checked()
    }
}

/// An item that was looked at.
pub(super) struct Sighted {
    pub(super) line: u64,
    /// Its key, as far as it is known of one that cannot be used.
    pub(super) key: Option<String>,
    /// Its own category.
    pub(super) category: Option<String>,
    /// What it is; or why it cannot be used.
    pub(super) item: Result<NewItem, String>,
}

impl Sighted {
    /// One that cannot be used.
    pub(super) fn refused(line: u64, why: String) -> Self {
        Self { line, key: None, category: None, item: Err(why) }
    }

    fn checked(self) -> Self {
        match self.category.as_deref().map(title) {
            Some(Err(why)) => {
                Self { item: Err(format!("has a category that cannot be used: {why}")), ..self }
            }
            Some(Ok(_)) | None => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_says_what_is_known_of_an_item() {
        let given = Given::from_envelope(br#"{"key":7,"payload":{"b": 1},"category":"x"}"#).expect("valid");
        let expected = Given {
            key: Some("7".to_owned()),
            payload: "{\"b\": 1}".to_owned(),
            category: Some("x".to_owned()),
        };
        assert_eq!(given, expected);
        let bare = Given::from_envelope(b"{\"payload\":null}").expect("valid");
        assert_eq!((bare.key, bare.payload.as_str()), (None, "null"));
        for (text, why) in [
            ("{\"key\":\"a\"}", "missing field `payload`"),
            ("{\"payload\":1,\"kye\":2}", "unknown field `kye`"),
            ("{\"payload\":1,\"key\":[]}", "has a key at /key that is no string, number or boolean"),
            ("{\"payload\":1,\"key\":20261117000000000001}", "write it as a string"),
            ("{\"payload\":1,\"key\":1.5}", "has a key at /key that is no whole number of 64 bits"),
            (
                "[\"z\",{\"q\":1},\"catz\"]",
                "is no envelope {\"key\", \"payload\", \"category\"}: it is no object",
            ),
        ] {
            let told = Given::from_envelope(text.as_bytes()).expect_err(text);
            assert!(told.contains(why), "{text}: {told}");
        }
    }

    #[test]
    fn a_key_that_is_given_goes_before_the_one_in_the_content() {
        let given = Given { key: Some("k".to_owned()), payload: "{}".to_owned(), category: None };
        assert_eq!(&*given.sighted(1, Some("/id")).item.expect("usable").key, "k");
        let bare = Given { key: None, ..given };
        let why = bare.sighted(1, Some("/id")).item.expect_err("no key");
        assert_eq!(why, "has no string, number or boolean at /id for its key");
        let odd = Given { category: Some("a b".to_owned()), ..bare };
        let why = odd.sighted(1, None).item.expect_err("no category");
        assert!(why.starts_with("has a category that cannot be used: \"a b\" is no name"), "{why}");
    }
}
