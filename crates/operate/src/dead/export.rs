//! Dead items are written out, and sent back with the content that somebody gave them.

use redrive_core::id::{ItemId, ItemSeq};
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin::{count_dead, redrive_edited};
use redrive_engine::report::{Explanation, Life, explain_life, read_lives};
use redrive_store::{ItemFilter, ItemQuery};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Selection;
use crate::Floor;
use crate::error::Result;
use crate::runs::Runs;

/// Items that are read at a time.
const PAGE: usize = 1_000;

/// Dead items on their way out, one by one.
pub struct Export<'a> {
    floor: &'a Floor,
    runs: Runs<'a>,
    filters: std::vec::IntoIter<ItemFilter>,
    filter: Option<ItemFilter>,
    after: Option<ItemSeq>,
    /// Items of the page that have not been read as a whole.
    page: Vec<ItemSeq>,
    lives: std::vec::IntoIter<Life>,
    done: u64,
    all: u64,
}

/// A dead item with its content and history, as it can be read back by [`Import`].
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Exported(pub Explanation);

impl<'a> Export<'a> {
    /// Writes out what is selected.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(floor: &'a Floor, selection: Selection) -> Result<Self> {
        let mut all = 0;
        for filter in &selection.filters {
            all += count_dead(&*floor.store, filter).await?;
        }
        let mut filters = selection.filters.into_iter();
        let filter = filters.next();
        let runs = Runs::of(&*floor.store);
        let (page, lives) = (Vec::new(), Vec::new().into_iter());
        Ok(Self { floor, runs, filters, filter, after: None, page, lives, done: 0, all })
    }

    /// The next item; `None` when there are no more.
    ///
    /// # Errors
    /// When its run cannot be read, or the store fails.
    pub async fn next(&mut self) -> Result<Option<Exported>> {
        loop {
            if let Some(life) = self.lives.next() {
                let known = match self.runs.known(life.item.run).await? {
                    Some(known) => known,
                    // Says what is wrong with its pipeline.
                    None => self.runs.find(Some(life.item.run)).await?.into(),
                };
                self.done += 1;
                return Ok(Some(Exported(explain_life(&life, &known.row, &known.plan, self.floor.now()))));
            }
            self.floor.env.progress.reached(self.done, Some(self.all));
            if !self.read_more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads items as a whole, those of the page that are left or those of the next; `false` when there are no more.
    async fn read_more(&mut self) -> Result<bool> {
        let store = &*self.floor.store;
        let Some(filter) = self.filter.clone() else { return Ok(false) };
        if self.page.is_empty() {
            let query = ItemQuery { filter: filter.clone(), after: self.after, limit: PAGE };
            self.page = store.items(query).await?.iter().map(|item| item.seq).collect();
            let Some(last) = self.page.last() else {
                (self.filter, self.after) = (self.filters.next(), None);
                return Ok(true);
            };
            self.after = Some(*last);
        }
        let lives = read_lives(store, self.page.clone()).await?;
        match lives.last().map(|life| life.item.seq) {
            Some(last) => self.page.retain(|seq| *seq > last),
            None => self.page.clear(),
        }
        // Something may have become of an item since it was listed.
        self.lives =
            lives.into_iter().filter(|life| filter.matches(&life.item)).collect::<Vec<_>>().into_iter();
        Ok(true)
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
        let known = match self.runs.known(item.run).await? {
            Some(known) => known,
            None => self.runs.find(Some(item.run)).await?.into(),
        };
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
