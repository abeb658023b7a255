//! Dead items are sent back with the content that somebody gave them: a file of them, or one that was edited.

use std::sync::Arc;

use redrive_core::event::edited_to;
use redrive_core::id::{ItemId, OperationId, Rev, RunId};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_engine::admin;
use redrive_store::{ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::error::Result;
use crate::runs::{KnownRun, Runs};
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

/// How many lines are read in at a time: those of one run are sent back in one transaction.
pub const LINES: usize = 500;

/// Exported and edited items on their way in, some lines at a time. It is an operation, and kept with who asked for it.
pub struct Import<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
    from: String,
    under_way: Option<admin::Import>,
}

/// What became of one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "became")]
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

    /// Sends the dead items of lines back with the lines' content, and says of each line what became of it, as if they had come
    /// one by one. At most [`LINES`] should be given at a time.
    ///
    /// # Errors
    /// When whoever asks may not see contents, a run cannot be read, or the store fails; what was sent back before stays so.
    pub async fn lines(&mut self, lines: &[String]) -> Result<Vec<Imported>> {
        // An answer would tell whether a content is the one that is guessed.
        self.floor.require_payloads()?;
        let mut became = Vec::with_capacity(lines.len());
        let mut together: Vec<(Item, Payload)> = Vec::new();
        for line in lines {
            let LineItem { id, payload, generation } = match serde_json::from_str(line) {
                Ok(Line { item }) => item,
                Err(error) => {
                    self.send(&mut together, &mut became).await?;
                    became.push(self.left_alone(format!("not a line of an export: {error}")).await?);
                    continue;
                }
            };
            // What is decided of an item has to see what an earlier line did to it.
            if together.iter().any(|(item, _)| item.id == id) {
                self.send(&mut together, &mut became).await?;
            }
            let found = self.find(id).await?;
            let run = together.first().map(|(item, _)| item.run);
            match found {
                Some(item) if stands_alone(&item) && run.is_none_or(|run| run == item.run) => {
                    together.push((item, payload.get().as_bytes().into()));
                }
                Some(item) => {
                    self.send(&mut together, &mut became).await?;
                    became.push(match self.sent_back_with(&item, generation).await? {
                        Some(sent) => self.said_before(id, &sent, &payload).await?,
                        None => self.item(id, &payload, None).await?,
                    });
                }
                None => {
                    self.send(&mut together, &mut became).await?;
                    became.push(self.item(id, &payload, None).await?);
                }
            }
        }
        self.send(&mut together, &mut became).await?;
        Ok(became)
    }

    /// A line about an item that was sent back with other content before: it is the same, or comes too late.
    async fn said_before(&mut self, id: ItemId, sent: &str, payload: &RawValue) -> Result<Imported> {
        if *sent == *edited_to(payload.get().as_bytes()) {
            return Ok(Imported::SentBackBefore);
        }
        self.left_alone(format!("item {id} was sent back before, with another content than this")).await
    }

    /// Sends back what goes together; what became of it follows what became of the lines before.
    async fn send(&mut self, together: &mut Vec<(Item, Payload)>, became: &mut Vec<Imported>) -> Result<()> {
        let items = std::mem::take(together);
        let Some((first, _)) = items.first() else { return Ok(()) };
        let (floor, run) = (self.floor, first.run);
        let known = self.known(run).await?;
        let import = self.operation().await?;
        let sent = import.send_back_all(&*floor.store, &known.plan, run, &items, &floor.env).await?;
        for ((item, _), sent) in items.iter().zip(sent) {
            became.push(match sent {
                true => Imported::SentBack,
                false => self.left_alone(changed_meanwhile(item.id)).await?,
            });
        }
        Ok(())
    }

    async fn known(&self, run: RunId) -> Result<Arc<KnownRun>> {
        Ok(match self.runs.known(run).await? {
            Some(known) => known,
            // Says what is wrong with its pipeline.
            None => self.runs.find(Some(run)).await?.into(),
        })
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
        let known = self.known(item.run).await?;
        let (floor, payload) = (self.floor, payload.get().as_bytes().into());
        let as_it_was = rev.is_none_or(|rev| rev == item.rev);
        let import = self.operation().await?;
        if as_it_was && import.send_back(&*floor.store, &known.plan, &item, payload, &floor.env).await? {
            return Ok(Imported::SentBack);
        }
        self.left_alone(changed_meanwhile(id)).await
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

    /// What is noted of the content with which somebody sent an item back since a line of this generation was written out;
    /// `None` where nobody did.
    async fn sent_back_with(&self, item: &Item, generation: Option<u32>) -> Result<Option<Arc<str>>> {
        let is_next = generation.is_some_and(|generation| generation.saturating_add(1) == item.generation);
        if item.state.kind() == StateKind::Dead || !is_next {
            return Ok(None);
        }
        sent_back_with(self.floor, item).await
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

/// Whether an item can be sent back without a look at others: it is dead, and nothing waits for it.
fn stands_alone(item: &Item) -> bool {
    item.state.kind() == StateKind::Dead && item.parent.is_none()
}

fn changed_meanwhile(id: ItemId) -> String {
    format!("item {id} changed meanwhile, or what it came from was taken out")
}

/// What is noted of the content with which an item was sent back last; `None` where it was with its own.
pub(super) async fn sent_back_with(floor: &Floor, item: &Item) -> Result<Option<Arc<str>>> {
    let marks = floor.store.history(item.seq).await?.marks;
    let sent_back = marks.iter().rfind(|mark| ["edited", "redriven"].contains(&mark.what));
    Ok(sent_back.filter(|mark| mark.what == "edited").map(|mark| mark.detail.clone()))
}
