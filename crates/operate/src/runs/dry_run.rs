//! What a run would do, told without doing it: nothing is written, and no handler is called.

use redrive_core::id::RunId;
use redrive_core::reading::Reading;
use redrive_core::status::{Control, RunStatus};
use redrive_engine::admit::{Ahead, Foreseen, Foresight, Missing, Newness, Part, starts_over};
use redrive_engine::report::RunReport;
use redrive_engine::source::{Source, Standing};
use redrive_pipeline::{Definition, StageDef};
use redrive_store::{ItemFilter, ItemQuery, RunFilter, RunRow};
use serde::Serialize;

use super::begin::{Begin, Other, Prepared, cannot_go_on, new_run, refuse_part};
use super::edit::{Edit, foresee, refuse_other_stages};
use super::{KnownRun, report};
use crate::Floor;
use crate::error::{Error, Result};
use crate::sources::SourceName;
use crate::work::nothing_asked_for;

/// Most lines that cannot be used that are told one by one.
const MOST_REFUSED: usize = 10;
/// Items looked at in one go.
const PAGE: usize = 500;

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DryRun {
    /// Always so: nothing was done.
    pub dry_run: bool,
    /// The pipeline.
    pub pipeline: String,
    /// The source.
    pub source: String,
    /// What would be done first.
    pub would: Would,
    /// The run that would be gone on with.
    pub run: Option<RunId>,
    /// How it stands.
    pub status: Option<RunStatus>,
    /// A finished run of the same pipeline and source that could not be gone on with.
    pub other: Option<Other>,
    /// What the edited pipeline would bring about.
    pub edit: Option<Edit>,
    /// Items of the run that are not finished, and would be gone on with.
    pub unfinished: u64,
    /// What would be found in the source.
    pub read: Lines,
    /// The first of the lines that cannot be used.
    pub refusals: Vec<RefusedLine>,
    /// Keys that were asked for and are not in the source.
    pub missing: Vec<String>,
    /// The stages, in their order.
    pub stages: Vec<StageAhead>,
}

/// What a run would do first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Would {
    /// A new run would begin.
    Begin,
    /// A run that is there would go on.
    GoOn,
    /// Nothing: the run of this pipeline and source is paused.
    Nothing,
}

/// What would be found in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Lines {
    /// Items that are not there yet.
    pub new: u64,
    /// Items whose content is another than before.
    pub changed: u64,
    /// Items whose content is one that they had before.
    pub back: u64,
    /// Items that are there as they are. Those before the first line that differs are among them.
    pub known: u64,
    /// Items that the source does not have any more.
    pub removed: u64,
    /// Items that would stay though the source does not have them, because it has nothing at all.
    pub kept_back: u64,
    /// Lines that cannot be used; they are counted in the others, too.
    pub refused: u64,
    /// Lines that repeat an earlier one.
    pub duplicates: u64,
    /// Whether all of the source would be admitted.
    pub admitted_all: bool,
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedLine {
    /// Its line, counted over all files.
    pub line: u64,
    /// Its key.
    pub key: String,
    /// Why.
    pub why: String,
}

/// A stage, and what it would have to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageAhead {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: String,
    /// The gate its calls pass.
    pub gate: Option<String>,
    /// Most items in one call.
    pub batch: u64,
    /// Most items that would come to it, if none is filtered or dies before; `null` where that depends on what another stage
    /// makes of them.
    pub items: Option<u64>,
    /// Calls for these, each tried once.
    pub calls: Option<u64>,
}

/// Says what a run would do, and does nothing of it.
///
/// # Errors
/// When the run could not begin either, the source cannot be read, or the store fails.
pub async fn dry_run(floor: &Floor, prepared: Prepared, request: &Begin) -> Result<DryRun> {
    let definition = prepared.pipeline.definition.clone();
    refuse_part(&definition, "what a run of it would do cannot be told")?;
    let (row, other) = find(floor, &prepared, request).await?;
    let (pipeline, source) = (definition.name.clone(), prepared.source.name().to_owned());
    let (mut standing, mut edit) = (None, None);
    if let Some(row) = &row {
        let known = KnownRun { row: row.clone(), definition: definition.clone(), plan: definition.plan() };
        standing = Some(report(floor, &known).await?);
        if row.control == Control::Go {
            refuse_other_stages(row, &definition)?;
            edit = foresee(floor, row, &definition, request.keep_passed).await?;
        }
    }
    let would = match &row {
        None => Would::Begin,
        Some(row) if row.control == Control::Go => Would::GoOn,
        Some(_) => Would::Nothing,
    };
    let (mut read, mut refusals, mut missing) = (Lines::default(), Vec::new(), Missing::default());
    if would != Would::Nothing {
        let again = matches!(&edit, Some(Edit::Again { from_start, .. }) if *from_start > 0);
        let part = prepared.part.clone().unwrap_or_default();
        (read, refusals) = look(floor, prepared, &part, row.as_ref(), again).await?;
        missing = part.missing(&*floor.store, row.as_ref().map(|row| row.id)).await?;
    }
    if missing.none {
        return Err(nothing_asked_for(&source, &missing));
    }
    let unfinished = standing.as_ref().map_or(0, |report| report.counts.live());
    let stages = stages(&definition, standing.as_ref(), &read, edit.as_ref(), would);
    let (run, status) = (row.map(|row| row.id), standing.map(|report| report.status));
    Ok(DryRun {
        dry_run: true,
        pipeline,
        source,
        would,
        run,
        status,
        other,
        edit,
        unfinished,
        read,
        refusals,
        missing: missing.keys,
        stages,
    })
}

/// The run that would be gone on with, by the rule of [`begin`](super::begin()).
async fn find(
    floor: &Floor,
    prepared: &Prepared,
    request: &Begin,
) -> Result<(Option<RunRow>, Option<Other>)> {
    if request.new {
        return Ok((None, None));
    }
    let new = new_run(&prepared.pipeline, &prepared.source, request);
    let newest = async |finished| -> Result<Option<RunRow>> {
        let filter = RunFilter::going_on(&new, finished);
        Ok(floor.store.runs(filter, None, 1).await?.into_iter().next())
    };
    let Some(row) = newest(true).await? else { return Ok((None, None)) };
    let other = match row.finished_at {
        None => None,
        Some(_) => cannot_go_on(&row, &prepared.pipeline.definition, request.keep_passed),
    };
    match other {
        None => Ok((Some(row), None)),
        Some(other) => Ok((newest(false).await?, Some(other))),
    }
}

/// Reads the source as the run would, and says what it would find.
async fn look(
    floor: &Floor,
    prepared: Prepared,
    part: &Part,
    row: Option<&RunRow>,
    from_the_beginning: bool,
) -> Result<(Lines, Vec<RefusedLine>)> {
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
    let Some(mut source) = source else { return Ok((Lines::default(), Vec::new())) };
    let mut number = 1;
    if let Some(row) = row {
        let known = own_items(floor, row).await?;
        if source.standing() == Standing::Unchanged && row.admitted_all && !from_the_beginning {
            let lines = Lines { known, duplicates: row.duplicates, admitted_all: true, ..Lines::default() };
            return Ok((lines, Vec::new()));
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
    Ok((reader.found, reader.refusals))
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

/// What every stage would have to do.
fn stages(
    definition: &Definition,
    standing: Option<&RunReport>,
    read: &Lines,
    edit: Option<&Edit>,
    would: Would,
) -> Vec<StageAhead> {
    let fresh = (read.new + read.changed + read.back).saturating_sub(read.refused);
    let mut items = fresh;
    let mut ahead = Vec::new();
    for stage in definition.all_stages() {
        let top = definition.stages.iter().any(|top| top.name == stage.name);
        if top && would != Would::Nothing {
            items += left_at(standing, &stage.name) + again_at(edit, stage);
        }
        // A stage before it may make any number of children of an item.
        let items = top.then_some(items).filter(|_| would != Would::Nothing);
        let batch = u64::from(stage.batch.max(1));
        ahead.push(StageAhead {
            name: stage.name.clone(),
            kind: stage.kind.name().to_owned(),
            gate: stage.gate_name(),
            batch,
            items,
            calls: items.map(|items| items.div_ceil(batch)),
        });
    }
    ahead
}

/// Unfinished items of the run that are at a stage.
fn left_at(standing: Option<&RunReport>, stage: &str) -> u64 {
    let at = standing.and_then(|report| report.stages.iter().find(|at| at.name == *stage));
    at.map_or(0, |at| at.counts.waiting + at.counts.running)
}

/// Items that go again from this stage on.
fn again_at(edit: Option<&Edit>, at: &StageDef) -> u64 {
    match edit {
        Some(Edit::Again { stage, from_stage, .. }) if *stage == at.name => *from_stage,
        _ => 0,
    }
}
