//! A source's items are admitted to a run, in pieces, as fast as they are worked off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::Event;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{ItemId, RunId, StageNo};
use redrive_core::item::{Item, NewItem, State};
use redrive_core::status::Control;
use redrive_store::{Change, Cursor, ItemFilter, ItemQuery, Store, Submit, Submitted};
use tokio::sync::{Notify, watch};

use crate::admin::live_descendants;
use crate::crash;
use crate::env::Env;
use crate::patience::Patience;
use crate::recipe::Recipe;
use crate::source::{Piece, Source, SourceError};
use crate::worker::Stop;

/// How many items may wait before no more are read.
pub const AHEAD: u64 = 20_000;
const PAUSE: Duration = Duration::from_millis(20);
/// How long a store that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(30);

/// Why admission ended early.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] redrive_store::Error),
}

/// Admission of one source to one run.
pub struct Admission {
    /// Where the items go.
    pub store: Arc<dyn Store>,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// Clock and dice.
    pub env: Env,
    /// The run.
    pub run: RunId,
    /// Rung when items were submitted.
    pub wake: Arc<Notify>,
    /// Taken down when the source is not read any more.
    pub admitting: Arc<AtomicBool>,
    /// Admission ends when told to stop.
    pub stop: watch::Receiver<Stop>,
}

impl Admission {
    /// Reads the source to its end, or until the run is paused or stopped.
    ///
    /// # Errors
    /// When the source fails, or the store for long; what was admitted stays so.
    pub async fn admit(self, source: Box<dyn Source>) -> Result<(), AdmitError> {
        let admitted = self.read(source).await;
        self.admitting.store(false, Ordering::SeqCst);
        self.wake.notify_one();
        admitted
    }

    async fn read(&self, mut source: Box<dyn Source>) -> Result<(), AdmitError> {
        let mut patience = Patience::default();
        loop {
            match self.has_room().await {
                Ok(Room::Some) => {}
                Ok(Room::None) => {
                    self.env.clock.sleep(PAUSE).await;
                    continue;
                }
                Ok(Room::Over) => return Ok(()),
                Err(error) => {
                    patience.bear(error, PATIENCE, &self.env).await?;
                    continue;
                }
            }
            let read = tokio::task::spawn_blocking(move || {
                let piece = source.next_piece();
                (source, piece)
            });
            let Ok((given_back, piece)) = read.await else {
                let cause = std::io::Error::other("reading it panicked");
                return Err(SourceError { what: "the source".to_owned(), cause }.into());
            };
            source = given_back;
            let piece = piece?;
            if piece.done && piece.items.is_empty() && self.is_admitted().await? {
                return Ok(());
            }
            crash::point("admit.before_submit");
            while let Err(error) = self.submit(&piece).await {
                // A run that was cancelled takes no more items, and that is the end of it.
                if matches!(error, redrive_store::Error::NotFound(_)) {
                    return Ok(());
                }
                patience.bear(error, PATIENCE, &self.env).await?;
            }
            patience.rest();
            crash::point("admit.after_submit");
            self.wake.notify_one();
            if piece.done {
                return Ok(());
            }
        }
    }

    async fn submit(&self, piece: &Piece) -> Result<(), redrive_store::Error> {
        let cursor = Cursor { position: piece.position.clone(), done: piece.done, duplicates: 0 };
        submit(&*self.store, &self.recipe, &self.env, self.run, piece.items.clone(), cursor).await.map(drop)
    }

    async fn is_admitted(&self) -> Result<bool, redrive_store::Error> {
        Ok(self.store.run(self.run).await?.is_some_and(|row| row.admitted_all))
    }

    /// Whether few enough items wait for more to be read. Retries that are due later do not count: they take no place.
    async fn has_room(&self) -> Result<Room, redrive_store::Error> {
        let control = self.store.run(self.run).await?.map_or(Control::Cancelled, |row| row.control);
        if *self.stop.borrow() != Stop::No || control != Control::Go {
            return Ok(Room::Over);
        }
        let waiting = crate::report::all_counts(&*self.store, self.run).await?.waiting;
        let (next_due, _) = self.store.next_due(self.run).await?;
        let nothing_due = next_due.is_none_or(|due| due > self.env.clock.now());
        Ok(if waiting < AHEAD || nothing_due { Room::Some } else { Room::None })
    }
}

/// Whether more can be admitted.
enum Room {
    /// Yes.
    Some,
    /// Not now.
    None,
    /// The run is not to go on.
    Over,
}

/// Submits items with the cursor that goes with them, and settles keys that are there with other content.
///
/// # Errors
/// When the store fails. Submitting the same again is harmless.
pub async fn submit(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    run: RunId,
    items: Vec<NewItem>,
    cursor: Cursor,
) -> Result<Vec<Submitted>, redrive_store::Error> {
    let now = env.clock.now();
    let deadline = recipe.plan.deadline().map(|span| now.after(span));
    let stage = StageNo(0);
    let cursor = Some(cursor);
    let submission =
        Submit { run, stage, items, deadline, new_versions: false, changes: Vec::new(), cursor, now };
    let mut answers = store.submit(submission.clone()).await?;
    let mut changed: Vec<(usize, NewItem, Item)> = Vec::new();
    for (place, (answer, item)) in answers.iter().zip(&submission.items).enumerate() {
        if let Submitted::Changed(existing) = answer {
            changed.push((place, item.clone(), (**existing).clone()));
        }
    }
    if changed.is_empty() {
        return Ok(answers);
    }
    let repeated = answers.iter().filter(|answer| matches!(answer, Submitted::Duplicate(_))).count() as u64;
    let cursor =
        submission.cursor.map(|cursor| Cursor { duplicates: cursor.duplicates + repeated, ..cursor });
    let second = Submit { items: Vec::new(), new_versions: true, cursor, ..submission };
    let settled = submit_versions(store, recipe, env, &changed, second).await?;
    for ((place, _, _), answer) in changed.into_iter().zip(settled) {
        answers[place] = answer;
    }
    Ok(answers)
}

/// Submits the items whose keys are there with other content; old versions give way in the same transaction.
async fn submit_versions(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    changed: &[(usize, NewItem, Item)],
    submission: Submit,
) -> Result<Vec<Submitted>, redrive_store::Error> {
    let mut tries = 0;
    loop {
        let mut submission = submission.clone();
        for (_, item, existing) in changed {
            let elsewhere = existing.origin != item.origin && existing.state != State::Superseded;
            if elsewhere {
                submission.items.push(second_content(item, existing));
            } else {
                submission.changes.extend(give_way(store, recipe, env, item, existing).await?);
                submission.items.push(item.clone());
            }
        }
        tries += 1;
        match store.submit(submission).await {
            // One of the old versions moved while it was looked at: look again.
            Err(redrive_store::Error::Busy(_)) if tries < 10 => {}
            answer => return answer,
        }
    }
}

/// What has to happen so that an item is the present version of its key: others that are not finished are superseded, with
/// what came from them, and the item itself is restored when it was superseded before.
async fn give_way(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    item: &NewItem,
    existing: &Item,
) -> Result<Vec<Change>, redrive_store::Error> {
    let now = env.clock.now();
    let at = || Moment { now, draw: env.dice.draw() };
    let present = ItemId::derive(existing.run, None, &item.key, item.version());
    let filter = ItemFilter { ids: Some(present.versions()), ..ItemFilter::default() };
    let versions = store.items(ItemQuery { filter, after: None, limit: MAX_CHILDREN }).await?;
    let mut changes = Vec::new();
    for version in versions {
        let (event, below) = if version.id == present {
            (Event::Restored { payload: Some(item.payload.clone()) }, Vec::new())
        } else {
            (Event::Superseded, live_descendants(store, &version).await?)
        };
        // A finished version stays as it is: it cannot be superseded any more.
        let Ok(transition) = decide(&version, event, &recipe.plan, at()) else { continue };
        changes.push(transition.into());
        let gone = below.iter().filter_map(|item| decide(item, Event::Superseded, &recipe.plan, at()).ok());
        changes.extend(gone.map(Change::from));
    }
    Ok(changes)
}

/// Two lines with one key and different content: the first keeps the key, the second is kept as dead, not dropped.
fn second_content(item: &NewItem, existing: &Item) -> NewItem {
    let why = format!(
        "line {} has the key {:?} of line {} with other content; give it a key of its own",
        item.origin, item.key, existing.origin
    );
    let failure = Failure::new(Class::Final, Kind::Input, why);
    NewItem {
        key: Arc::from(format!("{}#line-{}", item.key, item.origin)),
        refused: Some(crate::source::refusal(&failure)),
        ..item.clone()
    }
}
