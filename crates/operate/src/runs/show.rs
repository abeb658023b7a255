//! How runs stand.

use redrive_core::id::RunId;
use redrive_engine::report::{RunReport, run_report, run_reports};
use redrive_store::{RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use super::{KnownRun, Runs};
use crate::Floor;
use crate::error::Result;
use crate::pipelines;

/// Most runs of a list.
const MOST: usize = 1_000;

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Only runs of this pipeline.
    pub pipeline: Option<String>,
    /// At most so many.
    pub limit: usize,
}

/// Runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunList {
    /// How each of them stands.
    pub runs: Vec<RunReport>,
}

/// Lists runs, newest first. One whose pipeline this version cannot read has no stages to report on and is left out;
/// [`show`] says what is wrong with it.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor, request: &List) -> Result<RunList> {
    let filter = RunFilter { pipeline: request.pipeline.clone(), ..RunFilter::default() };
    let rows = floor.store.runs(filter, None, request.limit.min(MOST)).await?;
    let known = rows.into_iter().filter_map(|row| {
        let definition = pipelines::definition_of(&row)?;
        let plan = definition.plan();
        Some(KnownRun { row, definition, plan })
    });
    let known: Vec<KnownRun> = known.collect();
    let asked: Vec<_> =
        known.iter().map(|known| (&known.row, &known.plan, known.definition.thresholds)).collect();
    Ok(RunList { runs: run_reports(&*floor.store, &asked, floor.now()).await? })
}

/// Says how a run stands, or the newest one.
///
/// # Errors
/// When there is no such run or the store fails.
pub async fn show(floor: &Floor, run: Option<RunId>) -> Result<RunReport> {
    report(floor, &Runs::of(&*floor.store).find(run).await?).await
}

/// Says how a run stands that was found before.
///
/// # Errors
/// When the store fails.
pub async fn report(floor: &Floor, known: &KnownRun) -> Result<RunReport> {
    let KnownRun { row, definition, plan } = known;
    Ok(run_report(&*floor.store, row, plan, definition.thresholds, floor.now()).await?)
}

/// The same after the run has been changed.
pub(super) async fn report_changed(floor: &Floor, known: KnownRun, row: RunRow) -> Result<RunReport> {
    report(floor, &KnownRun { row, ..known }).await
}
