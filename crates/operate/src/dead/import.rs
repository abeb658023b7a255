//! Dead items are sent back with the content that somebody gave them: a file of them, or one that was edited.

use redrive_core::id::{ItemId, OperationId, Rev};
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin;
use redrive_store::{ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::runs::Runs;
use crate::{Floor, Role};

/// The part of an exported line that is read back.
#[derive(Deserialize)]
struct Line {
    item: LineItem,
}

#[derive(Deserialize)]
struct LineItem {
    id: ItemId,
    payload: Box<RawValue>,
    /// How often it had been sent back when it was written out.
    generation: Option<u32>,
}

/// Exported and edited items on their way in, line by line. It is an operation, and kept with who asked for it.
pub struct Import<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
    from: String,
    under_way: Option<admin::Import>,
}

/// What became of one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Imported {
    /// The item was sent back with the line's content.
    SentBack,
    /// It was sent back like this before, since the line was written out.
    SentBackBefore,
    /// Nothing was done.
    LeftAlone {
        /// Why.
        why: String,
    },
}

impl<'a> Import<'a> {
    /// Reads items in; `from` says where they come from, for the record.
    #[must_use]
    pub fn of(floor: &'a Floor, from: &str) -> Self {
        let runs = Runs::of(&*floor.store);
        Self { floor, runs, from: from.chars().take(200).collect(), under_way: None }
    }

    /// Sends the dead item of a line back with the line's content.
    ///
    /// # Errors
    /// When its run cannot be read, or the store fails.
    pub async fn line(&mut self, line: &str) -> Result<Imported> {
        let parsed: Line = match serde_json::from_str(line) {
            Ok(parsed) => parsed,
            Err(error) => return self.left_alone(format!("not a line of an export: {error}")).await,
        };
        let LineItem { id, payload, generation } = parsed.item;
        if let Some(item) = self.find(id).await?
            && self.is_sent_back(&item, generation).await?
        {
            return Ok(Imported::SentBackBefore);
        }
        self.item(id, &payload, None).await
    }

    /// Sends a dead item back with this content; where `rev` is given, only if the item is still as it was then.
    pub(super) async fn item(
        &mut self,
        id: ItemId,
        payload: &RawValue,
        rev: Option<Rev>,
    ) -> Result<Imported> {
        let Some(item) = self.find(id).await? else {
            return self.left_alone(format!("item {id} is not in this store")).await;
        };
        if item.state.kind() != StateKind::Dead {
            return self.left_alone(format!("item {id} is {}, not dead", item.state.kind())).await;
        }
        let known = match self.runs.known(item.run).await? {
            Some(known) => known,
            // Says what is wrong with its pipeline.
            None => self.runs.find(Some(item.run)).await?.into(),
        };
        let (floor, payload) = (self.floor, payload.get().as_bytes().into());
        let as_it_was = rev.is_none_or(|rev| rev == item.rev);
        let import = self.operation().await?;
        if as_it_was && import.send_back(&*floor.store, &known.plan, &item, payload, &floor.env).await? {
            return Ok(Imported::SentBack);
        }
        self.left_alone(format!("item {id} changed meanwhile, or what it came from was taken out")).await
    }

    /// Ends the operation; `None` when nothing was asked of it.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn finish(self) -> Result<Option<OperationId>> {
        match self.under_way {
            Some(import) => {
                let done = import.end(&*self.floor.store, self.floor.now()).await?;
                Ok(Some(done.operation))
            }
            None => Ok(None),
        }
    }

    async fn find(&self, id: ItemId) -> Result<Option<Item>> {
        let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
        let found = self.floor.store.items(ItemQuery { filter, after: None, limit: 1 }).await?;
        Ok(found.into_iter().next())
    }

    /// Whether an item is on its way back with the content that somebody gave it since a line of this generation was
    /// written out.
    async fn is_sent_back(&self, item: &Item, generation: Option<u32>) -> Result<bool> {
        let is_next = generation.is_some_and(|generation| generation.saturating_add(1) == item.generation);
        if item.state.kind() == StateKind::Dead || !is_next {
            return Ok(false);
        }
        let marks = self.floor.store.history(item.seq).await?.marks;
        let sent_back = marks.iter().rfind(|mark| ["edited", "redriven"].contains(&mark.what));
        Ok(sent_back.is_some_and(|mark| mark.what == "edited"))
    }

    async fn left_alone(&mut self, why: String) -> Result<Imported> {
        self.operation().await?.left_alone();
        Ok(Imported::LeftAlone { why })
    }

    /// The operation, which is opened when it is first needed.
    async fn operation(&mut self) -> Result<&mut admin::Import> {
        let import = match self.under_way.take() {
            Some(import) => import,
            None => {
                self.floor.require(Role::Operator)?;
                let Floor { store, asker, .. } = self.floor;
                admin::Import::begin(&**store, &self.from, &asker.name, self.floor.now()).await?
            }
        };
        Ok(self.under_way.insert(import))
    }
}
