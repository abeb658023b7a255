//! Dead items are sent back with the content that somebody gave them, and who did it is kept.

use redrive_core::item::{Item, Payload};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Operation, Result, Store};

use super::redrive::send_edited;
use super::{Done, Request, close, open};
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
