//! Dead items are written out, and sent back with the content that somebody gave them.

use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin::redrive_edited;
use redrive_engine::report::{Explanation, explain};
use redrive_store::{ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Selection;
use crate::Floor;
use crate::error::Result;
use crate::runs::Runs;

/// Items that are read at a time.
const PAGE: usize = 200;

/// Dead items on their way out, one by one.
pub struct Export<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
    filters: std::vec::IntoIter<ItemFilter>,
    filter: Option<ItemFilter>,
    after: Option<ItemSeq>,
    page: std::vec::IntoIter<Item>,
}

/// A dead item with its content and history, as it can be read back by [`Import`].
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Exported(pub Explanation);

impl<'a> Export<'a> {
    /// Writes out what is selected.
    #[must_use]
    pub fn of(floor: &'a Floor, selection: Selection) -> Self {
        let mut filters = selection.filters.into_iter();
        let filter = filters.next();
        let runs = Runs::of(&*floor.store);
        Self { floor, runs, filters, filter, after: None, page: Vec::new().into_iter() }
    }

    /// The next item; `None` when there are no more.
    ///
    /// # Errors
    /// When its run cannot be read, or the store fails.
    pub async fn next(&mut self) -> Result<Option<Exported>> {
        loop {
            if let Some(item) = self.page.next() {
                let known = match self.runs.known(item.run).await? {
                    Some(known) => known,
                    // Says what is wrong with its pipeline.
                    None => self.runs.find(Some(item.run)).await?.into(),
                };
                let now = self.floor.now();
                let life = explain(&*self.floor.store, &known.row, &item, &known.plan, None, now).await?;
                return Ok(Some(Exported(life)));
            }
            let Some(filter) = self.filter.clone() else { return Ok(None) };
            let query = ItemQuery { filter, after: self.after, limit: PAGE };
            let page = self.floor.store.items(query).await?;
            match page.last() {
                Some(last) => self.after = Some(last.seq),
                None => (self.filter, self.after) = (self.filters.next(), None),
            }
            self.page = page.into_iter();
        }
    }
}

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

/// Exported and edited items on their way in, line by line.
pub struct Import<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
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
    /// Reads items in.
    #[must_use]
    pub fn of(floor: &'a Floor) -> Self {
        Self { floor, runs: Runs::of(&*floor.store) }
    }

    /// Sends the dead item of a line back with the line's content.
    ///
    /// # Errors
    /// When its run cannot be read, or the store fails.
    pub async fn line(&self, line: &str) -> Result<Imported> {
        let left_alone = |why: String| Ok(Imported::LeftAlone { why });
        let parsed: Line = match serde_json::from_str(line) {
            Ok(parsed) => parsed,
            Err(error) => return left_alone(format!("not a line of an export: {error}")),
        };
        let (id, store) = (parsed.item.id, &*self.floor.store);
        let filter = ItemFilter { ids: Some((id, id)), ..ItemFilter::default() };
        let found = store.items(ItemQuery { filter, after: None, limit: 1 }).await?;
        let Some(item) = found.into_iter().next() else {
            return left_alone(format!("item {id} is not in this store"));
        };
        if item.state.kind() != StateKind::Dead {
            if self.is_sent_back(&item, parsed.item.generation).await? {
                return Ok(Imported::SentBackBefore);
            }
            return left_alone(format!("item {id} is {}, not dead", item.state.kind()));
        }
        let known = self.runs.find(Some(item.run)).await?;
        let payload = parsed.item.payload.get().as_bytes().into();
        match redrive_edited(store, &known.plan, &item, payload, &self.floor.env).await? {
            true => Ok(Imported::SentBack),
            false => left_alone(format!("item {id} changed meanwhile, or what it came from was taken out")),
        }
    }

    /// Whether an item is on its way back with the content that somebody gave it since a line of this generation was
    /// written out.
    async fn is_sent_back(&self, item: &Item, generation: Option<u32>) -> Result<bool> {
        if generation.is_none_or(|generation| generation.saturating_add(1) != item.generation) {
            return Ok(false);
        }
        let marks = self.floor.store.history(item.seq).await?.marks;
        let sent_back = marks.iter().rfind(|mark| ["edited", "redriven"].contains(&mark.what));
        Ok(sent_back.is_some_and(|mark| mark.what == "edited"))
    }
}
