//! The source is read as a run would read it, and nothing is written.

use redrive_core::id::RunId;
use redrive_core::reading::Reading;
use redrive_engine::admit::{Ahead, Foreseen, Foresight, Newness, Part, starts_over};
use redrive_engine::source::{Source, Standing};
use redrive_store::{ItemFilter, ItemQuery, RunRow};

use super::again::GoingAgain;
use super::{Lines, RefusedLine};
use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::begin::Prepared;
use crate::runs::edit::Edit;
use crate::sources::SourceName;

/// Most lines that cannot be used that are told one by one.
const MOST_REFUSED: usize = 10;
/// Items looked at in one go.
const PAGE: usize = 500;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In the source.
    pub(super) read: Lines,
    /// The first of the lines that cannot be used.
    pub(super) refusals: Vec<RefusedLine>,
    /// Items of the run that go again.
    pub(super) again: GoingAgain,
}

/// Reads the source as the run would, and says what it would find.
pub(super) async fn look(
    floor: &Floor,
    prepared: Prepared,
    part: &Part,
    row: Option<&RunRow>,
    edit: Option<&Edit>,
) -> Result<Found> {
    let from_the_beginning = matches!(edit, Some(Edit::Again { from_start, .. }) if *from_start > 0);
    let definition = prepared.pipeline.definition.clone();
    let wiring = &*floor.wiring;
    let source = match row {
        Some(row) if SourceName::of(row).can_be_read_again() => {
            Some(prepared.source.open(wiring, &definition, row.cursor.as_deref(), None)?)
        }
        // A directory is opened here, too.
        _ => match prepared.source.can_be_read_again() {
            true => Some(prepared.source.open(wiring, &definition, None, None)?),
            false => prepared.unread(),
        },
    };
    let unread = Foresight::new(row.map(|row| row.id), Reading { number: 1, ..Reading::NONE });
    let Some(mut source) = source else {
        let again = GoingAgain::find(floor, row, &definition, edit, &unread).await?;
        return Ok(Found { again, ..Found::default() });
    };
    let mut number = 1;
    if let Some(row) = row {
        let known = own_items(floor, row).await?;
        if source.standing() == Standing::Unchanged && row.admitted_all && !from_the_beginning {
            let read = Lines { known, duplicates: row.duplicates, admitted_all: true, ..Lines::default() };
            let again = GoingAgain::find(floor, Some(row), &definition, edit, &unread).await?;
            return Ok(Found { read, again, ..Found::default() });
        }
        if from_the_beginning || starts_over(&*floor.store, row).await? {
            source.rewind().map_err(|error| Error::internal(error.to_string()))?;
        }
        number = row.reading + 1;
    }
    let reading = Reading { number, agreed: source.start().agreed };
    let run = row.map(|row| row.id);
    let mut reader = Looking {
        floor,
        part,
        run,
        reading,
        foresight: Foresight::new(run, reading),
        found: Lines::default(),
        refusals: Vec::new(),
    };
    reader.read(source).await?;
    if let Some(row) = row {
        reader.found.known = reader.known_of(row).await?;
    }
    let again = GoingAgain::find(floor, row, &definition, edit, &reader.foresight).await?;
    Ok(Found { read: reader.found, refusals: reader.refusals, again })
}

/// How many items a run has that are in its source, as far as is known.
async fn own_items(floor: &Floor, row: &RunRow) -> Result<u64> {
    let filter =
        ItemFilter { run: Some(row.id), top: true, unseen: Some(Reading::NONE), ..ItemFilter::default() };
    count(floor, filter, |_| true).await
}

async fn count(
    floor: &Floor,
    filter: ItemFilter,
    wanted: impl Fn(&redrive_core::item::Item) -> bool,
) -> Result<u64> {
    let (mut found, mut after) = (0, None);
    loop {
        let page = floor.store.items(ItemQuery { filter: filter.clone(), after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.seq);
        found += page.iter().filter(|item| wanted(item)).count() as u64;
    }
}

/// Somebody who reads and writes nothing.
struct Looking<'a> {
    floor: &'a Floor,
    part: &'a Part,
    run: Option<RunId>,
    reading: Reading,
    foresight: Foresight,
    found: Lines,
    refusals: Vec<RefusedLine>,
}

impl Looking<'_> {
    async fn read(&mut self, mut source: Box<dyn Source>) -> Result<()> {
        loop {
            let read = tokio::task::spawn_blocking(move || {
                let piece = source.next_piece();
                (source, piece)
            });
            let (given_back, piece) =
                read.await.map_err(|error| Error::internal(format!("reading the source broke: {error}")))?;
            source = given_back;
            let piece = piece.map_err(|error| {
                Error::wrong(error.to_string())
                    .hint("name the source with --input FILE, or in the pipeline's [source] path")
            })?;
            let Ahead { lines, whole, over } =
                self.part.ahead(&*self.floor.store, &mut self.foresight, &piece).await?;
            for (item, foreseen) in &lines {
                self.count(item.origin, &item.key, foreseen);
            }
            if over || piece.done {
                self.found.admitted_all = whole && !over;
                break;
            }
        }
        if self.found.admitted_all && source.is_whole() && self.reading.number > 1 {
            self.find_removed(source.is_empty()).await?;
        }
        Ok(())
    }

    fn count(&mut self, line: u64, key: &str, foreseen: &Foreseen) {
        match foreseen.newness {
            Newness::New => self.found.new += 1,
            Newness::Changed => self.found.changed += 1,
            Newness::Back => self.found.back += 1,
            Newness::Known => {}
            Newness::Repeats => self.found.duplicates += 1,
        }
        if let Some(why) = &foreseen.refused {
            self.found.refused += 1;
            if self.refusals.len() < MOST_REFUSED {
                self.refusals.push(RefusedLine { line, key: key.to_owned(), why: why.to_string() });
            }
        }
    }

    /// What the source does not have any more.
    async fn find_removed(&mut self, empty: bool) -> Result<()> {
        let filter =
            ItemFilter { run: self.run, top: true, unseen: Some(self.reading), ..ItemFilter::default() };
        let unseen = count(self.floor, filter, |item| !self.foresight.has_seen(&item.key)).await?;
        match empty {
            true => self.found.kept_back = unseen,
            false => self.found.removed = unseen,
        }
        Ok(())
    }

    /// Items of the run that stay as they are.
    async fn known_of(&self, row: &RunRow) -> Result<u64> {
        let Lines { changed, removed, kept_back, .. } = self.found;
        Ok(own_items(self.floor, row).await?.saturating_sub(changed + removed + kept_back))
    }
}
