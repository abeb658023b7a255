//! How reliable stages are, from maintained counters.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::id::{RunId, StageNo};
use redrive_core::plan::Plan;
use redrive_core::tally::{Counter, Metric};
use redrive_store::{ConfigCounter, Result, Store};
use serde::Serialize;

use super::run::{Attempts, attempts};
use super::usage::{UsageReport, usage};

/// A run's statistics.
#[derive(Debug, Clone, Serialize)]
pub struct Stats {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Per stage.
    pub stages: Vec<StageStats>,
}

/// A stage's statistics, of all items that were tried at it. A try is an attempt that passed, failed or crashed; attempts that
/// were turned away or broken off are none.
#[derive(Debug, Clone, Serialize)]
pub struct StageStats {
    /// Its name.
    pub stage: String,
    /// Its attempts.
    pub attempts: Attempts,
    /// What they consumed; `null` when nothing was reported.
    pub usage: Option<UsageReport>,
    /// Items that were tried.
    pub tried: u64,
    /// Items that passed it, those that passed without a call included.
    pub passed: u64,
    /// Items that passed it without a call: the output was known.
    pub uncalled: u64,
    /// Items that passed at their first try, as a share of all that were tried. One that was sent back had its first try
    /// before.
    pub first_try_rate: Option<f64>,
    /// Attempts that passed, as a share of all tries.
    pub attempt_success_rate: Option<f64>,
    /// Items by their retries, however they stand: the sum of the three below.
    pub retry_histogram: BTreeMap<u16, u64>,
    /// How many items passed after how many retries.
    pub passed_after: BTreeMap<u16, u64>,
    /// How many items are dead after how many retries; purged ones included.
    pub dead_after: BTreeMap<u16, u64>,
    /// How many items failed and are not through yet, after how many retries.
    pub waiting_after: BTreeMap<u16, u64>,
    /// Failed attempts by class and kind.
    pub errors: BTreeMap<String, u64>,
    /// Failed attempts by HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// From first failure to success.
    pub time_to_successful_retry: Option<Healing>,
    /// The same by the mark of the stage's configuration, so that two versions of it can be compared.
    pub configs: Vec<ConfigStats>,
}

/// How a stage did as it was configured once.
#[derive(Debug, Clone, Serialize)]
pub struct ConfigStats {
    /// The mark, as `explain` shows it for every attempt.
    pub config: String,
    /// Whether it is the present one.
    pub present: bool,
    /// Attempts.
    pub attempts: Attempts,
    /// Attempts that passed.
    pub passed: u64,
    /// Items whose first try was with it.
    pub tried: u64,
    /// The share of those that passed at it.
    pub first_try_rate: Option<f64>,
    /// Attempts that passed, as a share of all tries.
    pub attempt_success_rate: Option<f64>,
}

/// How long items took from their first failure to passing.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Healing {
    /// Items that passed after failing.
    pub items: u64,
    /// Mean.
    pub mean_ms: u64,
    /// Half of them took less than this (a power of two).
    pub p50_below_ms: u64,
    /// 95 % of them took less than this (a power of two).
    pub p95_below_ms: u64,
}

/// Reports how reliable the stages of a run are.
///
/// # Errors
/// When the store fails.
pub async fn stats(store: &dyn Store, run: RunId, pipeline: &str, plan: &Plan) -> Result<Stats> {
    let counters = store.counters(run).await?;
    let by_config = store.config_counters(run).await?;
    let stages = plan.stages().map(|(no, stage)| StageStats {
        configs: configs(&by_config, no, stage.config),
        ..stage_stats(&counters, no, &stage.name)
    });
    Ok(Stats { run, pipeline: pipeline.to_owned(), stages: stages.collect() })
}

fn stage_stats(counters: &[Counter], no: StageNo, name: &str) -> StageStats {
    let mut stats = StageStats {
        stage: name.to_owned(),
        attempts: attempts(counters, |stage| stage == no),
        usage: usage(counters, |stage| stage == no),
        tried: sum(counters, no, Metric::FirstTry),
        passed: 0,
        uncalled: sum(counters, no, Metric::PassedAfter(0)),
        first_try_rate: None,
        attempt_success_rate: None,
        retry_histogram: BTreeMap::new(),
        passed_after: BTreeMap::new(),
        dead_after: BTreeMap::new(),
        waiting_after: BTreeMap::new(),
        errors: BTreeMap::new(),
        statuses: BTreeMap::new(),
        time_to_successful_retry: None,
        configs: Vec::new(),
    };
    let (mut healed, mut heal_millis): (BTreeMap<u16, u64>, u64) = (BTreeMap::new(), 0);
    for Counter { metric, n, .. } in counters.iter().filter(|counter| counter.stage == no && counter.n > 0) {
        let n = u64::try_from(*n).unwrap_or(0);
        let by_retries = match metric {
            Metric::PassedAfter(tries @ 1..) => Some((&mut stats.passed_after, tries)),
            Metric::DeadAfter(tries) => Some((&mut stats.dead_after, tries)),
            Metric::OpenAfter(tries) => Some((&mut stats.waiting_after, tries)),
            _ => None,
        };
        if let Some((histogram, tries)) = by_retries {
            *histogram.entry(tries - 1).or_default() += n;
            *stats.retry_histogram.entry(tries - 1).or_default() += n;
        }
        match metric {
            Metric::PassedAfter(_) => stats.passed += n,
            Metric::Failure(class, kind) => *stats.errors.entry(format!("{class}/{kind}")).or_default() += n,
            Metric::Status(status) => *stats.statuses.entry(*status).or_default() += n,
            Metric::HealedWithin(power) => *healed.entry(*power).or_default() += n,
            Metric::HealMillis => heal_millis += n,
            _ => {}
        }
    }
    stats.first_try_rate = share(sum(counters, no, Metric::FirstPass), stats.tried);
    stats.attempt_success_rate = success_rate(counters, no, &stats.attempts);
    stats.time_to_successful_retry = healing(&healed, heal_millis);
    stats
}

/// One entry for every mark that attempts were made with, the present one last.
fn configs(by_config: &[ConfigCounter], no: StageNo, present: i64) -> Vec<ConfigStats> {
    let here: Vec<&ConfigCounter> = by_config.iter().filter(|one| one.counter.stage == no).collect();
    let mut marks: Vec<i64> = here.iter().map(|one| one.config).collect();
    marks.sort_unstable_by_key(|config| (*config == present, *config));
    marks.dedup();
    let of = |config: i64| {
        let counters: Vec<Counter> =
            here.iter().filter(|one| one.config == config).map(|one| one.counter).collect();
        let attempts = attempts(&counters, |_| true);
        let tried = sum(&counters, no, Metric::FirstTry);
        ConfigStats {
            config: format!("{config:016x}"),
            present: config == present,
            attempts,
            passed: passes(&counters, no),
            tried,
            first_try_rate: share(sum(&counters, no, Metric::FirstPass), tried),
            attempt_success_rate: success_rate(&counters, no, &attempts),
        }
    };
    marks.into_iter().map(of).collect()
}

fn sum(counters: &[Counter], no: StageNo, of: Metric) -> u64 {
    let some = counters.iter().filter(|counter| counter.stage == no && counter.metric == of);
    some.map(|counter| u64::try_from(counter.n).unwrap_or(0)).sum()
}

/// Attempts that passed by a call.
fn passes(counters: &[Counter], no: StageNo) -> u64 {
    let pass = [Outcome::Succeeded, Outcome::Expanded];
    pass.into_iter().map(|outcome| sum(counters, no, Metric::Outcome(outcome))).sum()
}

fn success_rate(counters: &[Counter], no: StageNo, attempts: &Attempts) -> Option<f64> {
    let passed = passes(counters, no);
    share(passed, passed + attempts.failures + attempts.crashes)
}

#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn healing(by_power: &BTreeMap<u16, u64>, sum_ms: u64) -> Option<Healing> {
    let items: u64 = by_power.values().sum();
    if items == 0 {
        return None;
    }
    let below = |percent: u64| {
        let mut seen = 0;
        let power = by_power.iter().find(|(_, n)| {
            seen += **n;
            seen * 100 >= items * percent
        });
        power.map_or(u64::MAX, |(power, _)| 1_u64.checked_shl(u32::from(*power)).unwrap_or(u64::MAX))
    };
    Some(Healing { items, mean_ms: sum_ms / items, p50_below_ms: below(50), p95_below_ms: below(95) })
}
