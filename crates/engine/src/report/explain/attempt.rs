//! Attempts, as they are told.

use redrive_core::attempt::AttemptRecord;
use redrive_core::item::{Item, State};
use redrive_core::plan::Plan;
use redrive_core::time::millis;
use redrive_core::verdict::Verdict;
use redrive_store::{AttemptPlace, Result, Store};
use serde::Serialize;

use super::super::usage::usd;
use super::stage_name;

/// An attempt, as JSON shows it.
#[derive(Debug, Clone, Serialize)]
pub struct AttemptView {
    /// The stage.
    pub stage: String,
    /// Its number.
    pub attempt: u32,
    /// The item's generation at the time.
    pub generation: u32,
    /// When it was claimed.
    pub started_at: String,
    /// When it ended; `null` while it runs.
    pub ended_at: Option<String>,
    /// How long it took; `null` while it runs.
    pub duration_ms: Option<i64>,
    /// How it ended; `running` while it runs, `handed_over` while its answer is awaited.
    pub outcome: &'static str,
    /// What the stage found of the item, where it said so.
    pub verdict: Option<Verdict>,
    /// Class of its failure.
    pub class: Option<&'static str>,
    /// Kind of its failure.
    pub kind: Option<&'static str>,
    /// HTTP status.
    pub status: Option<u16>,
    /// Text of its failure.
    pub message: Option<String>,
    /// How long the item waits after it.
    pub wait_ms: Option<i64>,
    /// Why.
    pub wait_cause: Option<&'static str>,
    /// Who did it.
    pub worker: String,
    /// Mark of the stage's configuration at the time.
    pub config: String,
    /// Tokens it sent; `null` when nothing is known about them.
    pub tokens_in: Option<u64>,
    /// Tokens it received; `null` when nothing is known about them.
    pub tokens_out: Option<u64>,
    /// What they cost; `null` when that is not known.
    pub usd: Option<f64>,
}

/// A page of an item's attempts, newest first, before one of them; the open one comes first where the page is the first.
///
/// # Errors
/// When the store fails.
pub async fn attempts_before(
    store: &dyn Store,
    item: &Item,
    plan: &Plan,
    before: Option<AttemptPlace>,
    limit: usize,
) -> Result<Vec<(AttemptPlace, AttemptView)>> {
    let open = open_attempt(item, plan).filter(|_| before.is_none());
    let mut told: Vec<(AttemptPlace, AttemptView)> =
        open.into_iter().map(|view| (here(item), view)).collect();
    let ended = store.attempts(item.seq, before, limit.saturating_sub(told.len())).await?;
    told.extend(ended.iter().map(|row| (row.into(), attempt_view(row, plan))));
    Ok(told)
}

/// Where the open attempt of an item stands.
fn here(item: &Item) -> AttemptPlace {
    AttemptPlace { generation: item.generation, stage: item.stage, attempt: item.attempt }
}

/// An attempt that ended.
pub(super) fn attempt_view(row: &AttemptRecord, plan: &Plan) -> AttemptView {
    let failure = row.failure.as_ref();
    AttemptView {
        stage: stage_name(plan, row.stage),
        attempt: row.attempt,
        generation: row.generation,
        started_at: row.started_at.to_string(),
        ended_at: Some(row.ended_at.to_string()),
        duration_ms: Some(millis(row.ended_at.since(row.started_at))),
        outcome: row.outcome.name(),
        verdict: row.verdict,
        class: failure.map(|failure| failure.class.name()),
        kind: failure.map(|failure| failure.kind.name()),
        status: failure.and_then(|failure| failure.status),
        message: failure.map(|failure| failure.message.to_string()),
        wait_ms: row.wait.map(|(delay, _)| millis(delay)),
        wait_cause: row.wait.map(|(_, cause)| cause.name()),
        worker: row.worker.to_string(),
        config: format!("{:016x}", row.config),
        tokens_in: row.usage.map(|usage| usage.tokens_in),
        tokens_out: row.usage.map(|usage| usage.tokens_out),
        usd: row.usage.and_then(|usage| usage.nano_usd).map(usd),
    }
}

/// The attempt that is open: its number is kept with the item from the claim on, its row comes with its end.
pub(super) fn open_attempt(item: &Item, plan: &Plan) -> Option<AttemptView> {
    let (worker, since, outcome) = match (&item.state, &item.handed) {
        (State::Running { .. } | State::Waiting { .. }, Some(handed)) => {
            (handed.worker, handed.since, "handed_over")
        }
        (State::Running { worker, since }, None) => (*worker, *since, "running"),
        _ => return None,
    };
    Some(AttemptView {
        stage: stage_name(plan, item.stage),
        attempt: item.attempt,
        generation: item.generation,
        started_at: since.to_string(),
        ended_at: None,
        duration_ms: None,
        outcome,
        verdict: None,
        class: None,
        kind: None,
        status: None,
        message: None,
        wait_ms: None,
        wait_cause: None,
        worker: worker.to_string(),
        config: plan.stage(item.stage).map(|stage| format!("{:016x}", stage.config)).unwrap_or_default(),
        tokens_in: None,
        tokens_out: None,
        usd: None,
    })
}
