//! What would become of lines if they were admitted, found out without admitting them.

use std::collections::HashMap;
use std::sync::Arc;

use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_core::item::{Item, NewItem, State};
use redrive_core::reading::Reading;
use redrive_store::rule::submit::{Asked, Known, Version, known_as};
use redrive_store::{Result, Store, TombstoneQuery};

use super::submit::{Fate, fate, second_content, versions};

/// What a line would be to a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newness {
    /// Its key is not there.
    New,
    /// Its key is there with other content.
    Changed,
    /// It was superseded before, and is back.
    Back,
    /// It is there as it is.
    Known,
    /// It repeats an earlier line.
    Repeats,
}

/// What would become of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreseen {
    /// What it would be to the run.
    pub newness: Newness,
    /// Why it cannot be used.
    pub refused: Option<Arc<str>>,
}

impl Foreseen {
    /// Whether it would be admitted: worked on, or kept as dead because it cannot be used.
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        match self.newness {
            Newness::New | Newness::Changed | Newness::Back => true,
            Newness::Known | Newness::Repeats => false,
        }
    }
}

/// Lines of one reading, in their order. The rules are those of [`submit`](super::submit) and of every store.
pub struct Foresight {
    run: Option<RunId>,
    reading: Reading,
    /// Lines that were looked at: their content and place, by the hash of their key.
    seen: HashMap<ContentHash, (ContentHash, u64)>,
    /// Whether the run has items that were purged, once that was asked.
    any_purged: Option<bool>,
}

impl Foresight {
    /// A reading of which nothing was looked at yet; `None` for a run that is not there.
    #[must_use]
    pub fn new(run: Option<RunId>, reading: Reading) -> Self {
        Self { run, reading, seen: HashMap::new(), any_purged: None }
    }

    /// Whether a line with this key was looked at.
    #[must_use]
    pub fn has_seen(&self, key: &str) -> bool {
        self.seen.contains_key(&ContentHash::of(&[key.as_bytes()]))
    }

    /// Whether a line that was looked at is this item, with the content that it was admitted with.
    #[must_use]
    pub fn has_seen_as_it_is(&self, item: &Item) -> bool {
        let seen = self.seen.get(&ContentHash::of(&[item.key.as_bytes()]));
        seen.is_some_and(|(content, _)| ItemId::derive(item.run, None, &item.key, *content) == item.id)
    }

    /// Says what would become of the next line.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn of(&mut self, store: &dyn Store, item: &NewItem) -> Result<Foreseen> {
        let key = ContentHash::of(&[item.key.as_bytes()]);
        let before = self.seen.get(&key).copied();
        if let Some((content, first)) = before {
            return match content == item.version() {
                true => Ok(Foreseen { newness: Newness::Repeats, refused: None }),
                false => self.second(store, item, first).await,
            };
        }
        let known = self.versions(store, item).await?;
        if self.was_purged(store, item, &known).await? {
            self.seen.insert(key, (item.version(), item.origin));
            return Ok(Foreseen { newness: Newness::Known, refused: None });
        }
        let foreseen = match (self.known(item, &known), self.run) {
            (None, _) | (_, None) => admitted(item, Newness::New),
            (Some(Known::Same | Known::Before(_)), _) => Foreseen { newness: Newness::Known, refused: None },
            (Some(Known::Elsewhere), _) => Foreseen { newness: Newness::Repeats, refused: None },
            (Some(Known::Otherwise(_)), Some(run)) => match fate(item, None, &known, run, self.reading) {
                Fate::Second { first } => return self.second(store, item, first).await,
                Fate::Version | Fate::Repeats => {
                    let back = known.iter().any(|version| version.version == item.version());
                    admitted(item, if back { Newness::Back } else { Newness::Changed })
                }
            },
        };
        self.seen.insert(key, (item.version(), item.origin));
        Ok(foreseen)
    }

    /// A line whose key is another line's, with other content: it is refused under a key of its own.
    async fn second(&mut self, store: &dyn Store, item: &NewItem, first: u64) -> Result<Foreseen> {
        let second = second_content(item, first);
        let known = self.versions(store, &second).await?;
        let there =
            matches!(self.known(&second, &known), Some(Known::Same | Known::Before(_) | Known::Elsewhere))
                || self.seen.contains_key(&ContentHash::of(&[second.key.as_bytes()]));
        self.seen.insert(ContentHash::of(&[second.key.as_bytes()]), (second.version(), second.origin));
        Ok(match there {
            true => Foreseen { newness: Newness::Known, refused: None },
            false => admitted(&second, Newness::New),
        })
    }

    /// Whether an item was purged with this very content: it is left alone then.
    async fn was_purged(&mut self, store: &dyn Store, item: &NewItem, known: &[Item]) -> Result<bool> {
        let Some(run) = self.run else { return Ok(false) };
        let all = TombstoneQuery { run: self.run, limit: 1, ..TombstoneQuery::default() };
        let any = match self.any_purged {
            Some(any) => any,
            None => !store.tombstones(all.clone()).await?.is_empty(),
        };
        self.any_purged = Some(any);
        let id = ItemId::derive(run, None, &item.key, item.version());
        if !any || known.iter().any(|version| version.id == id) {
            return Ok(false);
        }
        let left = TombstoneQuery { ids: Some((id, id)), ..all };
        Ok(!store.tombstones(left).await?.is_empty())
    }

    async fn versions(&self, store: &dyn Store, item: &NewItem) -> Result<Vec<Item>> {
        match self.run {
            Some(run) => versions(store, run, item).await,
            None => Ok(Vec::new()),
        }
    }

    fn known(&self, item: &NewItem, versions: &[Item]) -> Option<Known> {
        let id = ItemId::derive(self.run?, None, &item.key, item.version());
        let asked =
            Asked { id, origin: item.origin, reading: self.reading, new_versions: false, back: false };
        let versions = versions.iter().map(|version| {
            Ok::<_, std::convert::Infallible>(Version {
                seq: version.seq,
                id: version.id,
                origin: version.origin,
                reading: version.reading,
                superseded: matches!(version.state, State::Superseded { .. }),
            })
        });
        match known_as(asked, versions) {
            Ok(known) => known,
        }
    }
}

fn admitted(item: &NewItem, newness: Newness) -> Foreseen {
    Foreseen { newness, refused: item.refused.as_ref().map(|refused| refused.message.clone()) }
}
