//! One look at everything.

use redrive_core::id::RunId;
use redrive_core::status::{Counts, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::report::{Attempts, GateReport, PauseView, RunReport, run_reports};
use redrive_store::{RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use super::flow::{StageView, stage_views};
use crate::dead::{self, DeadGroup, Which};
use crate::error::{Error, Result};
use crate::runs::KnownRun;
use crate::{Floor, gates, pipelines};

/// Most runs that are looked at.
const MOST: usize = 200;
/// Runs that ended are looked for among so many of the newest.
const NEWEST: usize = 200;
/// Most groups of dead items.
const MOST_GROUPS: usize = 100;

/// What to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Look {
    /// Only at this run, and its dead items.
    pub run: Option<RunId>,
    /// At this many of the runs that ended last.
    pub ended: usize,
    /// At this many of the largest groups of dead items.
    pub groups: usize,
}

impl Default for Look {
    fn default() -> Self {
        Self { run: None, ended: 10, groups: 20 }
    }
}

/// Everything that goes on, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Overview {
    /// When it was so.
    pub at: String,
    /// The same, as a value.
    #[serde(skip)]
    pub now: Timestamp,
    /// Runs that are not finished, newest first, then those that ended last.
    pub runs: Vec<RunView>,
    /// How each gate stands, by name.
    pub gates: Vec<GateReport>,
    /// The largest groups of dead items.
    pub dead: Vec<DeadGroup>,
    /// All of that, added up.
    pub totals: Totals,
}

/// What is told of the runs, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    /// Runs that are not finished.
    pub going_on: usize,
    /// Runs that ended.
    pub ended: usize,
    /// Workers that have a run open.
    pub workers: usize,
    /// Items of all these runs by state, children left out.
    pub counts: Counts,
    /// Attempts of all these runs.
    pub attempts: Attempts,
    /// Gates that are not open.
    pub gates_shut: usize,
}

/// A run, at one moment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunView {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Its source.
    pub source: String,
    /// Its category.
    pub category: Option<String>,
    /// How it stands.
    pub status: RunStatus,
    /// Why it is paused.
    pub reason: Option<String>,
    /// What somebody paused of its pipeline.
    pub paused: Vec<PauseView>,
    /// Whether it has ended: it is finished, or was cancelled.
    pub ended: bool,
    /// Whether more items are to come from its source.
    pub reading: bool,
    /// Its own items by state.
    pub counts: Counts,
    /// How many answers are awaited.
    #[serde(skip)]
    pub awaited: u64,
    /// Attempts of all its items.
    pub attempts: Attempts,
    /// When its next waiting item is due.
    pub next_due: Option<String>,
    /// When it was created.
    pub created_at: String,
    /// When it finished.
    pub finished_at: Option<String>,
    /// How long somebody was at it.
    pub elapsed_ms: i64,
    /// Who works on it now.
    pub workers: Vec<String>,
    /// Its stages; those below another one hold its children.
    pub stages: Vec<StageView>,
}

/// Looks at everything that goes on.
///
/// # Errors
/// When the run that was named does not exist, or the store fails.
pub async fn overview(floor: &Floor, request: &Look) -> Result<Overview> {
    let now = floor.now();
    let snapshot = floor.store.snapshot().await?;
    let floor = Floor { store: snapshot.store, index: snapshot.index, ..floor.clone() };
    let known: Vec<KnownRun> = rows(&floor, request).await?.into_iter().filter_map(known).collect();
    let asked: Vec<_> =
        known.iter().map(|known| (&known.row, &known.plan, known.definition.thresholds)).collect();
    let reports = run_reports(&*floor.store, &asked, now).await?;
    let mut runs = Vec::with_capacity(known.len());
    for (known, report) in known.iter().zip(reports) {
        let ended = is_ended(&known.row);
        let dues = if ended { Vec::new() } else { floor.store.due_by_stage(known.row.id).await? };
        let stages = stage_views(&report.stages, &dues, now);
        runs.push(view(&known.row, report, stages));
    }
    let gates = gates::list(&floor).await?.gates;
    let which = Which { run: request.run, ..Which::default() };
    let dead = match request.groups {
        0 => Vec::new(),
        limit => dead::groups(&floor, &which, limit.min(MOST_GROUPS)).await?.groups,
    };
    let totals = totals(&runs, &gates);
    Ok(Overview { at: now.to_string(), now, runs, gates, dead, totals })
}

/// The runs that are meant: those that go on, newest first, then those that ended, the last one first.
async fn rows(floor: &Floor, request: &Look) -> Result<Vec<RunRow>> {
    if let Some(run) = request.run {
        let row = floor.store.run(run).await?;
        let missing =
            || Error::not_found(format!("run {run} does not exist")).hint("`redrive runs` lists them");
        return Ok(vec![row.ok_or_else(missing)?]);
    }
    let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
    let mut rows = floor.store.runs(unfinished, None, MOST).await?;
    let mut ended = floor.store.runs(RunFilter::default(), None, NEWEST).await?;
    ended.retain(is_ended);
    ended.sort_by_key(|row| std::cmp::Reverse((row.finished_at.unwrap_or(row.created_at), row.id)));
    ended.truncate(request.ended);
    rows.extend(ended);
    rows.retain(|row| !row.spec.is_internal());
    Ok(rows)
}

fn is_ended(row: &RunRow) -> bool {
    row.finished_at.is_some() || row.control == redrive_core::status::Control::Cancelled
}

/// A run whose pipeline this version can read; one that it cannot read has no stages to tell of.
fn known(row: RunRow) -> Option<KnownRun> {
    let definition = pipelines::definition_of(&row)?;
    let plan = definition.plan();
    Some(KnownRun { row, definition, plan })
}

fn view(row: &RunRow, report: RunReport, stages: Vec<StageView>) -> RunView {
    RunView {
        run: report.run,
        pipeline: report.pipeline,
        source: report.source,
        category: report.category,
        status: report.status,
        reason: report.reason,
        paused: report.paused,
        ended: is_ended(row),
        reading: !report.admitted_all && !row.spec.is_standing(),
        counts: report.counts,
        awaited: report.awaited,
        attempts: report.attempts,
        next_due: report.next_due,
        created_at: report.created_at,
        finished_at: report.finished_at,
        elapsed_ms: report.elapsed_ms,
        workers: report.workers,
        stages,
    }
}

fn totals(runs: &[RunView], gates: &[GateReport]) -> Totals {
    let mut sum =
        Totals { gates_shut: gates.iter().filter(|gate| gate.state != "open").count(), ..Totals::default() };
    let mut workers: Vec<&str> = Vec::new();
    for run in runs {
        *(if run.ended { &mut sum.ended } else { &mut sum.going_on }) += 1;
        workers.extend(run.workers.iter().map(String::as_str));
        sum.counts = sum.counts.plus(&run.counts);
        sum.attempts.total += run.attempts.total;
        sum.attempts.failures += run.attempts.failures;
        sum.attempts.throttles += run.attempts.throttles;
        sum.attempts.crashes += run.attempts.crashes;
    }
    workers.sort_unstable();
    workers.dedup();
    sum.workers = workers.len();
    sum
}
