//! How runs stand.

use redrive_core::id::RunId;
use redrive_core::status::{Counts, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::report::{RunReport, run_report, run_reports};
use redrive_store::{NewRun, RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use super::{KnownRun, Runs};
use crate::Floor;
use crate::error::Result;
use crate::pipelines;

/// Most runs of a list.
const MOST: usize = 1_000;
/// Runs that are read at a time where some are left out.
const PAGE: usize = 200;

/// Which runs to list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct List {
    /// Only runs of this pipeline. Those of Redrive's own are listed where they are asked for: `redrive.notify` means all
    /// of them.
    pub pipeline: Option<String>,
    /// Only runs that stand like one of these; empty: however they stand.
    #[serde(default)]
    pub status: Vec<RunStatus>,
    /// Only runs that are not finished, or finished within so many milliseconds.
    #[serde(default)]
    pub within_ms: Option<i64>,
    /// Only older runs than this one: where a list before ended.
    #[serde(default)]
    pub before: Option<RunId>,
    /// At most so many.
    pub limit: usize,
}

impl List {
    /// Whether every run of the pipeline is meant.
    fn is_plain(&self) -> bool {
        self.status.is_empty() && self.within_ms.is_none()
    }
}

/// Runs, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunList {
    /// How each of them stands.
    pub runs: Vec<RunReport>,
    /// Their items by state, added up.
    pub total: Counts,
}

/// Lists runs, newest first. One whose pipeline this version cannot read has no stages to report on and is left out;
/// [`show`] says what is wrong with it.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor, request: &List) -> Result<RunList> {
    let (now, limit) = (floor.now(), request.limit.min(MOST));
    let all_internal = request.pipeline.as_deref() == NewRun::INTERNAL.strip_suffix('.');
    let pipeline = request.pipeline.clone().filter(|_| !all_internal);
    let filter = RunFilter { pipeline: pipeline.clone(), ..RunFilter::default() };
    let since = request.within_ms.map(|span| Timestamp(now.0.saturating_sub(span)));
    let (mut runs, mut before) = (Vec::new(), request.before);
    while runs.len() < limit {
        // Where nothing is filtered out, one page is enough.
        let wanted = if request.is_plain() { limit - runs.len() } else { PAGE };
        let mut page = floor.store.runs(filter.clone(), before, wanted).await?;
        let Some(last) = page.last().map(|row| row.id) else { break };
        before = Some(last);
        page.retain(|row| pipeline.is_some() || row.spec.is_internal() == all_internal);
        page.retain(|row| since.is_none_or(|since| row.finished_at.is_none_or(|ended| ended >= since)));
        let reports = reports(floor, page, now).await?;
        let stands =
            |report: &RunReport| request.status.is_empty() || request.status.contains(&report.status);
        runs.extend(reports.into_iter().filter(stands));
    }
    runs.truncate(limit);
    let total = runs.iter().fold(Counts::default(), |sum, run| sum.plus(&run.counts));
    Ok(RunList { runs, total })
}

/// How runs stand whose pipelines can be read.
async fn reports(floor: &Floor, rows: Vec<RunRow>, now: Timestamp) -> Result<Vec<RunReport>> {
    let known = rows.into_iter().filter_map(|row| {
        let definition = pipelines::definition_of(&row)?;
        let plan = definition.plan();
        Some(KnownRun { row, definition, plan })
    });
    let known: Vec<KnownRun> = known.collect();
    let asked: Vec<_> =
        known.iter().map(|known| (&known.row, &known.plan, known.definition.thresholds)).collect();
    Ok(run_reports(&*floor.store, &asked, now).await?)
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
