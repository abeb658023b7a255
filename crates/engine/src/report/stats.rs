//! How reliable stages are, from maintained counters.

mod heal;
mod rates;

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::tally::{Counter, MAX_ATTEMPT_BUCKET, Metric};
use redrive_store::{ConfigCounter, ItemFilter, ItemQuery, Result, Store};
use serde::Serialize;

use super::failures::is_unsettled;
use super::run::{Attempts, attempts};
use super::usage::{UsageReport, usage};
use super::verdicts::{VerdictCounts, verdicts};
use crate::counts::{is_own, own_counts};
use heal::Healed;

pub use heal::{Healing, Took};
pub use rates::Rates;
pub(super) use rates::Sums;
use rates::sum;

/// The share of items that had to be tried again from which on that is told as an alert.
const RETRY_ALERT: f64 = 0.10;
const PAGE: usize = 500;

/// A run's statistics.
#[derive(Debug, Clone, Serialize)]
pub struct Stats {
    /// The run.
    pub run: RunId,
    /// Its pipeline.
    pub pipeline: String,
    /// Its own items that succeeded, by their verdict.
    pub verdicts: VerdictCounts,
    /// Per stage.
    pub stages: Vec<StageStats>,
    /// What should worry somebody, in sentences.
    pub alerts: Vec<String>,
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
    /// How often it had to be tried again, and with what success.
    #[serde(flatten)]
    pub rates: Rates,
    /// Items that failed so often here that they look permanent.
    pub looks_permanent: u64,
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
    /// Items that it filtered out, which is no try.
    pub filtered: u64,
    /// How long its tries took.
    pub time_of_try: Option<Took>,
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
    /// Tries that failed or crashed.
    pub failed: u64,
    /// Tries after one that failed since the item was admitted or sent back.
    pub retries: u64,
    /// Those as a share of its tries.
    pub retry_share: Option<f64>,
    /// Items whose first try was with it.
    pub tried: u64,
    /// The share of those that passed at it.
    pub first_try_rate: Option<f64>,
    /// Attempts that passed, as a share of all tries.
    pub attempt_success_rate: Option<f64>,
}

/// Reports how reliable the stages of a run are.
///
/// # Errors
/// When the store fails.
pub async fn stats(store: &dyn Store, run: RunId, pipeline: &str, plan: &Plan) -> Result<Stats> {
    let counters = store.counters(run).await?;
    let by_config = store.config_counters(run).await?;
    let mut stages = Vec::new();
    for (no, stage) in plan.stages() {
        stages.push(StageStats {
            configs: configs(&by_config, no, stage.config),
            looks_permanent: looks_permanent(store, run, plan, no, &counters).await?,
            ..stage_stats(&counters, no, &stage.name)
        });
    }
    let alerts = stages.iter().filter_map(alert).collect();
    let succeeded = own_counts(&counters, plan).succeeded;
    let verdicts = verdicts(&counters, succeeded, |stage| is_own(plan, stage));
    Ok(Stats { run, pipeline: pipeline.to_owned(), verdicts, stages, alerts })
}

/// Whether so many items had to be tried again that something is wrong.
fn alert(stage: &StageStats) -> Option<String> {
    let rate = stage.rates.retry_rate.filter(|rate| *rate > RETRY_ALERT)?;
    Some(format!(
        "{}: {:.1} % of the items had to be tried again, more than {:.0} %",
        stage.stage,
        rate * 100.0,
        RETRY_ALERT * 100.0
    ))
}

/// How many items at a stage look permanent. They are counted one by one only where the counters say that there can be any.
async fn looks_permanent(
    store: &dyn Store,
    run: RunId,
    plan: &Plan,
    no: StageNo,
    counters: &[Counter],
) -> Result<u64> {
    let Some(policy) = plan.stage(no).map(|stage| &stage.policy) else { return Ok(0) };
    let often = |tries: u16| tries == MAX_ATTEMPT_BUCKET || policy.looks_permanent(tries.into());
    let some = counters.iter().any(|counter| match counter.metric {
        Metric::OpenAfter(tries) | Metric::DeadAfter(tries) => {
            counter.stage == no && counter.n > 0 && policy.looks_permanent(u32::MAX) && often(tries)
        }
        _ => false,
    });
    if !some {
        return Ok(0);
    }
    let (mut found, mut after) = (0, None);
    loop {
        let filter = ItemFilter { run: Some(run), stages: vec![no], failed: true, ..ItemFilter::default() };
        let page = store.items(ItemQuery { filter, after, limit: PAGE }).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.seq);
        let permanent = |item: &&Item| {
            let policy = plan.policy_of(item).unwrap_or(policy);
            is_unsettled(item) && policy.looks_permanent(item.failures)
        };
        found += page.iter().filter(permanent).count() as u64;
    }
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
        rates: Rates::default(),
        looks_permanent: 0,
        retry_histogram: BTreeMap::new(),
        passed_after: BTreeMap::new(),
        dead_after: BTreeMap::new(),
        waiting_after: BTreeMap::new(),
        errors: BTreeMap::new(),
        statuses: BTreeMap::new(),
        filtered: sum(counters, no, Metric::Outcome(Outcome::Filtered)),
        time_of_try: Took::of(counters, no),
        time_to_successful_retry: None,
        configs: Vec::new(),
    };
    let mut healed = Healed::default();
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
            _ => healed.add(*metric, n),
        }
    }
    let sums = Sums::of(counters, |stage| stage == no);
    stats.first_try_rate = sums.first_try_rate();
    stats.attempt_success_rate = sums.success_rate();
    stats.rates = sums.rates();
    stats.time_to_successful_retry = healed.healing();
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
        let sums = Sums::of(&counters, |_| true);
        ConfigStats {
            config: format!("{config:016x}"),
            present: config == present,
            attempts: attempts(&counters, |_| true),
            passed: sums.passes,
            failed: sums.tries - sums.passes,
            retries: sums.retries_since(),
            retry_share: sums.retry_share_since(),
            tried: sums.tried,
            first_try_rate: sums.first_try_rate(),
            attempt_success_rate: sums.success_rate(),
        }
    };
    marks.into_iter().map(of).collect()
}
