//! Items are handed to a standing run, which stays open until somebody closes it.
//!
//! A standing run reads no source: what it is handed is known by its key, and the newest version of a key is the one that
//! holds. The rules are those of an edited line ([`submit`]); only that nothing is ever seen twice by one reading, because
//! there is none ([`Reading::NONE`]).

use redrive_core::id::{RunId, StageNo};
use redrive_core::item::NewItem;
use redrive_core::reading::Reading;
use redrive_core::time::Timestamp;
use redrive_store::{Cursor, Error, RunChange, RunRow, Store, Submit};

use super::{Batch, KnownKeys, PATIENCE, Settled, submit};
use crate::crash;
use crate::env::Env;
use crate::patience::Patience;
use crate::recipe::Recipe;

/// What a standing run keeps where others keep how far their source is read.
const OPEN: &str = "open";
const CLOSED: &str = "closed";

/// Hands items to a standing run. No key may be among them twice with different content. What it answers is durable;
/// handing in the same again admits nothing twice.
///
/// # Errors
/// When the store fails and stays so, or the run was cancelled.
pub async fn hand_in(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    run: RunId,
    items: &[NewItem],
    known_keys: KnownKeys,
) -> Result<Settled, Error> {
    let mut patience = Patience::default();
    crash::point("inbox.before_submit");
    loop {
        let cursor = Cursor { position: OPEN.to_owned(), done: false, duplicates: 0 };
        let batch = Batch { run, reading: Reading::NONE, items: items.to_vec(), cursor, known_keys };
        match submit(store, recipe, env, batch).await {
            Ok(settled) => {
                crash::point("inbox.after_submit");
                return Ok(settled);
            }
            // Who hands something in can do so again, and may be a client that waits for an answer.
            Err(error @ Error::Full(_)) => return Err(error),
            Err(error) => patience.bear(error, PATIENCE, env).await?,
        }
    }
}

/// Closes a standing run: it takes nothing more, and is finished once its items have ended. Doing it again is harmless.
///
/// # Errors
/// When the store fails, or the run was cancelled.
pub async fn close(store: &dyn Store, run: RunId, now: Timestamp) -> Result<RunRow, Error> {
    let submission = Submit {
        run,
        stage: StageNo(0),
        reading: Reading::NONE,
        items: Vec::new(),
        deadline: None,
        new_versions: false,
        changes: Vec::new(),
        cursor: Some(Cursor { position: CLOSED.to_owned(), done: true, duplicates: 0 }),
        now,
    };
    store.submit(submission).await?;
    crash::point("inbox.closed");
    let row = store.run(run).await?.ok_or_else(|| Error::NotFound(format!("run {run}")))?;
    if row.finished_at.is_some() {
        return Ok(row);
    }
    // Where something is left to do this changes nothing, and whoever does it says when the run is finished.
    store.change_run(run, RunChange::finished(now)).await
}
