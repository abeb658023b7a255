//! How reliable stages are: in one run, and over the runs of a pipeline.

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_engine::report::{self, RunTrend, Stats, Trend, TrendRun};
use redrive_store::RunFilter;
use redrive_store::index::IndexSize;
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::error::{Error, Result};
use crate::pipelines;
use crate::runs::{KnownRun, Runs};

/// Statistics of a run, of the runs of a pipeline where they were asked for, and of every index in the store.
#[derive(Debug, Serialize)]
pub struct Statistics {
    /// Of the run.
    #[serde(flatten)]
    pub run: Stats,
    /// Over the runs of the pipeline; `null` unless one was named.
    pub over_runs: Option<OverRuns>,
    /// Of each index.
    pub indexes: Vec<IndexStats>,
}

/// How a pipeline did over its runs.
#[derive(Debug, Serialize)]
pub struct OverRuns {
    /// By run, by day and by configuration.
    #[serde(flatten)]
    pub trend: Trend,
    /// The newest run against the one before it; `null` when there is only one.
    pub compared: Option<Compared>,
}

/// A run against the one before it.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Compared {
    /// The run.
    pub run: RunId,
    /// The one before it.
    pub with: RunId,
    /// By how much its share of dead items is larger.
    pub dead_rate: Option<f64>,
    /// By how much its share of items that had to be tried again is larger.
    pub retry_rate: Option<f64>,
    /// By how much its share of items that passed at the first try is larger.
    pub first_try_rate: Option<f64>,
}

impl Compared {
    fn of(run: &RunTrend, with: &RunTrend) -> Self {
        let more = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        let (a, b) = (&run.figures, &with.figures);
        Self {
            run: run.run,
            with: with.run,
            dead_rate: more(a.dead_rate, b.dead_rate),
            retry_rate: more(a.rates.retry_rate, b.rates.retry_rate),
            first_try_rate: more(a.first_try_rate, b.first_try_rate),
        }
    }
}

/// How much is in an index.
#[derive(Debug, Serialize)]
pub struct IndexStats {
    /// The directory.
    pub root: String,
    /// The model that made its vectors.
    pub model: String,
    /// How much.
    #[serde(flatten)]
    pub size: IndexSize,
}

/// Whose statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StatsOf {
    /// Of this run; `None`: of the newest, or the newest of the pipeline.
    pub run: Option<RunId>,
    /// Of every run of this pipeline, too.
    pub pipeline: Option<String>,
    /// Only of those that began within so many milliseconds.
    pub within_ms: Option<i64>,
}

/// Says how reliable the stages of a run are, how the runs of a pipeline compare, and how large every index is.
///
/// # Errors
/// When there is no such run or the store fails.
pub async fn stats(floor: &Floor, request: &StatsOf) -> Result<Statistics> {
    let runs = match &request.pipeline {
        Some(pipeline) => of_pipeline(floor, pipeline, request.within_ms).await?,
        None => vec![Runs::of(&*floor.store).find(request.run).await?],
    };
    let Some(newest) = runs.first() else {
        return Err(Error::not_found("there is no run to tell of"));
    };
    let (id, pipeline) = (newest.row.id, &newest.row.spec.pipeline);
    let run = report::stats(&*floor.store, id, pipeline, &newest.plan).await?;
    let over_runs = match &request.pipeline {
        None => None,
        Some(pipeline) => Some(over_runs(floor, pipeline, &runs).await?),
    };
    let mut indexes = Vec::new();
    for collection in floor.index.collections().await? {
        let size = floor.index.size(collection.no).await?;
        indexes.push(IndexStats { root: collection.spec.root, model: collection.spec.model, size });
    }
    Ok(Statistics { run, over_runs, indexes })
}

async fn over_runs(floor: &Floor, pipeline: &str, runs: &[KnownRun]) -> Result<OverRuns> {
    let seen: Vec<TrendRun<'_>> =
        runs.iter().map(|known| TrendRun { row: &known.row, plan: &known.plan }).collect();
    let trend = report::trend(&*floor.store, pipeline, &seen).await?;
    let compared = match &trend.runs[..] {
        [newest, before, ..] => Some(Compared::of(newest, before)),
        _ => None,
    };
    Ok(OverRuns { trend, compared })
}

/// The runs of a pipeline, newest first. One whose pipeline this version cannot read is left out.
async fn of_pipeline(floor: &Floor, pipeline: &str, within_ms: Option<i64>) -> Result<Vec<KnownRun>> {
    let filter = RunFilter { pipeline: Some(pipeline.to_owned()), ..RunFilter::default() };
    let since = within_ms.map(|span| Timestamp(floor.now().0.saturating_sub(span)));
    let rows = Runs::of(&*floor.store).all(filter).await?;
    let any = !rows.is_empty();
    let young = rows.into_iter().filter(|row| since.is_none_or(|since| row.created_at >= since));
    let known: Vec<KnownRun> = young
        .filter_map(|row| {
            let definition = pipelines::definition_of(&row)?;
            let plan = definition.plan();
            Some(KnownRun { row, definition, plan })
        })
        .collect();
    if known.is_empty() {
        let when = if any { " that began within this time" } else { "" };
        return Err(Error::not_found(format!("there is no run of {pipeline:?}{when}"))
            .hint("`redrive runs` lists the runs"));
    }
    Ok(known)
}
