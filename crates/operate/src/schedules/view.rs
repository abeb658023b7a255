//! How schedules stand.

use redrive_core::id::RunId;
use redrive_core::schedule::{Book, Cron, Missed, Overlap, Skip, next_after};
use redrive_core::time::Timestamp;
use serde::Serialize;

use super::{Kept, KnownZone, MEMO, pipeline_of};
use crate::Floor;
use crate::catalog::{Catalog, PipelineList};
use crate::error::Result;
use crate::memo;

/// So many of the next times are told.
const AHEAD: usize = 3;

/// The schedules that daemons of the store look after.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleList {
    /// Each of them, by pipeline.
    pub schedules: Vec<ScheduleView>,
}

/// One schedule.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ScheduleView {
    /// Its pipeline.
    pub pipeline: String,
    /// When.
    pub cron: String,
    /// In which time zone.
    pub time_zone: String,
    /// What becomes of a time at which the run before has not ended.
    pub overlap: Overlap,
    /// What becomes of times at which nobody looked.
    pub missed: Missed,
    /// The next times.
    pub next: Vec<String>,
    /// Why they are not known.
    pub problem: Option<String>,
    /// The time that was fired last.
    pub last: Option<FiredView>,
    /// The time that was skipped last.
    pub skipped: Option<SkippedView>,
    /// Times that wait for the end of a run, and one whose run is being begun.
    pub waiting: Vec<String>,
    /// How many were fired.
    pub times_fired: u64,
    /// How many were skipped.
    pub times_skipped: u64,
}

/// A time that was fired.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiredView {
    /// The time.
    pub due: String,
    /// When it was.
    pub at: String,
    /// The run.
    pub run: Option<RunId>,
    /// Why no run could be begun.
    pub failed: Option<String>,
}

/// A time that was skipped.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SkippedView {
    /// The time.
    pub due: String,
    /// When that was decided.
    pub at: String,
    /// Why.
    pub why: Skip,
}

impl ScheduleView {
    fn of(pipeline: &str, book: Book, now: Timestamp) -> Self {
        let Book { rule, through, queue, firing, last, skipped, times_fired, times_skipped } = book;
        let next = next(&rule.cron, &rule.time_zone, through.max(now));
        let (next, problem) = match next {
            Ok(next) => (next, None),
            Err(problem) => (Vec::new(), Some(problem)),
        };
        let waiting = firing.map(|firing| firing.due).into_iter().chain(queue);
        Self {
            pipeline: pipeline.to_owned(),
            cron: rule.cron,
            time_zone: rule.time_zone,
            overlap: rule.overlap,
            missed: rule.missed,
            next,
            problem,
            last: last.map(|last| FiredView {
                due: last.due.to_string(),
                at: last.at.to_string(),
                run: last.run,
                failed: last.failed,
            }),
            skipped: skipped.map(|last| SkippedView {
                due: last.due.to_string(),
                at: last.at.to_string(),
                why: last.why,
            }),
            waiting: waiting.map(|due| due.to_string()).collect(),
            times_fired,
            times_skipped,
        }
    }
}

fn next(cron: &str, zone: &str, after: Timestamp) -> std::result::Result<Vec<String>, String> {
    let (cron, zone) = (Cron::parse(cron)?, KnownZone::find(zone)?);
    let times = std::iter::successors(next_after(&cron, &zone, after), |at| next_after(&cron, &zone, *at));
    Ok(times.take(AHEAD).map(|at| at.to_string()).collect())
}

/// Lists the schedules that daemons of the store look after.
///
/// # Errors
/// When the store fails, or a newer version wrote something.
pub async fn list(floor: &Floor) -> Result<ScheduleList> {
    let now = floor.now();
    let memos = floor.store.memos(MEMO.to_owned()).await?;
    let view = |memo| Ok(ScheduleView::of(pipeline_of(memo), memo::read::<Kept>(memo)?.book, now));
    Ok(ScheduleList { schedules: memos.iter().map(view).collect::<Result<_>>()? })
}

/// The pipelines of a folder, each with how its schedule stands.
///
/// # Errors
/// When the store fails, or a newer version wrote something.
pub async fn with_schedules(floor: &Floor, catalog: &Catalog) -> Result<PipelineList> {
    let (mut pipelines, now) = (catalog.list(), floor.now());
    let known = list(floor).await?.schedules;
    for pipeline in catalog.in_force() {
        let name = &pipeline.definition.name;
        let Some(rule) = pipeline.definition.schedule.clone() else { continue };
        let view = known.iter().find(|view| view.pipeline == *name).cloned();
        // One that nobody has looked at yet stands at its beginning.
        let view = view.unwrap_or_else(|| ScheduleView::of(name, Book::new(rule, now), now));
        let file = pipelines.items.iter_mut().find(|file| file.name.as_ref() == Some(name));
        file.into_iter().for_each(|file| file.schedule = Some(view.clone()));
    }
    Ok(pipelines)
}
