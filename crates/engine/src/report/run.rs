//! The run report: how a run stands.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::plan::Plan;
use redrive_core::status::{Control, Counts, Left, RunStatus, Standing, Thresholds, run_status};
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::{Timestamp, millis};
use redrive_store::{ItemFilter, ItemQuery, NextDue, Pauses, Result, RunRow, Store, WorkerRow};
use serde::Serialize;

use super::pauses::{PauseView, pauses_on};
use super::usage::{UsageReport, usage};
use super::verdicts::{VerdictCounts, verdicts};
use crate::admit::News;
use crate::counts::{CountersOf, awaited, counts, is_own, judged_counts, own_counts};
use crate::identity::is_gone;
use crate::pause_words;

/// Most waiting items that are looked at for the time until which their answers are awaited.
const MOST_AWAITED: usize = 1_000;

/// How a run stands, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Its source.
    pub source: String,
    /// Its category.
    pub category: Option<String>,
    /// Its priority; higher goes first.
    pub priority: i32,
    /// How it stands.
    pub status: RunStatus,
    /// Why it is paused, or does not go on.
    pub reason: Option<String>,
    /// What somebody paused of its pipeline.
    pub paused: Vec<PauseView>,
    /// Its own items by state.
    pub counts: Counts,
    /// How many of all its items, children included, are handed over and wait for their answer; they are among the waiting, and among the running while
    /// their answer is asked for.
    pub awaited: u64,
    /// The last of these answers is awaited until then, where that is known.
    #[serde(skip)]
    pub awaited_until: Option<String>,
    /// Those of them that succeeded, by their verdict.
    pub verdicts: VerdictCounts,
    /// Attempts of all its items, children included.
    pub attempts: Attempts,
    /// What those attempts consumed; `null` when no stage reported anything.
    pub usage: Option<UsageReport>,
    /// Its dead items, children included.
    pub dead: DeadBy,
    /// Source lines that repeated an earlier one and were admitted once.
    pub duplicates: u64,
    /// Whether all of the source was admitted: it was read to the end, and not for a part of it only.
    pub admitted_all: bool,
    /// What this command found in the source; absent where it read none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadReport>,
    /// When the next waiting item is due.
    pub next_due: Option<String>,
    /// The same, as a value.
    #[serde(skip)]
    pub next_due_at: Option<Timestamp>,
    /// When the next item that was tried before is tried again, where nothing new is left and that is not now.
    #[serde(skip)]
    pub next_retry: Option<String>,
    /// The stage that external workers do, where items are due and none asks for them.
    #[serde(skip)]
    pub unasked: Option<String>,
    /// When it was created.
    pub created_at: String,
    /// When it finished.
    pub finished_at: Option<String>,
    /// How long somebody was at it, up to its end or to now: the time between two commands is not counted.
    pub elapsed_ms: i64,
    /// Who works on it now.
    pub workers: Vec<String>,
    /// The same per stage; stages below another one hold its children.
    pub stages: Vec<StageReport>,
}

impl RunReport {
    /// Whether it is paused because it has as many dead items as it may have: it goes on when there are fewer.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.status == RunStatus::PausedBudget && self.reason.as_deref().is_some_and(pause_words::is_full)
    }
}

/// What a command found in a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ReadReport {
    /// What changed.
    #[serde(flatten)]
    pub news: News,
    /// Items that are in the source as they were, and were not worked on again for it.
    pub left_alone: u64,
}

impl ReadReport {
    /// Sees what was found against all that a run has.
    #[must_use]
    pub fn new(news: News, counts: &Counts) -> Self {
        let gone = counts.superseded + counts.cancelled + counts.purged;
        let present = counts.admitted.saturating_sub(gone);
        Self { news, left_alone: present.saturating_sub(news.new + news.changed + news.back) }
    }
}

/// Attempts, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Attempts {
    /// All that ended.
    pub total: u64,
    /// Those that failed.
    pub failures: u64,
    /// Those that were turned away.
    pub throttles: u64,
    /// Those whose process died.
    pub crashes: u64,
}

/// Dead items, by why.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct DeadBy {
    /// By reason.
    pub by_reason: BTreeMap<&'static str, u64>,
    /// By class of the last failure.
    pub by_class: BTreeMap<&'static str, u64>,
}

/// One stage of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// The stage whose children run through it.
    pub below: Option<String>,
    /// Items that are at it, or ended at it.
    pub counts: Counts,
    /// Those that are handed over and wait for their answer; they are among the waiting, or the running while it is asked for.
    pub awaited: u64,
    /// Those that succeeded with it, by their verdict.
    pub verdicts: VerdictCounts,
    /// Its attempts.
    pub attempts: Attempts,
    /// What they consumed; `null` when nothing was reported.
    pub usage: Option<UsageReport>,
}

/// Reports on a run.
///
/// # Errors
/// When the store fails.
pub async fn run_report(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    thresholds: Thresholds,
    now: Timestamp,
) -> Result<RunReport> {
    read_report(store, row, plan, thresholds, None, now).await
}

/// Reports on a run to whoever worked on it and left it like this.
///
/// # Errors
/// When the store fails.
pub async fn report_on_leaving(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    thresholds: Thresholds,
    left: Option<Left>,
    now: Timestamp,
) -> Result<RunReport> {
    let report = read_report(store, row, plan, thresholds, left, now).await?;
    log_left(&report);
    Ok(report)
}

async fn read_report(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    thresholds: Thresholds,
    left: Option<Left>,
    now: Timestamp,
) -> Result<RunReport> {
    let (counters, workers) = (store.counters(row.id).await?, store.workers().await?);
    let (next_due, pauses) = (store.next_due(row.id).await?, store.pauses().await?);
    let unasked = unasked(store, row, plan, &counters, &pauses, now).await?;
    let unasked = unasked.as_deref();
    let seen = Seen { counters: &counters, workers: &workers, pauses: &pauses, next_due, unasked };
    let report = report(row, plan, thresholds, left, seen, now);
    let awaited_until = awaited_until(store, row.id, report.awaited).await?;
    Ok(RunReport { awaited_until, ..report })
}

/// Until when the last of so many answers is awaited; `None` where there are too many to look at each.
async fn awaited_until(store: &dyn Store, run: RunId, awaited: u64) -> Result<Option<String>> {
    if awaited == 0 {
        return Ok(None);
    }
    let filter = ItemFilter { run: Some(run), state: Some(StateKind::Waiting), ..ItemFilter::default() };
    let items = store.items(ItemQuery { filter, after: None, limit: MOST_AWAITED }).await?;
    let limits: Vec<Timestamp> =
        items.iter().filter_map(|item| item.handed.as_ref()).map(|handed| handed.until).collect();
    let last = limits.iter().max().filter(|_| limits.len() as u64 == awaited);
    Ok(last.map(Timestamp::to_string))
}

/// Logs that somebody leaves a run, which has ended or not.
fn log_left(report: &RunReport) {
    let (run, status, counts) = (report.run, report.status, &report.counts);
    let event = if report.finished_at.is_some() { "run ended" } else { "run left" };
    tracing::info!(
        target: "redrive::run",
        %run,
        pipeline = %report.pipeline,
        %status,
        why = report.reason.as_deref(),
        admitted = counts.admitted,
        succeeded = counts.succeeded,
        filtered = counts.filtered,
        dead = counts.dead,
        waiting = counts.waiting,
        awaited = report.awaited,
        superseded = counts.superseded,
        cancelled = counts.cancelled,
        attempts = report.attempts.total,
        failures = report.attempts.failures,
        throttles = report.attempts.throttles,
        crashes = report.attempts.crashes,
        elapsed_ms = report.elapsed_ms,
        "{event}"
    );
}

/// Reports on many runs, each with its plan and thresholds. What can be is read once for all of them.
///
/// # Errors
/// When the store fails.
pub async fn run_reports(
    store: &dyn Store,
    runs: &[(&RunRow, &Plan, Thresholds)],
    now: Timestamp,
) -> Result<Vec<RunReport>> {
    let counters = CountersOf::read(store, runs.iter().map(|(row, ..)| row.id).collect()).await?;
    let (workers, pauses) = (store.workers().await?, store.pauses().await?);
    let mut reports = Vec::with_capacity(runs.len());
    for (row, plan, thresholds) in runs {
        let next_due = store.next_due(row.id).await?;
        let counters = counters.of(row.id);
        let unasked = unasked(store, row, plan, counters, &pauses, now).await?;
        let unasked = unasked.as_deref();
        let seen = Seen { counters, workers: &workers, pauses: &pauses, next_due, unasked };
        reports.push(report(row, plan, *thresholds, None, seen, now));
    }
    Ok(reports)
}

/// What a report is made from, besides the run itself.
#[derive(Clone, Copy)]
struct Seen<'a> {
    counters: &'a [Counter],
    workers: &'a [WorkerRow],
    pauses: &'a Pauses,
    next_due: NextDue,
    /// The stage that external workers do and that none asks for.
    unasked: Option<&'a str>,
}

/// The first stage that external workers do where items are due and none is in hand: whoever asked would have one, unless somebody paused it.
async fn unasked(
    store: &dyn Store,
    row: &RunRow,
    plan: &Plan,
    counters: &[Counter],
    pauses: &Pauses,
    now: Timestamp,
) -> Result<Option<String>> {
    if plan.external().is_empty() || row.finished_at.is_some() || row.control != Control::Go {
        return Ok(None);
    }
    let dues = store.due_by_stage(row.id).await?;
    let idle = |no: StageNo| {
        counts(counters, |at| at == no).running == 0
            && dues.iter().any(|due| due.stage == no && due.at <= now)
    };
    let idle = plan.external().iter().filter(|no| idle(**no)).filter_map(|no| plan.stage(*no));
    let mut unasked = idle.filter(|stage| pauses.stops(&row.spec.pipeline, &stage.name).is_none());
    Ok(unasked.next().map(|stage| stage.name.clone()))
}

fn report(
    row: &RunRow,
    plan: &Plan,
    thresholds: Thresholds,
    left: Option<Left>,
    seen: Seen<'_>,
    now: Timestamp,
) -> RunReport {
    let Seen { counters, workers, pauses, next_due, unasked } = seen;
    let NextDue { at: next_due, any_fresh, retry } = next_due;
    let own = own_counts(counters, plan);
    let all = counts(counters, |_| true);
    let (at_work, gone) = at_work(workers, row.id, now);
    let standing = Standing {
        control: row.control,
        admitted_all: row.admitted_all,
        open: row.is_open(),
        handed_over: row.is_handed_over(),
        attended: !at_work.is_empty(),
        only_retries: all.running == 0 && (!any_fresh || next_due.is_some_and(|due| due > now)),
        counts: judged_counts(counters, plan),
        lost_parts: lost_parts(counters, plan),
        left,
    };
    let status = run_status(&standing, thresholds);
    // What a run was paused for says nothing of how it ended.
    let has_ended = matches!(status, RunStatus::Completed | RunStatus::PartialSuccess | RunStatus::Failed);
    RunReport {
        run: row.id,
        pipeline: row.spec.pipeline.clone(),
        source: row.spec.source.clone(),
        category: row.spec.category.clone(),
        priority: row.spec.priority,
        status,
        reason: row
            .reason
            .clone()
            .filter(|_| !has_ended)
            .or_else(|| unasked.map(|stage| format!("no external worker asks for stage {stage}"))),
        paused: pauses_on(pauses, &row.spec.pipeline),
        awaited: awaited(counters, |_| true),
        awaited_until: None,
        verdicts: verdicts(counters, own.succeeded, |stage| is_own(plan, stage)),
        counts: own,
        attempts: attempts(counters, |_| true),
        usage: usage(counters, |_| true),
        dead: dead_by(counters),
        duplicates: row.duplicates,
        admitted_all: row.admitted_all && !row.is_part(),
        read: None,
        next_due: next_due.map(|due| due.to_string()),
        next_due_at: next_due,
        next_retry: retry.filter(|due| *due > now && !any_fresh).map(|due| due.to_string()),
        unasked: unasked.map(str::to_owned),
        created_at: row.created_at.to_string(),
        finished_at: row.finished_at.map(|at| at.to_string()),
        elapsed_ms: worked_ms(row, if at_work.is_empty() { gone.unwrap_or(now) } else { now }),
        workers: at_work,
        stages: stages(counters, plan),
    }
}

/// Who works on a run, and when the last of those whose process is gone gave a sign of life.
fn at_work(workers: &[WorkerRow], run: RunId, now: Timestamp) -> (Vec<String>, Option<Timestamp>) {
    let of_run = workers.iter().filter(|worker| worker.spec.runs.contains(&run));
    let (alive, gone): (Vec<&WorkerRow>, Vec<&WorkerRow>) =
        of_run.partition(|worker| worker.attends(run, now) && !is_gone(&worker.spec.identity));
    let alive = alive.iter().map(|worker| worker.spec.name.clone()).collect();
    (alive, gone.iter().filter_map(|worker| worker.renewed_at).max())
}

/// Children that died or were purged.
fn lost_parts(counters: &[Counter], plan: &Plan) -> u64 {
    let below = counts(counters, |at| plan.stage(at).is_some_and(|stage| stage.owner.is_some()));
    below.dead + below.purged
}

/// The time from creation to the end, less what passed while nobody was at it.
fn worked_ms(row: &RunRow, now: Timestamp) -> i64 {
    let end = row.idle.since.or(row.finished_at).unwrap_or(now);
    millis(end.since(row.created_at)).saturating_sub(row.idle.before_ms).max(0)
}

fn stages(counters: &[Counter], plan: &Plan) -> Vec<StageReport> {
    let report = |(no, stage): (StageNo, &redrive_core::plan::StagePlan)| {
        let counts = counts(counters, |at| at == no);
        StageReport {
            name: stage.name.clone(),
            below: stage.owner.and_then(|owner| plan.stage(owner)).map(|owner| owner.name.clone()),
            counts,
            awaited: awaited(counters, |at| at == no),
            verdicts: verdicts(counters, counts.succeeded, |at| at == no),
            attempts: attempts(counters, |at| at == no),
            usage: usage(counters, |at| at == no),
        }
    };
    plan.stages().map(report).collect()
}

pub(super) fn attempts(counters: &[Counter], wanted: impl Fn(StageNo) -> bool) -> Attempts {
    let mut sum = Attempts::default();
    for Counter { stage, metric, n } in counters {
        if let (Metric::Outcome(outcome), true) = (metric, wanted(*stage)) {
            let n = u64::try_from(*n).unwrap_or(0);
            sum.total += n;
            match outcome {
                Outcome::Failed => sum.failures += n,
                Outcome::Throttled => sum.throttles += n,
                Outcome::Crashed => sum.crashes += n,
                Outcome::Succeeded
                | Outcome::Reused
                | Outcome::Filtered
                | Outcome::Expanded
                | Outcome::Interrupted
                | Outcome::Cancelled
                | Outcome::Expired => {}
            }
        }
    }
    sum
}

fn dead_by(counters: &[Counter]) -> DeadBy {
    let mut dead = DeadBy::default();
    for Counter { metric, n, .. } in counters.iter().filter(|counter| counter.n > 0) {
        let n = u64::try_from(*n).unwrap_or(0);
        match metric {
            Metric::DeadReason(reason) => *dead.by_reason.entry(reason.name()).or_default() += n,
            Metric::DeadClass(class) => *dead.by_class.entry(class.name()).or_default() += n,
            _ => {}
        }
    }
    dead
}

#[cfg(test)]
mod tests {
    use redrive_core::status::Control;
    use redrive_store::{NewRun, Pause};

    use super::*;

    fn row(finished_at: Option<i64>, idle: (Option<i64>, i64)) -> RunRow {
        RunRow {
            reading: 1,
            id: RunId(1),
            spec: NewRun {
                pipeline: String::new(),
                source: String::new(),
                category: None,
                priority: 0,
                definition: String::new(),
                folder: String::new(),
            },
            control: Control::Go,
            reason: None,
            cursor: None,
            admitted_all: true,
            duplicates: 0,
            budget: None,
            created_at: Timestamp(1_000),
            finished_at: finished_at.map(Timestamp),
            pause: Pause::default(),
            idle: Pause { since: idle.0.map(Timestamp), before_ms: idle.1 },
            learnt: BTreeMap::new(),
            edition: 0,
        }
    }

    #[test]
    fn what_a_run_took_is_the_time_somebody_was_at_it() {
        let now = Timestamp(900_000);
        for (what, row, took) in [
            ("somebody is at it", row(None, (None, 0)), 899_000),
            ("it ended in a store of an older version", row(Some(3_000), (None, 0)), 2_000),
            ("it ended and was left", row(Some(3_000), (Some(3_100), 0)), 2_100),
            ("it was interrupted and left", row(None, (Some(3_100), 0)), 2_100),
            ("it was sent back nine minutes later, and ended", row(Some(545_000), (None, 540_000)), 4_000),
            ("the same, and was left", row(Some(545_000), (Some(545_100), 540_000)), 4_100),
            ("a clock went back", row(Some(500), (None, 540_000)), 0),
        ] {
            assert_eq!(worked_ms(&row, now), took, "{what}");
        }
    }
}
