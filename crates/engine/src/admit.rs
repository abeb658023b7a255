//! A source's items are admitted to a run, in pieces, as fast as they are worked off.

use std::sync::Arc;
use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::{Item, NewItem};
use redrive_core::status::Control;
use redrive_store::{Commit, Cursor, Store, Submit, Submitted};
use tokio::sync::{Notify, watch};

use crate::admin::live_descendants;
use crate::crash;
use crate::env::Env;
use crate::recipe::Recipe;
use crate::source::{Source, SourceError};
use crate::worker::Stop;

/// How many items may wait before no more are read.
pub const AHEAD: u64 = 20_000;
const PAUSE: Duration = Duration::from_millis(20);

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
    /// Admission ends when told to stop.
    pub stop: watch::Receiver<Stop>,
}

impl Admission {
    /// Reads the source to its end, or until the run is paused or stopped.
    ///
    /// # Errors
    /// When the source or the store fails; what was admitted stays so.
    pub async fn admit(self, mut source: Box<dyn Source>) -> Result<(), AdmitError> {
        loop {
            if !self.wait_for_room().await? {
                return Ok(());
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
            let done = piece.done;
            crash::point("admit.before_submit");
            let cursor = Cursor { position: piece.position, done, duplicates: 0 };
            submit(&*self.store, &self.recipe, &self.env, self.run, piece.items, cursor).await?;
            crash::point("admit.after_submit");
            self.wake.notify_one();
            if done {
                return Ok(());
            }
        }
    }

    /// Waits until few enough items wait; `false` when the run is not to go on.
    async fn wait_for_room(&self) -> Result<bool, AdmitError> {
        loop {
            if *self.stop.borrow() != Stop::No {
                return Ok(false);
            }
            let control = self.store.run(self.run).await?.map_or(Control::Cancelled, |row| row.control);
            if control != Control::Go {
                return Ok(false);
            }
            if crate::report::all_counts(&*self.store, self.run).await?.waiting < AHEAD {
                return Ok(true);
            }
            self.env.clock.sleep(PAUSE).await;
        }
    }
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
    let submission =
        Submit { run, stage: StageNo(0), items, deadline, new_versions: false, cursor: Some(cursor), now };
    let mut answers = store.submit(submission.clone()).await?;
    let mut places = Vec::new();
    let mut again = Vec::new();
    let mut outdated = Vec::new();
    for (place, (answer, item)) in answers.iter().zip(&submission.items).enumerate() {
        if let Submitted::Changed(existing) = answer {
            places.push(place);
            again.push(if existing.origin == item.origin {
                outdated.push((**existing).clone());
                item.clone()
            } else {
                second_content(item, existing)
            });
        }
    }
    if again.is_empty() {
        return Ok(answers);
    }
    supersede(store, recipe, env, outdated).await?;
    let repeated = answers.iter().filter(|answer| matches!(answer, Submitted::Duplicate(_))).count() as u64;
    let cursor =
        submission.cursor.map(|cursor| Cursor { duplicates: cursor.duplicates + repeated, ..cursor });
    let second = store.submit(Submit { items: again, new_versions: true, cursor, ..submission }).await?;
    for (place, answer) in places.into_iter().zip(second) {
        answers[place] = answer;
    }
    Ok(answers)
}

/// Versions that the source no longer has give way, with what came from them; finished ones stay as they are.
async fn supersede(
    store: &dyn Store,
    recipe: &Recipe,
    env: &Env,
    outdated: Vec<Item>,
) -> Result<(), redrive_store::Error> {
    let mut going = Vec::new();
    for item in outdated {
        going.extend(live_descendants(store, &item).await?);
        going.push(item);
    }
    let now = env.clock.now();
    let at = || Moment { now, draw: env.dice.draw() };
    let decided = going.iter().filter_map(|item| decide(item, Event::Superseded, &recipe.plan, at()).ok());
    let changes = decided.map(Into::into).collect();
    store.commit(Commit { changes, now, ..Commit::default() }).await?;
    Ok(())
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
