//! What is left to tell of an item that was purged.

use redrive_core::id::{ItemId, OperationId, RunId};
use redrive_core::item::StateKind;
use redrive_core::plan::Plan;
use redrive_store::{Result, Store, Tombstone, TombstoneQuery};
use serde::Serialize;

use super::explain::{AttemptView, MarkView, stage_name};

/// A purged item, as `explain --json` prints it: the fields of a living one, as far as they are left.
#[derive(Debug, Serialize)]
pub struct Epitaph {
    /// The item.
    pub item: PurgedItem,
    /// Its attempts went with it.
    pub attempts: Vec<AttemptView>,
    /// What happened to it last.
    pub marks: Vec<MarkView>,
    /// What became of it.
    pub now: String,
}

/// What is left of a purged item.
#[derive(Debug, Clone, Serialize)]
pub struct PurgedItem {
    /// Its id.
    pub id: ItemId,
    /// Its key.
    pub key: String,
    /// Its run.
    pub run: RunId,
    /// The stage it stood at, where that is known.
    pub stage: Option<String>,
    /// `purged`.
    pub state: &'static str,
    /// The state it was in.
    pub was: StateKind,
    /// Why it was dead.
    pub reason: Option<&'static str>,
    /// Class of its last failure.
    pub class: Option<&'static str>,
    /// When it was purged.
    pub purged_at: String,
    /// By which operation.
    pub operation: OperationId,
    /// Who asked for that.
    pub by: Option<String>,
}

/// Finds what is left of purged items by id, by the beginning of an id, or by key.
///
/// # Errors
/// When the store fails.
pub async fn find_tombstones(
    store: &dyn Store,
    name: &str,
    run: Option<RunId>,
    limit: usize,
) -> Result<Vec<Tombstone>> {
    let all = TombstoneQuery { run, limit, ..TombstoneQuery::default() };
    if let Some(ids) = ItemId::with_prefix(name).filter(|_| name.len() >= 4) {
        let found = store.tombstones(TombstoneQuery { ids: Some(ids), ..all.clone() }).await?;
        if !found.is_empty() {
            return Ok(found);
        }
    }
    store.tombstones(TombstoneQuery { key: Some(name.to_owned()), ..all }).await
}

/// Tells what is left of a purged item. `plan` is its pipeline, where that can still be read.
#[must_use]
pub fn epitaph(tombstone: &Tombstone, plan: Option<&Plan>) -> Epitaph {
    let Tombstone { id, run, key, was, at, operation, actor, .. } = tombstone;
    let dead = was.and_then(|was| was.dead);
    let stage = was.map(|was| match plan {
        Some(plan) => stage_name(plan, was.stage),
        None => format!("#{}", was.stage.0),
    });
    let item = PurgedItem {
        id: *id,
        key: key.to_string(),
        run: *run,
        stage,
        state: "purged",
        was: was.map_or(StateKind::Dead, |was| was.kind),
        reason: dead.map(|dead| dead.reason.name()),
        class: dead.and_then(|dead| dead.class).map(|class| class.name()),
        purged_at: at.to_string(),
        operation: *operation,
        by: actor.clone(),
    };
    let known = actor.as_ref().filter(|actor| !actor.is_empty());
    let by = known.map(|actor| format!(" by {actor}")).unwrap_or_default();
    let detail = format!("it was {}; purged{by} ({operation})", item.was);
    let marks = vec![MarkView { at: at.to_string(), what: "purged".to_owned(), detail }];
    let reason = item.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let place = item.stage.as_ref().map(|stage| format!(" at {stage}")).unwrap_or_default();
    let now = format!(
        "It was {}{reason}{place}, and was purged at {at}{by} ({operation}): its content and history are gone. \
         A source that still has it is not read as new; `redrive run … --new` works on it again.",
        item.was
    );
    Epitaph { item, attempts: Vec::new(), marks, now }
}
