//! Dead items are written out.

use redrive_core::id::ItemSeq;
use redrive_engine::report::{Explanation, explain};
use redrive_store::{ItemFilter, ItemQuery};
use serde::Serialize;

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
    page: std::vec::IntoIter<redrive_core::item::Item>,
}

/// A dead item with its content and history, as it can be read back by [`Import`](super::Import).
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
