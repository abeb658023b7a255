//! Pages of dead items in an order, each with a cursor that is right for the whole.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use redrive_core::id::ItemSeq;
use redrive_core::item::Item;
use redrive_core::time::Timestamp;
use redrive_store::{ChangeQuery, ItemFilter, ItemQuery, Store};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::runs::Runs;

/// Items read at a time where all have to be looked at.
const PAGE: usize = 500;

/// In what order dead items are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeadOrder {
    /// Those that died last first.
    #[default]
    Newest,
    /// Those that died first first.
    Oldest,
    /// By key.
    Key,
    /// By the name of the stage, and those that died last first.
    Stage,
}

/// A page of items.
pub(super) struct Page {
    pub(super) items: Vec<Item>,
    /// Where the next one goes on.
    pub(super) next: Option<String>,
}

/// The first `limit` of everything that the filters mean, or of what comes after a cursor.
pub(super) async fn page(
    runs: &Runs<'_>,
    store: &dyn Store,
    filters: &[ItemFilter],
    order: DeadOrder,
    after: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let after = match after {
        Some(cursor) => Some(read(store, order, cursor).await?),
        None => None,
    };
    let mut first = First { after, limit, items: BTreeMap::new(), more: false };
    for filter in filters {
        match order {
            DeadOrder::Newest | DeadOrder::Oldest => first.by_change(store, filter, order).await?,
            DeadOrder::Key | DeadOrder::Stage => first.of_all(runs, store, filter, order).await?,
        }
    }
    let next = first.items.last_key_value().filter(|_| first.more).map(|(place, _)| place.cursor());
    Ok(Page { items: first.items.into_values().collect(), next })
}

/// Where an item stands in an order. Places of different orders are not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Newest(Reverse<(Timestamp, ItemSeq)>),
    Oldest(Timestamp, ItemSeq),
    Key(Arc<str>, ItemSeq),
    Stage(String, Reverse<(Timestamp, ItemSeq)>),
}

impl Place {
    fn cursor(&self) -> String {
        match self {
            Self::Newest(Reverse((at, seq))) | Self::Oldest(at, seq) => format!("{}.{}", at.0, seq.0),
            Self::Key(_, seq) => seq.0.to_string(),
            Self::Stage(stage, Reverse((at, seq))) => format!("{}.{}.{stage}", at.0, seq.0),
        }
    }
}

/// Reads what [`Place::cursor`] wrote.
async fn read(store: &dyn Store, order: DeadOrder, cursor: &str) -> Result<Place> {
    let wrong = || Error::wrong(format!("'{cursor}' is not a cursor of this order"));
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok()).ok_or_else(wrong);
    let mut parts = cursor.splitn(3, '.');
    if order == DeadOrder::Key {
        let seq = ItemSeq(number(Some(cursor))?);
        let gone = || Error::not_found("the item that the page before ended with is gone").hint("begin anew");
        return Ok(Place::Key(store.item(seq).await?.ok_or_else(gone)?.key, seq));
    }
    let (at, seq) = (Timestamp(number(parts.next())?), ItemSeq(number(parts.next())?));
    match (order, parts.next()) {
        (DeadOrder::Newest, None) => Ok(Place::Newest(Reverse((at, seq)))),
        (DeadOrder::Oldest, None) => Ok(Place::Oldest(at, seq)),
        (DeadOrder::Stage, Some(stage)) => Ok(Place::Stage(stage.to_owned(), Reverse((at, seq)))),
        _ => Err(wrong()),
    }
}

/// The first of what was seen so far.
struct First {
    after: Option<Place>,
    limit: usize,
    items: BTreeMap<Place, Item>,
    more: bool,
}

impl First {
    /// Takes the first that a filter means: the store has them in this order.
    async fn by_change(&mut self, store: &dyn Store, filter: &ItemFilter, order: DeadOrder) -> Result<()> {
        let newest_first = order == DeadOrder::Newest;
        let after = match &self.after {
            Some(Place::Newest(Reverse(place))) => Some(*place),
            Some(Place::Oldest(at, seq)) => Some((*at, *seq)),
            _ => None,
        };
        let query = ChangeQuery { filter: filter.clone(), newest_first, after, limit: self.limit + 1 };
        for item in store.items_by_change(query).await? {
            let place = (item.updated_at, item.seq);
            let place =
                if newest_first { Place::Newest(Reverse(place)) } else { Place::Oldest(place.0, place.1) };
            self.keep(place, item);
        }
        Ok(())
    }

    /// Looks at everything that a filter means.
    async fn of_all(
        &mut self,
        runs: &Runs<'_>,
        store: &dyn Store,
        filter: &ItemFilter,
        order: DeadOrder,
    ) -> Result<()> {
        let mut after = None;
        loop {
            let page = store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.seq);
            for item in page {
                let place = if order == DeadOrder::Key {
                    Place::Key(item.key.clone(), item.seq)
                } else {
                    let stage = runs.stage_name(item.run, item.stage).await?;
                    Place::Stage(stage, Reverse((item.updated_at, item.seq)))
                };
                self.keep(place, item);
            }
        }
    }

    fn keep(&mut self, place: Place, item: Item) {
        if self.after.as_ref().is_some_and(|after| place <= *after) {
            return;
        }
        self.items.insert(place, item);
        if self.items.len() > self.limit {
            self.items.pop_last();
            self.more = true;
        }
    }
}
