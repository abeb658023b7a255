//! Dead items are sent back with the content that somebody gave them, and who did it is kept.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::RunId;
use redrive_core::item::{Item, Payload};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Change, Commit, Operation, Result, RunChange, Store};

use super::redrive::send_edited;
use super::{Done, Request, close, open};
use crate::crash;
use crate::env::Env;

/// An import that is under way.
pub struct Import(Operation);

impl Import {
    /// Begins an import; `from` says where the content came from.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(store: &dyn Store, from: &str, actor: &str, now: Timestamp) -> Result<Self> {
        let request = Request::Import { from: from.to_owned() };
        Ok(Self(open(store, &request, actor, now).await?))
    }

    /// Sends one dead item back with new content. `false` when it is not dead, cannot live again, or has changed.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn send_back(
        &mut self,
        store: &dyn Store,
        plan: &Plan,
        item: &Item,
        payload: Payload,
        env: &Env,
    ) -> Result<bool> {
        let progress =
            Operation { changed: self.0.changed + 1, updated_at: env.clock.now(), ..self.0.clone() };
        let sent = send_edited(store, plan, item, payload, progress.clone(), env).await?;
        if sent {
            self.0 = progress;
        }
        Ok(sent)
    }

    /// Sends dead items of one run, none of which has a parent or is there twice, back with new content, in one transaction.
    /// Says of each whether it was sent, as [`Import::send_back`] does.
    ///
    /// # Errors
    /// When the store fails; nothing is written then, or all that goes together.
    pub async fn send_back_all(
        &mut self,
        store: &dyn Store,
        plan: &Plan,
        run: RunId,
        items: &[(Item, Payload)],
        env: &Env,
    ) -> Result<Vec<bool>> {
        let now = env.clock.now();
        let decided: Vec<Option<Change>> = items
            .iter()
            .map(|(item, payload)| {
                let event = Event::Redriven { due: now, payload: Some(payload.clone()), policy: None };
                decide(item, event, plan, Moment { now, draw: env.dice.draw() }).ok().map(Change::from)
            })
            .collect();
        let can: Vec<bool> = decided.iter().map(Option::is_some).collect();
        let changes: Vec<Change> = decided.into_iter().flatten().collect();
        if changes.is_empty() {
            return Ok(can);
        }
        let changed = self.0.changed + changes.len() as u64;
        let progress = Operation { changed, updated_at: now, ..self.0.clone() };
        crash::point("import.before_page");
        let commit = Commit {
            changes,
            all_or_nothing: true,
            unless_cancelled: Some(run),
            run: Some((run, RunChange::goes_on())),
            operation: Some(progress.clone()),
            now,
        };
        let applied = store.commit(commit).await?;
        crash::point("import.after_page");
        if applied.iter().all(|applied| *applied == Applied::Done) {
            self.0 = progress;
            return Ok(can);
        }
        // Something happened to one of them meanwhile: each goes by itself.
        let mut sent = Vec::with_capacity(items.len());
        for (item, payload) in items {
            sent.push(self.send_back(store, plan, item, payload.clone(), env).await?);
        }
        Ok(sent)
    }

    /// Counts something that nothing was done about.
    pub fn left_alone(&mut self) {
        self.0.skipped += 1;
    }

    /// Ends the import.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn end(self, store: &dyn Store, now: Timestamp) -> Result<Done> {
        close(store, self.0, now).await
    }
}
