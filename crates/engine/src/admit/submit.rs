//! Items are submitted, and keys that are there with other content are settled.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::{Event, Gone};
use redrive_core::id::{ItemId, RunId, StageNo};
use redrive_core::item::{Item, NewItem, State};
use redrive_core::reading::Reading;
use redrive_store::{Change, Cursor, ItemFilter, ItemQuery, Store, Submit, Submitted};

use crate::admin::live_descendants;
use crate::env::Env;
use crate::recipe::Recipe;

/// Items of a source, and how far it then is read.
#[derive(Debug, Clone)]
pub struct Batch {
    /// The run they go to.
    pub run: RunId,
    /// The reading that has them.
    pub reading: Reading,
    /// The items.
    pub items: Vec<NewItem>,
    /// How far the source is read with them.
    pub cursor: Cursor,
    /// What becomes of keys that are there with other content.
    pub known_keys: KnownKeys,
}

/// What becomes of keys that are there with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownKeys {
    /// The new content holds, and what was there gives way.
    Replaced,
    /// What is there stays, and the new content is dropped.
    Kept,
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// What became of each item, in order.
    pub answers: Vec<Submitted>,
    /// Items whose keys were not there.
    pub new: u64,
    /// Items whose keys were there with other content.
    pub changed: u64,
    /// Items that were superseded before, and are back.
    pub back: u64,
    /// Lines that were newly found to be unusable.
    pub refused: u64,
    /// Which of them are the present version of a key that was there with another, counted from 0.
    pub anew: BTreeSet<usize>,
}

/// Submits items with the cursor that goes with them, and settles keys that are there with other content.
///
/// # Errors
/// When the store fails. Submitting the same again is harmless.
pub async fn submit(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    batch: Batch,
) -> Result<Settled, redrive_store::Error> {
    let (now, known_keys) = (env.clock.now(), batch.known_keys);
    let submission = Submit {
        run: batch.run,
        stage: StageNo(0),
        reading: batch.reading,
        items: batch.items,
        deadline: recipe.plan.deadline().map(|span| now.after(span)),
        new_versions: false,
        changes: Vec::new(),
        cursor: Some(batch.cursor),
        now,
    };
    let answers = store.submit(submission.clone()).await?;
    let mut settled = Settled { answers, ..Settled::default() };
    let mut changed: Vec<Differing> = Vec::new();
    for (place, (answer, item)) in settled.answers.iter().zip(&submission.items).enumerate() {
        match answer {
            Submitted::Admitted(_) => {
                settled.new += 1;
                settled.refused += u64::from(item.refused.is_some());
            }
            Submitted::Changed(_) => changed.push(Differing { place, item: item.clone() }),
            Submitted::Known(_) | Submitted::Duplicate(_) => {}
        }
    }
    if changed.is_empty() || known_keys == KnownKeys::Kept {
        return Ok(settled);
    }
    let duplicate = |answer: &&Submitted| matches!(answer, Submitted::Duplicate(_));
    let repeated = settled.answers.iter().filter(duplicate).count() as u64;
    let cursor =
        submission.cursor.map(|cursor| Cursor { duplicates: cursor.duplicates + repeated, ..cursor });
    let second = Submit { items: Vec::new(), new_versions: true, cursor, ..submission };
    let (fates, answers) = submit_versions(store, recipe, env, &changed, second).await?;
    for ((differing, fate), answer) in changed.into_iter().zip(fates).zip(answers) {
        match (&answer, fate) {
            (Submitted::Admitted(_), Fate::Second { .. }) => {
                settled.new += 1;
                settled.refused += 1;
            }
            (Submitted::Admitted(_), Fate::Version | Fate::Repeats) => {
                settled.changed += 1;
                settled.anew.insert(differing.place);
            }
            (Submitted::Known(_), Fate::Version) => {
                settled.back += 1;
                settled.anew.insert(differing.place);
            }
            (Submitted::Known(_) | Submitted::Duplicate(_) | Submitted::Changed(_), _) => {}
        }
        settled.answers[differing.place] = answer;
    }
    Ok(settled)
}

/// An item whose key is there with other content, or was superseded.
struct Differing {
    place: usize,
    item: NewItem,
}

/// What becomes of such an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the present version of its key, and others give way.
    Version,
    /// It repeats a line of the same batch.
    Repeats,
    /// Its key is another line's, with other content.
    Second {
        /// That line.
        first: u64,
    },
}

/// Tells one line that was edited from two lines with one key: what this reading has seen already, in this batch or in
/// the store, keeps the key. `versions` are those of the key as they are now.
pub(super) fn fate(
    item: &NewItem,
    batch: Option<&NewItem>,
    versions: &[Item],
    run: RunId,
    reading: Reading,
) -> Fate {
    let own = ItemId::derive(run, None, &item.key, item.version());
    let seen = versions.iter().find(|version| {
        version.id != own && reading.has_seen(version) && !matches!(version.state, State::Superseded { .. })
    });
    match (batch, seen) {
        (Some(before), _) if before.version() == item.version() => Fate::Repeats,
        (Some(before), _) => Fate::Second { first: before.origin },
        (None, Some(seen)) => Fate::Second { first: seen.origin },
        (None, None) => Fate::Version,
    }
}

/// Submits the items whose keys are there with other content; old versions give way in the same transaction.
async fn submit_versions(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    changed: &[Differing],
    submission: Submit,
) -> Result<(Vec<Fate>, Vec<Submitted>), redrive_store::Error> {
    let (run, reading) = (submission.run, submission.reading);
    let mut tries = 0;
    loop {
        let mut submission = submission.clone();
        let mut seen: BTreeMap<&str, &NewItem> = BTreeMap::new();
        let mut fates = Vec::with_capacity(changed.len());
        for Differing { item, .. } in changed {
            let versions = versions(store, run, item).await?;
            let fate = fate(item, seen.get(&*item.key).copied(), &versions, run, reading);
            match fate {
                Fate::Second { first } => {
                    let second = second_content(item, first);
                    let others = self::versions(store, run, &second).await?;
                    submission.changes.extend(give_way(store, recipe, env, &second, &others).await?);
                    submission.items.push(second);
                }
                Fate::Repeats => submission.items.push(item.clone()),
                Fate::Version => {
                    seen.insert(&item.key, item);
                    submission.changes.extend(give_way(store, recipe, env, item, &versions).await?);
                    submission.items.push(item.clone());
                }
            }
            fates.push(fate);
        }
        tries += 1;
        match store.submit(submission).await {
            // One of the old versions moved while it was looked at: look again.
            Err(redrive_store::Error::Busy(_)) if tries < 10 => {}
            answer => return answer.map(|answers| (fates, answers)),
        }
    }
}

/// Every version of an item's key.
pub(super) async fn versions(
    store: &dyn Store,
    run: RunId,
    item: &NewItem,
) -> Result<Vec<Item>, redrive_store::Error> {
    let ids = ItemId::derive(run, None, &item.key, item.version()).versions();
    let filter = ItemFilter { ids: Some(ids), ..ItemFilter::default() };
    store.items(ItemQuery { filter, after: None, limit: MAX_CHILDREN }).await
}

/// What has to happen so that an item is the present version of its key: others are superseded, with what came from them
/// and is not finished, and the item itself is restored when it was superseded before.
async fn give_way(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    item: &NewItem,
    versions: &[Item],
) -> Result<Vec<Change>, redrive_store::Error> {
    let now = env.clock.now();
    let at = || Moment { now, draw: env.dice.draw() };
    let mut changes = Vec::new();
    for version in versions {
        let (event, below) = if version.version == item.version() {
            (Event::Restored { payload: Some(item.payload.clone()) }, Vec::new())
        } else {
            (Event::Superseded(Gone::Newer), live_descendants(store, version).await?)
        };
        // What is taken out already stays so.
        let Ok(transition) = decide(version, event, &recipe.plan, at()) else { continue };
        changes.push(transition.into());
        let gone = below
            .iter()
            .filter_map(|item| decide(item, Event::Superseded(Gone::Newer), &recipe.plan, at()).ok());
        changes.extend(gone.map(Change::from));
    }
    Ok(changes)
}

/// Two lines with one key and different content: the first keeps the key, the second is kept as dead, not dropped, and known
/// by its content wherever it stands.
pub(super) fn second_content(item: &NewItem, first: u64) -> NewItem {
    let why = format!(
        "line {} has the key {:?} of line {} with other content; give it a key of its own",
        item.origin, item.key, first
    );
    NewItem {
        key: Arc::from(format!("{}#{}", item.key, crate::source::mark(item.version()))),
        refused: Some(crate::source::refusal(&why)),
        ..item.clone()
    }
}
