//! One dead item is given other content, and sent back with it.

use std::sync::Arc;

use redrive_core::event::edited_to;
use redrive_core::id::{ItemId, OperationId, Rev, RunId};
use redrive_core::item::StateKind;
use redrive_engine::source::unread_in;
use redrive_store::Content;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::import::sent_back_with;
use super::layout::compact;
use super::{Import, Imported};
use crate::Floor;
use crate::error::{Error, Result};
use crate::items::{self, ItemName};
use crate::work::{Observer, Worked, work_on};

/// Most differences that are told.
const MOST: usize = 100;

/// A dead item whose content is to be edited, as it is now.
#[derive(Debug)]
pub struct Draft {
    /// The item.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// What it is dead of.
    pub message: String,
    /// Its content, as it is written.
    pub content: Box<RawValue>,
    rev: Rev,
    standing: Standing,
}

/// What can be done with the content of a draft.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Standing {
    /// It can be changed.
    Dead,
    /// It is a line that could not be read: what is kept of it is no content, but only what it can be known by.
    Unread {
        /// The file that it is in.
        file: String,
    },
    /// Somebody gave it another content and sent it back.
    SentBack {
        /// What is noted of that content.
        with: Arc<str>,
        /// How the item stands.
        state: StateKind,
    },
}

/// What became of an edit.
#[derive(Debug, Serialize)]
pub struct Edited {
    /// The item.
    pub item: ItemId,
    /// Its run.
    pub run: RunId,
    /// Whether it was sent back.
    pub sent_back: bool,
    /// The operation by which it was.
    pub operation: Option<OperationId>,
    /// What differs, at most a hundred places.
    pub differences: Vec<Difference>,
}

/// A place at which two contents differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Where: a JSON pointer.
    pub pointer: String,
    /// What was there; absent where nothing was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// What is there now; absent where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// Finds a dead item and its content, or one that was sent back with another: who asks for that very content again is told so.
///
/// # Errors
/// When none or several are meant, it is not dead, or its content is not there as it was written.
pub async fn draft(floor: &Floor, name: &ItemName) -> Result<Draft> {
    floor.require_payloads()?;
    let item = items::find(&*floor.store, name).await?;
    let id = item.id;
    let state = item.state.kind();
    let sent_back = match state {
        StateKind::Dead => None,
        _ => Some(sent_back_with(floor, &item).await?.ok_or_else(|| not_dead(id, state))?),
    };
    let content = match floor.store.payload(item.seq).await? {
        Some(Content::Whole(payload)) => String::from_utf8(payload.to_vec()).ok(),
        Some(Content::Damaged(_)) | None => None,
    };
    let content = content.and_then(|text| RawValue::from_string(text).ok()).ok_or_else(|| {
        if sent_back.is_some() {
            return not_dead(id, state);
        }
        Error::refused(format!("the content of item {id} is damaged, or not kept any more"))
            .hint("`redrive dead import FILE` can give it another one")
    })?;
    let unread = item.is_refused().then(|| unread_in(content.get())).flatten();
    let standing = match (sent_back, unread) {
        (Some(with), _) => Standing::SentBack { with, state },
        (None, Some(file)) => Standing::Unread { file },
        (None, None) => Standing::Dead,
    };
    let message = item.last.as_ref().map(|last| last.message.to_string()).unwrap_or_default();
    Ok(Draft { id, key: item.key.to_string(), run: item.run, message, content, rev: item.rev, standing })
}

fn not_dead(id: ItemId, state: StateKind) -> Error {
    Error::refused(format!("item {id} is {state}, not dead"))
        .hint("only what is dead can be given other content; `redrive kill ITEM` gives an item up")
}

impl Draft {
    /// Refuses to change a part of what is no content: of a line that could not be read only the whole can be given.
    ///
    /// # Errors
    /// When it is such a line.
    pub fn has_parts(&self) -> Result<()> {
        let Standing::Unread { file } = &self.standing else { return Ok(()) };
        let (id, message) = (self.id, &self.message);
        Err(Error::refused(format!("item {id} is a line that could not be read, so there is no content of it to edit: {message}"))
            .hint(format!(
                "mend it in {file} and run again; `redrive dead edit {id} --file FILE` gives it a whole new content instead"
            )))
    }

    /// Refuses what is not dead, unless it was sent back with this very content.
    ///
    /// # Errors
    /// When it was sent back otherwise.
    pub fn takes(&self, content: Option<&RawValue>) -> Result<()> {
        let Standing::SentBack { with, state } = &self.standing else { return Ok(()) };
        let same = |content: &RawValue| **with == *edited_to(compact(content.get()).as_bytes());
        if content.is_some_and(same) { Ok(()) } else { Err(not_dead(self.id, *state)) }
    }

    /// What a new content changes; nothing where only its form differs.
    #[must_use]
    pub fn differences(&self, content: &RawValue) -> Vec<Difference> {
        if compact(self.content.get()) == compact(content.get()) {
            return Vec::new();
        }
        let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        if matches!(self.standing, Standing::Unread { .. }) {
            return vec![Difference {
                pointer: String::new(),
                before: None,
                after: Some(read(content.get())),
            }];
        }
        let mut found = Vec::new();
        compare("", &read(self.content.get()), &read(content.get()), &mut found);
        if found.is_empty() {
            // The order of fields, or how a number is written.
            let (before, after) = (Some(read(self.content.get())), Some(read(content.get())));
            found.push(Difference { pointer: String::new(), before, after });
        }
        found
    }

    /// Sends the item back with new content; nothing is done where that is the old one.
    ///
    /// # Errors
    /// When the item is not as it was when the draft was made, or the store fails.
    pub async fn send_back(&self, floor: &Floor, content: &RawValue) -> Result<Edited> {
        let mut edited = Edited {
            item: self.id,
            run: self.run,
            sent_back: false,
            operation: None,
            differences: Vec::new(),
        };
        self.takes(Some(content))?;
        if matches!(self.standing, Standing::SentBack { .. }) {
            return Ok(Edited { sent_back: true, ..edited });
        }
        edited.differences = self.differences(content);
        if edited.differences.is_empty() {
            return Ok(edited);
        }
        let content = RawValue::from_string(compact(content.get()))
            .map_err(|error| Error::wrong(format!("the new content is not JSON: {error}")))?;
        let mut import = Import::of(floor, &format!("an edit of item {}", self.id));
        let imported = import.item(self.id, &content, Some(self.rev)).await;
        edited.operation = import.finish().await?;
        match imported? {
            Imported::SentBack | Imported::SentBackBefore => Ok(Edited { sent_back: true, ..edited }),
            Imported::LeftAlone { why } => Err(Error::refused(why)),
        }
    }

    /// The line that `dead import` reads to send the item back with this content.
    #[must_use]
    pub fn line(&self, content: &RawValue) -> String {
        format!("{{\"item\":{{\"id\":\"{}\",\"payload\":{}}}}}", self.id, compact(content.get()))
    }
}

/// Works on the run of an item that was sent back.
///
/// # Errors
/// When the run is paused, or the store fails.
pub async fn work_after(floor: &Floor, edited: &Edited, observer: &dyn Observer) -> Result<Worked> {
    work_on(floor, edited.run, observer).await
}

fn compare(at: &str, before: &Value, after: &Value, found: &mut Vec<Difference>) {
    if before == after || found.len() >= MOST {
        return;
    }
    let below = |name: &str| format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            for (name, before) in old {
                match new.get(name) {
                    Some(after) => compare(&below(name), before, after, found),
                    None => {
                        let before = Some(before.clone());
                        found.push(Difference { pointer: below(name), before, after: None });
                    }
                }
            }
            for (name, after) in new.iter().filter(|(name, _)| !old.contains_key(*name)) {
                found.push(Difference { pointer: below(name), before: None, after: Some(after.clone()) });
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (n, (before, after)) in old.iter().zip(new).enumerate() {
                compare(&below(&n.to_string()), before, after, found);
            }
        }
        _ => {
            let (before, after) = (Some(before.clone()), Some(after.clone()));
            found.push(Difference { pointer: at.to_owned(), before, after });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn draft(content: &str) -> Draft {
        Draft {
            id: ItemId([7; 16]),
            key: "k".to_owned(),
            run: RunId(1),
            message: String::new(),
            content: raw(content),
            rev: Rev(1),
            standing: Standing::Dead,
        }
    }

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn differences_are_told_by_their_place() {
        let draft = draft("{\"a\":{\"b/c\":1,\"gone\":true},\"l\":[1,2]}");
        let after = raw("{\"a\":{\"b/c\":2},\"l\":[1,3],\"new\":null}");
        let places: Vec<(String, Option<Value>, Option<Value>)> = draft
            .differences(&after)
            .into_iter()
            .map(|found| (found.pointer, found.before, found.after))
            .collect();
        let expected = [
            ("/a/b~1c", Some(json!(1)), Some(json!(2))),
            ("/a/gone", Some(json!(true)), None),
            ("/l/1", Some(json!(2)), Some(json!(3))),
            ("/new", None, Some(json!(null))),
        ];
        assert_eq!(places, expected.map(|(place, before, after)| (place.to_owned(), before, after)));
    }

    #[test]
    fn another_form_of_the_same_content_is_no_difference() {
        let draft = draft("{\"a\":1,\"b\":2}");
        assert!(draft.differences(&raw("{ \"a\" : 1,\n \"b\":2 }")).is_empty());
        assert_eq!(draft.differences(&raw("{\"b\":2,\"a\":1}")).len(), 1, "the order of fields is content");
    }
}
