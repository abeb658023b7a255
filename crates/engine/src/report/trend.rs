//! How a pipeline did over its runs: by run, by day, and by how its stages were configured.

use std::collections::BTreeMap;

use redrive_core::id::{RunId, StageNo};
use redrive_core::plan::{Plan, StagePlan};
use redrive_core::status::Counts;
use redrive_core::tally::Counter;
use redrive_store::{Result, RunRow, Store};
use serde::Serialize;

use super::stats::{Rates, Sums};
use crate::counts::{CountersOf, judged_counts};

/// How a pipeline did over its runs.
#[derive(Debug, Clone, Serialize)]
pub struct Trend {
    /// The pipeline.
    pub pipeline: String,
    /// Its runs, newest first.
    pub runs: Vec<RunTrend>,
    /// The same by the day, in UTC, on which they began, newest first.
    pub days: Vec<DayTrend>,
    /// Its stages by the marks of their configurations.
    pub stages: Vec<StageTrend>,
}

/// A run to look at.
#[derive(Debug, Clone, Copy)]
pub struct TrendRun<'a> {
    /// The run.
    pub row: &'a RunRow,
    /// Its plan.
    pub plan: &'a Plan,
}

/// What can be compared between runs.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    /// The runs' own items, purged ones as what they were.
    pub counts: Counts,
    /// The dead among them, as a share.
    pub dead_rate: Option<f64>,
    /// Attempts at all stages.
    pub attempts: u64,
    /// The stage at which the smallest share of items passed at the first try. What follows is of that one: added up over all
    /// stages, those that cannot fail would hide it.
    pub worst_stage: Option<String>,
    /// Items that passed it at their first try, as a share of those tried.
    pub first_try_rate: Option<f64>,
    /// How often items had to be tried again at it. Attempts that were turned away are a share of those at all stages.
    #[serde(flatten)]
    pub rates: Rates,
}

/// One run.
#[derive(Debug, Clone, Serialize)]
pub struct RunTrend {
    /// The run.
    pub run: RunId,
    /// Its source.
    pub source: String,
    /// When it began.
    pub created_at: String,
    /// How it did.
    #[serde(flatten)]
    pub figures: Figures,
}

/// The runs that began on one day.
#[derive(Debug, Clone, Serialize)]
pub struct DayTrend {
    /// The day, in UTC.
    pub day: String,
    /// How many.
    pub runs: u64,
    /// How they did.
    #[serde(flatten)]
    pub figures: Figures,
}

/// One stage over all runs.
#[derive(Debug, Clone, Serialize)]
pub struct StageTrend {
    /// Its name.
    pub stage: String,
    /// By mark, in the order in which they were first used.
    pub configs: Vec<ConfigTrend>,
}

/// A stage as it was configured once, over all runs that had it so.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigTrend {
    /// The mark.
    pub config: String,
    /// Whether the newest run has it.
    pub present: bool,
    /// The first run with it.
    pub first_run: RunId,
    /// The last run with it.
    pub last_run: RunId,
    /// Attempts.
    pub attempts: u64,
    /// Tries that passed.
    pub passed: u64,
    /// Tries that failed or crashed.
    pub failed: u64,
    /// Tries after one that failed since the item was admitted or sent back.
    pub retries: u64,
    /// Those as a share of its tries.
    pub retry_share: Option<f64>,
    /// Items whose first try was with it and passed, as a share.
    pub first_try_rate: Option<f64>,
}

/// What is added up of a run.
#[derive(Clone, Default)]
struct Whole {
    counts: Counts,
    sums: Sums,
    stages: BTreeMap<String, Sums>,
}

impl Whole {
    fn of(counters: &[Counter], plan: &Plan) -> Self {
        let stage =
            |(no, stage): (StageNo, &StagePlan)| (stage.name.clone(), Sums::of(counters, |at| at == no));
        let stages = plan.stages().map(stage).collect();
        Self { counts: judged_counts(counters, plan), sums: Sums::of(counters, |_| true), stages }
    }

    fn plus(mut self, other: Self) -> Self {
        let (a, b) = (self.counts, other.counts);
        let counts = Counts {
            admitted: a.admitted + b.admitted,
            succeeded: a.succeeded + b.succeeded,
            filtered: a.filtered + b.filtered,
            superseded: a.superseded + b.superseded,
            cancelled: a.cancelled + b.cancelled,
            dead: a.dead + b.dead,
            waiting: a.waiting + b.waiting,
            running: a.running + b.running,
            joining: a.joining + b.joining,
            purged: a.purged + b.purged,
        };
        for (name, sums) in other.stages {
            let known = self.stages.entry(name).or_default();
            *known = known.plus(sums);
        }
        Self { counts, sums: self.sums.plus(other.sums), stages: self.stages }
    }

    /// The stage at which the smallest share passed at the first try; of several, that at which most had to be tried again.
    fn worst(&self) -> Option<(&String, &Sums)> {
        let key =
            |sums: &Sums| (sums.first_try_rate().unwrap_or(1.0), -sums.rates().retry_rate.unwrap_or(0.0));
        let tried = self.stages.iter().filter(|(_, sums)| sums.tried > 0);
        tried.min_by(|(_, a), (_, b)| {
            let ((first, again), (other_first, other_again)) = (key(a), key(b));
            first.total_cmp(&other_first).then(again.total_cmp(&other_again))
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    fn figures(&self) -> Figures {
        let Self { counts, sums, .. } = self;
        let worst = self.worst();
        let of = worst.map_or(sums, |(_, sums)| sums);
        Figures {
            counts: *counts,
            dead_rate: (counts.admitted > 0).then(|| counts.dead as f64 / counts.admitted as f64),
            attempts: sums.attempts,
            worst_stage: worst.map(|(name, _)| name.clone()),
            first_try_rate: of.first_try_rate(),
            rates: Rates { throttle_rate: sums.rates().throttle_rate, ..of.rates() },
        }
    }
}

/// Says how a pipeline did over these runs of it, newest first.
///
/// # Errors
/// When the store fails.
pub async fn trend(store: &dyn Store, pipeline: &str, runs: &[TrendRun<'_>]) -> Result<Trend> {
    let counters = CountersOf::read(store, runs.iter().map(|run| run.row.id).collect()).await?;
    let mut days: BTreeMap<String, (u64, Whole)> = BTreeMap::new();
    let mut told = Vec::new();
    for TrendRun { row, plan } in runs {
        let whole = Whole::of(counters.of(row.id), plan);
        let created_at = row.created_at.to_string();
        let day = days.entry(created_at.chars().take_while(|c| *c != 'T').collect()).or_default();
        *day = (day.0 + 1, std::mem::take(&mut day.1).plus(whole.clone()));
        let source = row.spec.source.clone();
        told.push(RunTrend { run: row.id, source, created_at, figures: whole.figures() });
    }
    let day = |(day, (runs, whole)): (String, (u64, Whole))| DayTrend { day, runs, figures: whole.figures() };
    Ok(Trend {
        pipeline: pipeline.to_owned(),
        runs: told,
        days: days.into_iter().rev().map(day).collect(),
        stages: stages(store, runs).await?,
    })
}

/// How often, and in which runs, a configuration was used.
struct Used {
    first: RunId,
    last: RunId,
    sums: Sums,
}

async fn stages(store: &dyn Store, runs: &[TrendRun<'_>]) -> Result<Vec<StageTrend>> {
    let mut used: BTreeMap<(String, i64), Used> = BTreeMap::new();
    for TrendRun { row, plan } in runs {
        let by_config = store.config_counters(row.id).await?;
        let mut marks: Vec<(StageNo, i64)> =
            by_config.iter().map(|one| (one.counter.stage, one.config)).collect();
        marks.sort_unstable();
        marks.dedup();
        for (no, config) in marks {
            let Some(stage) = plan.stage(no) else { continue };
            let here = by_config.iter().filter(|one| (one.counter.stage, one.config) == (no, config));
            let counters: Vec<Counter> = here.map(|one| one.counter).collect();
            let sums = Sums::of(&counters, |_| true);
            let new = Used { first: row.id, last: row.id, sums: Sums::default() };
            let known = used.entry((stage.name.clone(), config)).or_insert(new);
            known.first = known.first.min(row.id);
            known.last = known.last.max(row.id);
            known.sums = known.sums.plus(sums);
        }
    }
    let newest = runs.first();
    let mut told: Vec<StageTrend> = Vec::new();
    for (_, stage) in newest.iter().flat_map(|run| run.plan.stages()) {
        let of_stage = used.iter().filter(|((name, _), _)| *name == stage.name);
        let mut configs: Vec<ConfigTrend> =
            of_stage.map(|((_, config), used)| used.told(*config, stage.config)).collect();
        configs.sort_by_key(|config| (config.first_run, config.present));
        told.push(StageTrend { stage: stage.name.clone(), configs });
    }
    Ok(told)
}

impl Used {
    fn told(&self, config: i64, present: i64) -> ConfigTrend {
        let Self { first, last, sums } = self;
        ConfigTrend {
            config: format!("{config:016x}"),
            present: config == present,
            first_run: *first,
            last_run: *last,
            attempts: sums.attempts,
            passed: sums.passes,
            failed: sums.tries - sums.passes,
            retries: sums.retries_since(),
            retry_share: sums.retry_share_since(),
            first_try_rate: sums.first_try_rate(),
        }
    }
}
