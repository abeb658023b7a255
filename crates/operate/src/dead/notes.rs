//! Groups of dead items are tickets: somebody writes down what is known, and that it is looked after.

use redrive_engine::admin::Act;
use redrive_store::GroupNote;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::{Floor, Role};

/// Most characters of a note.
const LONGEST: usize = 2_000;

/// What is written about a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Note {
    /// The words; `None`: those that were written before stay.
    pub words: Option<String>,
    /// Whether it is known and looked after; `None`: what was said before stays.
    pub acknowledged: Option<bool>,
}

/// What is known about a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Noted {
    /// The group.
    pub group: String,
    /// The words; empty where nobody wrote any.
    pub note: String,
    /// When somebody said that it is looked after; `null` when nobody did.
    pub acknowledged_at: Option<String>,
    /// Who wrote last; empty where that is not known.
    pub by: String,
}

/// Writes down what is known about a group of dead items.
///
/// # Errors
/// When there is no such group, the words are too many, or the store fails.
pub async fn note(floor: &Floor, group: &str, note: Note) -> Result<Noted> {
    floor.require(Role::Operator)?;
    if note.words.as_ref().is_some_and(|words| words.chars().count() > LONGEST) {
        return Err(Error::wrong(format!("a note has at most {LONGEST} characters")));
    }
    let known = floor.store.group_notes().await?.into_iter().find(|known| known.group == group);
    if known.is_none() {
        super::selection::refuse_no_such_group(floor, group).await?;
    }
    let (words, acknowledged) = (note.words.as_ref().map(|words| words.trim().to_owned()), note.acknowledged);
    floor.write_down(Act::NoteGroup { group: group.to_owned(), words, acknowledged }).await?;
    let now = floor.now();
    let before = known.unwrap_or_else(|| GroupNote {
        group: group.to_owned(),
        note: String::new(),
        acknowledged_at: None,
        actor: String::new(),
        updated_at: now,
    });
    let written = GroupNote {
        note: note.words.map_or(before.note, |words| words.trim().to_owned()),
        acknowledged_at: match note.acknowledged {
            Some(true) => Some(now),
            Some(false) => None,
            None => before.acknowledged_at,
        },
        actor: floor.asker.name.clone(),
        updated_at: now,
        group: before.group,
    };
    floor.store.save_group_note(written.clone()).await?;
    Ok(Noted {
        group: written.group,
        note: written.note,
        acknowledged_at: written.acknowledged_at.map(|at| at.to_string()),
        by: written.actor,
    })
}
