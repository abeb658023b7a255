//! A source is read in pieces, and each is submitted with how far that is.

use std::sync::atomic::Ordering;

use redrive_core::id::RunId;
use redrive_core::item::NewItem;
use redrive_core::reading::Reading;
use redrive_store::{Cursor, RunChange, RunRow};

use super::{Admission, AdmitError, Batch, KnownKeys, News, PATIENCE, PAUSE, Pace, Room, WATCH};
use super::{note_start, own_items, remove_unseen, starts_over, submit};
use crate::crash;
use crate::patience::Patience;
use crate::source::{Piece, Source, SourceError, Standing, read_apart};

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

/// Somebody who reads.
pub(super) struct Reader<'a> {
    pub(super) admission: &'a Admission,
    pub(super) source: Option<Box<dyn Source>>,
    pub(super) news: News,
    pub(super) last: u32,
    /// Up to here everything is admitted that is to be.
    pub(super) position: String,
}

/// What of a piece is submitted.
struct Taken {
    items: Vec<NewItem>,
    cursor: Cursor,
    /// Whether the reading ends with it although there is more that it has not admitted.
    part: bool,
}

impl Reader<'_> {
    pub(super) async fn run(&mut self) -> Result<(), AdmitError> {
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
            let once = self.admission.pace == Pace::HandingOver || self.admission.part.is_some();
            if once || !self.watch().await? {
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
        self.position = row.cursor.clone().unwrap_or_default();
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
        self.position = start.position.clone().unwrap_or_default();
        self.admission.admitting.store(true, Ordering::SeqCst);
        note_start(&*self.admission.store, &row, &start).await?;
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
            let taken = loop {
                match self.take(&piece, reading).await {
                    Ok(taken) => break taken,
                    Err(error) => patience.bear(error, PATIENCE, env).await?,
                }
            };
            if taken.items.is_empty() && !taken.cursor.done && taken.cursor.position == self.position {
                continue;
            }
            crash::point("admit.before_submit");
            let ended = loop {
                match self.submit(&taken, reading).await {
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
            self.position = taken.cursor.position;
            patience.rest();
            crash::point("admit.after_submit");
            self.admission.wake.notify_one();
            if taken.cursor.done {
                return Ok(Read::Whole);
            }
        }
    }

    /// What of a piece is submitted: all of it, or what is asked for. Where something is left out that a later reading has to
    /// see, the position stays where it was.
    async fn take(&mut self, piece: &Piece, reading: Reading) -> Result<Taken, redrive_store::Error> {
        let Admission { store, run, part, .. } = self.admission;
        let cursor = |position: &String, done| Cursor { position: position.clone(), done, duplicates: 0 };
        let Some(part) = part else {
            let cursor = cursor(&piece.position, piece.done);
            return Ok(Taken { items: piece.items.clone(), cursor, part: false });
        };
        let cut = part.cut(&**store, *run, reading, piece).await?;
        let ends = cut.over || (piece.done && !cut.whole);
        let position = if cut.whole { &piece.position } else { &self.position };
        Ok(Taken { items: cut.items, cursor: cursor(position, ends || piece.done), part: ends })
    }

    async fn next_piece(&mut self) -> Result<Piece, AdmitError> {
        let lost = || {
            let cause = std::io::Error::other("it is gone");
            AdmitError::from(SourceError { what: "the source".to_owned(), cause })
        };
        let (given_back, piece) = read_apart(self.source.take().ok_or_else(lost)?).await?;
        self.source = Some(given_back);
        Ok(piece?)
    }

    /// Submits what was taken of a piece. At the end of the source, what it does not have any more is taken out first: only
    /// then is it read.
    async fn submit(&mut self, taken: &Taken, reading: Reading) -> Result<(), redrive_store::Error> {
        let Admission { store, recipe, env, run, .. } = self.admission;
        let whole = self.source.as_ref().is_some_and(|source| source.is_whole());
        let sweeps = taken.cursor.done && !taken.part && whole && reading.number > 1;
        if taken.part {
            // Noted first: once the reading is over, nobody who only works on the run may take it for a whole one.
            let learn = Some((RunRow::part_mark(reading.number), 1));
            store.change_run(*run, RunChange { learn, ..RunChange::default() }).await?;
        }
        let cursor = |done| Cursor { done, ..taken.cursor.clone() };
        let done = taken.cursor.done && !sweeps;
        let batch = Batch {
            run: *run,
            reading,
            items: taken.items.clone(),
            cursor: cursor(done),
            known_keys: KnownKeys::Replaced,
        };
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
            let batch = Batch {
                run: *run,
                reading,
                items: Vec::new(),
                cursor: cursor(true),
                known_keys: KnownKeys::Replaced,
            };
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

/// Logs that a run's source was read to its end.
fn log_read(run: RunId, reading: u32, news: &News) {
    let News { new, changed, back, removed, refused, .. } = news;
    tracing::info!(target: "redrive::run", %run, reading, new, changed, back, removed, refused, "source read");
}
