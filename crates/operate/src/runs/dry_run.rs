//! What a run would do, told without doing it: nothing is written, and no handler is called.

mod again;
mod look;
mod stages;

use redrive_core::id::RunId;
use redrive_core::status::{Control, RunStatus};
use redrive_engine::admit::Missing;
use redrive_store::{RunFilter, RunRow};
use serde::Serialize;

use look::{Found, look};
pub use stages::StageAhead;
use stages::stages;

use super::begin::{Begin, Other, Prepared, cannot_go_on, new_run, refuse_part};
use super::edit::{Edit, foresee, refuse_other_stages};
use super::{KnownRun, report};
use crate::Floor;
use crate::error::Result;
use crate::work::nothing_asked_for;

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
    let (mut found, mut missing) = (Found::default(), Missing::default());
    if would != Would::Nothing {
        let part = prepared.part.clone().unwrap_or_default();
        found = look(floor, prepared, &part, row.as_ref(), edit.as_ref()).await?;
        missing = part.missing(&*floor.store, row.as_ref().map(|row| row.id)).await?;
    }
    let Found { read, refusals, again } = found;
    if missing.none {
        return Err(nothing_asked_for(&source, &missing));
    }
    let unfinished = standing.as_ref().map_or(0, |report| report.counts.live());
    let stages = stages(&definition, standing.as_ref(), &read, &again, would);
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
