//! A source's items are admitted to a run, in pieces, as fast as they are worked off; and again whenever it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::status::Control;
use redrive_store::{ItemFilter, ItemQuery, RunChange, RunRow, Store};
use tokio::sync::{Notify, watch};

mod foresee;
mod inbox;
mod part;
mod reader;
mod submit;
mod unseen;

pub use foresee::{Foreseen, Foresight, Newness};
pub use inbox::{close, hand_in};
pub use part::{Ahead, Missing, Part};
pub use submit::{Batch, KnownKeys, Settled, submit};
pub use unseen::remove_unseen;

use crate::env::Env;
use crate::recipe::Recipe;
use crate::source::{Source, SourceError, Start};
use crate::worker::Stop;
use reader::Reader;

/// How many items may wait before no more are read.
pub const AHEAD: u64 = 20_000;
const PAUSE: Duration = Duration::from_millis(20);
/// How long a store that does not answer is asked again.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a source that was read to its end is looked at.
const WATCH: Duration = Duration::from_secs(1);
/// How long somebody else who reads the source may make no progress before he is taken for gone.
const STALLED: Duration = Duration::from_secs(10);

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

/// What was found in a source, over all readings of one admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct News {
    /// Readings that were made.
    pub readings: u64,
    /// Items that were not there before.
    pub new: u64,
    /// Items whose content is another than before.
    pub changed: u64,
    /// Items whose content is one that they had before.
    pub back: u64,
    /// Items that are not in the source any more.
    pub removed: u64,
    /// Items that stay as they are though the source does not have them, because it has nothing at all.
    pub kept_back: u64,
    /// Lines that cannot be used; they are dead, and counted in the others too.
    pub refused: u64,
    /// What the source has besides, and leaves out because a rule says so.
    pub left_out: u64,
}

impl News {
    /// Takes in what a later admission found.
    pub fn add(&mut self, later: &Self) {
        self.readings += later.readings;
        self.new += later.new;
        self.changed += later.changed;
        self.back += later.back;
        self.removed += later.removed;
        self.kept_back = later.kept_back;
        self.refused += later.refused;
        if later.readings > 0 {
            self.left_out = later.left_out;
        }
    }
}

/// What admission goes along with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Work in the same process: it reads as fast as that is worked off, and watches the source until it is told to stop.
    Working,
    /// Nothing: it reads to the end, however much then waits for others to work on it, and leaves.
    HandingOver,
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
    /// The last reading of the source that is known here: the one its position is of, or that this very source made.
    pub last: u32,
    /// Rung when items were submitted.
    pub wake: Arc<Notify>,
    /// Up while the source is being read.
    pub admitting: Arc<AtomicBool>,
    /// Admission ends when told to stop.
    pub stop: watch::Receiver<Stop>,
    /// What it goes along with.
    pub pace: Pace,
    /// Which part of the source is admitted; `None`: all of it.
    pub part: Option<Arc<Part>>,
}

/// A source that was admitted, with what was found in it.
pub struct Admitted {
    /// The source; `None` when reading it broke, or somebody else reads it.
    pub source: Option<Box<dyn Source>>,
    /// The last reading of it that is known here.
    pub last: u32,
    /// What was found.
    pub news: News,
    /// How it ended.
    pub outcome: Result<(), AdmitError>,
}

impl Admission {
    /// Reads the source to its end and, beside work, watches it, until the run is paused or stopped.
    pub async fn admit(self, source: Box<dyn Source>) -> Admitted {
        let mut reader = Reader {
            admission: &self,
            source: Some(source),
            news: News::default(),
            last: self.last,
            position: String::new(),
        };
        let outcome = reader.run().await;
        let (source, last, mut news) = (reader.source, reader.last, reader.news);
        news.left_out = source.as_ref().map_or(0, |source| source.left_out());
        self.admitting.store(false, Ordering::SeqCst);
        self.wake.notify_one();
        Admitted { source, last, news, outcome }
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
        if self.pace == Pace::HandingOver {
            return Ok(Room::Some);
        }
        let waiting = crate::counts::all_counts(&*self.store, self.run).await?.waiting;
        let next_due = self.store.next_due(self.run).await?.at;
        let nothing_due = next_due.is_none_or(|due| due > self.env.clock.now());
        Ok(if waiting < AHEAD || nothing_due { Room::Some } else { Room::None })
    }

    /// Somebody else reads the source anew. Gives the number of that reading when it came to nothing, so that the source has
    /// to be read here.
    async fn wait_for_the_other(&self) -> Result<Option<u32>, AdmitError> {
        let Self { store, env, run, .. } = self;
        let (mut before, mut since) = (None, env.clock.now());
        loop {
            let Some(row) = store.run(*run).await? else { return Ok(None) };
            if row.admitted_all {
                return Ok(None);
            }
            let now = env.clock.now();
            let place = Some((row.reading, row.cursor.clone()));
            if place != before {
                (before, since) = (place, now);
            } else if now.since(since) > STALLED {
                return Ok(Some(row.reading));
            }
            if row.control != Control::Go || !self.rest(PAUSE * 10).await {
                return Ok(None);
            }
        }
    }

    /// Waits, unless told to stop; `false` when told.
    async fn rest(&self, span: Duration) -> bool {
        let mut stop = self.stop.clone();
        if *stop.borrow_and_update() != Stop::No {
            return false;
        }
        tokio::select! {
            () = self.env.clock.sleep(span) => true,
            _ = stop.changed() => *stop.borrow() == Stop::No,
        }
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

/// Whether a new reading has to start at the beginning, wherever the source still agrees: repeated lines are counted for a
/// whole reading, a line that was refused for another one's sake is looked at again when that one may be gone, and what a
/// reading did not see that came to no end, or took only a part, was not taken out.
///
/// # Errors
/// When the store fails.
pub async fn starts_over(store: &dyn Store, row: &RunRow) -> Result<bool, redrive_store::Error> {
    let filter =
        ItemFilter { run: Some(row.id), top: true, state: Some(StateKind::Dead), ..ItemFilter::default() };
    let mut query = ItemQuery { filter, after: None, limit: 500 };
    if row.leaves_open() {
        return Ok(true);
    }
    loop {
        let page = store.items(query.clone()).await?;
        if row.duplicates > 0 || page.iter().any(Item::is_refused) {
            return Ok(true);
        }
        let Some(last) = page.last() else { return Ok(false) };
        query.after = Some(last.seq);
    }
}

/// Notes of the next reading whether it has to see again what an earlier one saw. It is noted before the reading begins: where
/// that is broken off, nobody may take what comes before its place for looked through.
///
/// # Errors
/// When the store fails.
pub async fn note_start(store: &dyn Store, row: &RunRow, start: &Start) -> Result<(), redrive_store::Error> {
    if row.reading == 0 || !(start.lost || start.position.is_none()) {
        return Ok(());
    }
    let learn = Some((RunRow::again_mark(row.reading + 1), 1));
    store.change_run(row.id, RunChange { learn, ..RunChange::default() }).await?;
    Ok(())
}

/// How many items a run has that are in no other and not taken out.
async fn own_items(store: &dyn Store, recipe: &Recipe, run: RunId) -> Result<u64, redrive_store::Error> {
    let counts = crate::counts::own_counts(&store.counters(run).await?, &recipe.plan);
    Ok(counts.admitted.saturating_sub(counts.superseded + counts.cancelled + counts.purged))
}
