//! A source's items are admitted to a run, in pieces, as fast as they are worked off; and again whenever it changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::reading::Reading;
use redrive_core::status::Control;
use redrive_store::{Cursor, ItemFilter, ItemQuery, RunRow, Store};
use tokio::sync::{Notify, watch};

mod inbox;
mod submit;
mod unseen;

pub use inbox::{close, hand_in};
pub use submit::{Batch, Settled, submit};
pub use unseen::remove_unseen;

use crate::crash;
use crate::env::Env;
use crate::patience::Patience;
use crate::recipe::Recipe;
use crate::source::{Piece, Source, SourceError, Standing};
use crate::worker::Stop;

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

/// What there is to be read.
enum Begun {
    /// Nothing.
    Nothing,
    /// This.
    Reading(Reading),
    /// What somebody else reads.
    Overtaken,
}

/// How a reading ended.
enum Read {
    /// At the end of the source.
    Whole,
    /// The run or the session is not to go on.
    Over,
    /// Somebody else reads the source anew.
    Overtaken,
}

impl Admission {
    /// Reads the source to its end and, beside work, watches it, until the run is paused or stopped.
    pub async fn admit(self, source: Box<dyn Source>) -> Admitted {
        let mut reader =
            Reader { admission: &self, source: Some(source), news: News::default(), last: self.last };
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
/// whole reading, and a line that was refused for another one's sake is looked at again when that one may be gone.
///
/// # Errors
/// When the store fails.
pub async fn starts_over(store: &dyn Store, row: &RunRow) -> Result<bool, redrive_store::Error> {
    let filter =
        ItemFilter { run: Some(row.id), top: true, state: Some(StateKind::Dead), ..ItemFilter::default() };
    let mut query = ItemQuery { filter, after: None, limit: 500 };
    loop {
        let page = store.items(query.clone()).await?;
        if row.duplicates > 0 || page.iter().any(Item::is_refused) {
            return Ok(true);
        }
        let Some(last) = page.last() else { return Ok(false) };
        query.after = Some(last.seq);
    }
}

/// How many items a run has that are in no other and not taken out.
async fn own_items(store: &dyn Store, recipe: &Recipe, run: RunId) -> Result<u64, redrive_store::Error> {
    let counts = crate::counts::own_counts(&store.counters(run).await?, &recipe.plan);
    Ok(counts.admitted.saturating_sub(counts.superseded + counts.cancelled + counts.purged))
}

/// Logs that a run's source was read to its end.
fn log_read(run: RunId, reading: u32, news: &News) {
    let News { new, changed, back, removed, refused, .. } = news;
    tracing::info!(target: "redrive::run", %run, reading, new, changed, back, removed, refused, "source read");
}

/// Somebody who reads.
struct Reader<'a> {
    admission: &'a Admission,
    source: Option<Box<dyn Source>>,
    news: News,
    last: u32,
}

impl Reader<'_> {
    async fn run(&mut self) -> Result<(), AdmitError> {
        let mut begun = self.begin().await?;
        loop {
            let read = match begun {
                Begun::Nothing => Read::Whole,
                Begun::Reading(reading) => {
                    let read = self.read(reading).await?;
                    if matches!(read, Read::Whole) {
                        log_read(self.admission.run, reading.number, &self.news);
                    }
                    read
                }
                Begun::Overtaken => Read::Overtaken,
            };
            match read {
                Read::Whole => {}
                Read::Over => return Ok(()),
                Read::Overtaken => {
                    let Some(last) = self.admission.wait_for_the_other().await? else {
                        // What it has read is not what was read here: nothing can be said of the source here any more.
                        self.source = None;
                        return Ok(());
                    };
                    self.last = last;
                    begun = self.begin_anew(true).await?;
                    continue;
                }
            }
            self.admission.admitting.store(false, Ordering::SeqCst);
            self.admission.wake.notify_one();
            if self.admission.pace == Pace::HandingOver || !self.watch().await? {
                return Ok(());
            }
            begun = self.begin_anew(false).await?;
        }
    }

    /// The reading that is to be made, if one is: the one that was broken off, or a new one.
    async fn begin(&mut self) -> Result<Begun, AdmitError> {
        let Some(source) = &self.source else { return Ok(Begun::Nothing) };
        let (standing, agreed) = (source.standing(), source.start().agreed);
        let row = self.admission.store.run(self.admission.run).await?;
        let Some(row) = row else { return Ok(Begun::Nothing) };
        if row.reading != self.last {
            return Ok(Begun::Overtaken);
        }
        match standing {
            Standing::Unchanged if row.admitted_all => Ok(Begun::Nothing),
            Standing::Unchanged | Standing::GoesOn if row.reading > 0 && !row.admitted_all => {
                Ok(Begun::Reading(Reading { number: row.reading, agreed }))
            }
            Standing::Unchanged | Standing::GoesOn => self.begin_anew(true).await,
            Standing::Anew => self.begin_anew(false).await,
        }
    }

    /// A new reading, from where the source still agrees, or from its beginning. Repeated lines are counted for a whole
    /// reading, so where there were any it is the beginning too.
    async fn begin_anew(&mut self, rewind: bool) -> Result<Begun, AdmitError> {
        let row = self.admission.store.run(self.admission.run).await?;
        let Some(row) = row else { return Ok(Begun::Nothing) };
        let over = starts_over(&*self.admission.store, &row).await?;
        let Some(source) = &mut self.source else { return Ok(Begun::Nothing) };
        if over || rewind {
            source.rewind()?;
        }
        let start = source.start();
        self.admission.admitting.store(true, Ordering::SeqCst);
        let begun = self.admission.store.begin_reading(self.admission.run, self.last, start.position).await;
        let number = match begun {
            Ok(number) => number,
            Err(redrive_store::Error::Overtaken { .. }) => return Ok(Begun::Overtaken),
            Err(error) => return Err(error.into()),
        };
        self.last = number;
        crash::point("admit.reading_begun");
        Ok(Begun::Reading(Reading { number, agreed: start.agreed }))
    }

    async fn read(&mut self, reading: Reading) -> Result<Read, AdmitError> {
        let Admission { env, .. } = self.admission;
        let mut patience = Patience::default();
        self.news.readings += 1;
        loop {
            match self.admission.has_room().await {
                Ok(Room::Some) => {}
                Ok(Room::None) => {
                    env.clock.sleep(PAUSE).await;
                    continue;
                }
                Ok(Room::Over) => return Ok(Read::Over),
                Err(error) => {
                    patience.bear(error, PATIENCE, env).await?;
                    continue;
                }
            }
            let piece = self.next_piece().await?;
            if piece.done && piece.items.is_empty() && self.admission.is_admitted().await? {
                return Ok(Read::Whole);
            }
            crash::point("admit.before_submit");
            let ended = loop {
                match self.submit(&piece, reading).await {
                    Ok(()) => break None,
                    // A run that was cancelled takes no more items, and that is the end of it.
                    Err(redrive_store::Error::RunCancelled { .. }) => break Some(Read::Over),
                    Err(redrive_store::Error::Overtaken { .. }) => break Some(Read::Overtaken),
                    Err(error) => patience.bear(error, PATIENCE, env).await?,
                }
            };
            if let Some(ended) = ended {
                return Ok(ended);
            }
            patience.rest();
            crash::point("admit.after_submit");
            self.admission.wake.notify_one();
            if piece.done {
                return Ok(Read::Whole);
            }
        }
    }

    async fn next_piece(&mut self) -> Result<Piece, AdmitError> {
        let lost = |text: &str| {
            let cause = std::io::Error::other(text.to_owned());
            AdmitError::from(SourceError { what: "the source".to_owned(), cause })
        };
        let mut source = self.source.take().ok_or_else(|| lost("it is gone"))?;
        let read = tokio::task::spawn_blocking(move || {
            let piece = source.next_piece();
            (source, piece)
        });
        let Ok((given_back, piece)) = read.await else { return Err(lost("reading it panicked")) };
        self.source = Some(given_back);
        Ok(piece?)
    }

    /// Submits a piece. At the end, what the source does not have any more is taken out first: only then is it read.
    async fn submit(&mut self, piece: &Piece, reading: Reading) -> Result<(), redrive_store::Error> {
        let Admission { store, recipe, env, run, .. } = self.admission;
        let whole = self.source.as_ref().is_some_and(|source| source.is_whole());
        let sweeps = piece.done && whole && reading.number > 1;
        let cursor = |done| Cursor { position: piece.position.clone(), done, duplicates: 0 };
        let batch =
            Batch { run: *run, reading, items: piece.items.clone(), cursor: cursor(piece.done && !sweeps) };
        let settled = submit(&**store, recipe, env, batch).await?;
        self.news.new += settled.new;
        self.news.changed += settled.changed;
        self.news.back += settled.back;
        self.news.refused += settled.refused;
        if sweeps {
            crash::point("admit.before_sweep");
            if self.source.as_ref().is_some_and(|source| source.is_empty()) {
                // A source without a single line is more likely being written, or not mounted, than meant.
                self.news.kept_back = own_items(&**store, recipe, *run).await?;
            } else {
                self.news.removed += remove_unseen(&**store, recipe, env, *run, reading).await?;
            }
            let batch = Batch { run: *run, reading, items: Vec::new(), cursor: cursor(true) };
            submit(&**store, recipe, env, batch).await?;
        }
        Ok(())
    }

    /// Watches a source that was read; `true` when it is other than it was read, `false` when told to stop.
    async fn watch(&mut self) -> Result<bool, AdmitError> {
        let mut told = false;
        while self.admission.rest(WATCH).await {
            let Some(mut source) = self.source.take() else { return Ok(false) };
            let looked = tokio::task::spawn_blocking(move || {
                let changed = source.has_changed(false);
                (source, changed)
            });
            let Ok((given_back, changed)) = looked.await else { return Ok(false) };
            self.source = Some(given_back);
            match changed {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // What was read of it is admitted; whether it comes back is seen next time.
                Err(error) if !told => {
                    told = true;
                    tracing::warn!(%error, "the source cannot be looked at any more");
                }
                Err(_) => {}
            }
        }
        Ok(false)
    }
}
