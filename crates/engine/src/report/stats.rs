//! How reliable stages are, from maintained counters.

use std::collections::BTreeMap;

use redrive_core::id::{RunId, StageNo};
use redrive_core::plan::Plan;
use redrive_core::tally::Metric;
use redrive_store::{Result, Store};
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

/// A stage's statistics.
#[derive(Debug, Clone, Serialize)]
pub struct StageStats {
    /// Its name.
    pub stage: String,
    /// Its attempts.
    pub attempts: Attempts,
    /// What they consumed; `null` when nothing was reported.
    pub usage: Option<UsageReport>,
    /// Items that passed it.
    pub passed: u64,
    /// Items that passed at the first attempt, as a share of those that passed.
    pub first_try_rate: Option<f64>,
    /// Attempts that passed, as a share of all but throttled and interrupted ones.
    pub attempt_success_rate: Option<f64>,
    /// How many items passed after how many retries.
    pub retry_histogram: BTreeMap<u16, u64>,
    /// Failed attempts by class and kind.
    pub errors: BTreeMap<String, u64>,
    /// Failed attempts by HTTP status.
    pub statuses: BTreeMap<u16, u64>,
    /// From first failure to success.
    pub time_to_successful_retry: Option<Healing>,
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
    let stages = plan.stages().map(|(no, stage)| stage_stats(&counters, no, &stage.name)).collect();
    Ok(Stats { run, pipeline: pipeline.to_owned(), stages })
}

fn stage_stats(counters: &[(StageNo, Metric, i64)], no: StageNo, name: &str) -> StageStats {
    let mut stats = StageStats {
        stage: name.to_owned(),
        attempts: attempts(counters, |stage| stage == no),
        usage: usage(counters, |stage| stage == no),
        passed: 0,
        first_try_rate: None,
        attempt_success_rate: None,
        retry_histogram: BTreeMap::new(),
        errors: BTreeMap::new(),
        statuses: BTreeMap::new(),
        time_to_successful_retry: None,
    };
    let (mut healed, mut heal_millis): (BTreeMap<u16, u64>, u64) = (BTreeMap::new(), 0);
    for (_, metric, n) in counters.iter().filter(|(stage, _, n)| *stage == no && *n > 0) {
        let n = u64::try_from(*n).unwrap_or(0);
        match metric {
            Metric::PassedAfter(attempts) => {
                stats.passed += n;
                *stats.retry_histogram.entry(attempts.saturating_sub(1)).or_default() += n;
            }
            Metric::Failure(class, kind) => *stats.errors.entry(format!("{class}/{kind}")).or_default() += n,
            Metric::Status(status) => *stats.statuses.entry(*status).or_default() += n,
            Metric::HealedWithin(power) => *healed.entry(*power).or_default() += n,
            Metric::HealMillis => heal_millis += n,
            Metric::State(_)
            | Metric::Admitted
            | Metric::Purged(_)
            | Metric::Forgotten(_)
            | Metric::DeadReason(_)
            | Metric::DeadClass(_)
            | Metric::Outcome(_)
            | Metric::TokensIn
            | Metric::TokensOut
            | Metric::NanoUsd
            | Metric::UnpricedTokens => {}
        }
    }
    let first = stats.retry_histogram.get(&0).copied().unwrap_or(0);
    stats.first_try_rate = share(first, stats.passed);
    let judged = stats.passed + stats.attempts.failures + stats.attempts.crashes;
    stats.attempt_success_rate = share(stats.passed, judged);
    stats.time_to_successful_retry = healing(&healed, heal_millis);
    stats
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
