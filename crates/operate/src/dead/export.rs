//! Dead items are written out.

use redrive_core::id::ItemSeq;
use redrive_engine::admin::count_dead;
use redrive_engine::report::{Explanation, Life, explain_life, read_lives};
use redrive_store::{ItemFilter, ItemQuery};
use serde::Serialize;

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

/// A dead item with its content and history, as it can be read back by [`Import`](super::Import).
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct Exported(pub Explanation);

impl<'a> Export<'a> {
    /// Writes out what is selected.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(floor: &'a Floor, selection: Selection) -> Result<Self> {
        floor.require_payloads()?;
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
