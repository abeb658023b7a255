//! What stands beside the counters: runs, budgets, workers, gates, operations, what waits.

use std::collections::BTreeMap;

use redrive_core::budget::Budget;
use redrive_core::id::{RunId, StageNo};
use redrive_core::item::StateKind;
use redrive_core::status::Control;
use redrive_core::tally::{Counter, Metric};
use redrive_core::time::Timestamp;
use redrive_engine::admin::left_alone;
use redrive_engine::report::{Crew, GateReport};
use redrive_store::{
    OperationKind, OperationState, OutboxView, Pauses, RunCounters, RunRow, StageVitals, Store, Vitals,
    WorkerRow,
};

use super::counted::number;
use super::families as f;
use super::names::{MOST, Names, OTHER};
use super::page::Page;
use crate::error::Result;
use crate::gates::GateList;
use crate::items::cause::Around;

/// Open operations that are looked at.
const MOST_OPERATIONS: usize = 1_000;
/// What runs do. The names of [`RunStatus`](redrive_core::status::RunStatus) where there are such.
const RUN_STATES: [&str; 7] =
    ["going_on", "paused", "paused_budget", "paused_quota", "paused_outage", "ended", "cancelled"];

fn run_state(row: &RunRow) -> &'static str {
    match row.control {
        Control::Cancelled => "cancelled",
        _ if row.finished_at.is_some() => "ended",
        Control::Go => "going_on",
        Control::Paused => "paused",
        Control::PausedBudget => "paused_budget",
        Control::PausedQuota => "paused_quota",
        Control::PausedOutage => "paused_outage",
    }
}

pub(super) fn runs(page: &mut Page, names: &Names, rows: &[RunRow], counted: &[RunCounters]) {
    let dead: BTreeMap<RunId, Vec<(StageNo, i64)>> =
        counted.iter().map(|run| (run.run, dead_by_stage(&run.counters))).collect();
    for row in rows {
        let label = names.pipeline(&row.spec.pipeline);
        RUN_STATES.iter().for_each(|state| page.add(&f::RUNS, &[label, state], 0.0));
        page.add(&f::RUNS, &[label, run_state(row)], 1.0);
        if row.finished_at.is_none() && row.control != Control::Cancelled {
            budget(page, names, row, dead.get(&row.id).map(Vec::as_slice).unwrap_or_default());
        }
    }
}

fn dead_by_stage(counters: &[Counter]) -> Vec<(StageNo, i64)> {
    let dead = counters.iter().filter(|one| one.metric == Metric::State(StateKind::Dead) && one.n > 0);
    dead.map(|one| (one.stage, one.n)).collect()
}

/// A budget that a newer version wrote is not told. What counts the dead of the whole run is told of each stage that has some.
fn budget(page: &mut Page, names: &Names, row: &RunRow, dead: &[(StageNo, i64)]) {
    let Some(known) = names.known(row) else { return };
    if let Some(most) = known.definition.max_dead.filter(|most| *most > 0) {
        let share = number(dead.iter().map(|(_, n)| n).sum()) / number(most.cast_signed());
        for (no, _) in dead {
            let stage = names.stage(&row.spec.pipeline, Some(&known.plan), *no);
            page.raise(&f::BUDGET, &[names.pipeline(&row.spec.pipeline), stage], share);
        }
    }
    let Some(spec) = &known.definition.budget else { return };
    let Ok(budget) = Budget::load(row.budget.as_deref()) else { return };
    for (no, spent) in (0..).zip(budget.spent(spec)) {
        let stage = names.stage(&row.spec.pipeline, Some(&known.plan), StageNo(no));
        page.raise(&f::BUDGET, &[names.pipeline(&row.spec.pipeline), stage], spent);
    }
}

/// What waits, and what nobody holds.
pub(super) fn vitals(
    page: &mut Page,
    names: &Names,
    rows: &[RunRow],
    vitals: &Vitals,
    around: &Around<'_>,
    now: Timestamp,
) {
    for stage in &vitals.stages {
        let Ok(at) = rows.binary_search_by_key(&stage.run, |row| row.id) else { continue };
        one_stage(page, names, &rows[at], stage, around, now);
    }
    for (kind, state) in KINDS.iter().flat_map(|kind| STATES.map(|state| (*kind, state))) {
        page.add(&f::OPERATIONS, &[kind_word(kind), state_word(state)], 0.0);
    }
    for count in &vitals.operations {
        let n = number(count.n.cast_signed());
        page.add(&f::OPERATIONS, &[kind_word(count.kind), state_word(count.state)], n);
    }
}

fn one_stage(
    page: &mut Page,
    names: &Names,
    row: &RunRow,
    seen: &StageVitals,
    around: &Around<'_>,
    now: Timestamp,
) {
    let (pipeline, known) = (&row.spec.pipeline, names.known(row));
    let plan = known.map(|known| &known.plan);
    let (label, stage) = (names.pipeline(pipeline), names.stage(pipeline, plan, seen.stage));
    let lag = seen.next_due.map_or(0, |due| now.0.saturating_sub(due.0).max(0));
    page.raise(&f::DUE_LAG, &[label, stage], number(lag) / 1_000.0);
    if seen.orphans + seen.unanswered > 0 {
        let n = number((seen.orphans + seen.unanswered).cast_signed());
        page.add(&f::STUCK, &[label, stage], n);
        page.add(&f::JOB_STUCK, &[&names.collection(pipeline, plan, seen.stage)], n);
    }
    if seen.overdue > 0 {
        let cause = around.cause(row, known.map(|known| &known.definition), seen.stage);
        page.add(&f::STARVED, &[label, stage, cause.name()], number(seen.overdue.cast_signed()));
    }
}

pub(super) fn pauses(page: &mut Page, names: &Names, pauses: &Pauses) {
    for row in &pauses.rows {
        page.add(&f::PAUSED, &[names.pipeline(&row.pipeline)], 1.0);
    }
}

pub(super) fn workers(page: &mut Page, workers: &[WorkerRow], crew: &Crew) {
    let alive = workers.iter().filter(|worker| crew.has(worker.id)).count();
    page.add(&f::WORKERS, &[], number(i64::try_from(alive).unwrap_or(i64::MAX)));
    let seen = workers.iter().filter_map(|worker| worker.renewed_at).max();
    page.add(&f::WORKER_SEEN, &[], seen.map_or(0.0, |at| number(at.0) / 1_000.0));
}

/// States that a gate can be in.
const GATE_STATES: [&str; 5] = ["open", "closed", "parked", "away", "paused"];

pub(super) fn gates(page: &mut Page, gates: &GateList) {
    for (at, gate) in gates.gates.iter().enumerate() {
        one_gate(page, if at < MOST { &gate.name } else { OTHER }, gate);
    }
}

fn one_gate(page: &mut Page, name: &str, gate: &GateReport) {
    GATE_STATES.iter().for_each(|state| page.add(&f::GATE_STATE, &[name, state], 0.0));
    page.add(&f::GATE_STATE, &[name, gate.state], 1.0);
    page.add(&f::GATE_LIMIT, &[name], gate.concurrency.limit.into());
    page.add(&f::GATE_CALLS_NOW, &[name], gate.concurrency.now.into());
    let amount = |n: u64| number(i64::try_from(n).unwrap_or(i64::MAX));
    page.add(&f::GATE_RATE, &[name], amount(gate.requests_per_minute.now.unwrap_or(0)));
    if let Some(learnt) = gate.requests_per_minute.learnt {
        page.add(&f::GATE_RATE_LEARNT, &[name], amount(learnt));
    }
    page.raise(&f::GATE_LATENCY, &[name], amount(gate.latency_ms) / 1_000.0);
    let totals = &gate.totals;
    for (outcome, n) in [
        ("passed", totals.passed),
        ("throttled", totals.throttled),
        ("failed", totals.failed),
        ("other", totals.other),
    ] {
        page.add(&f::GATE_CALLS, &[name, outcome], amount(n));
    }
    page.add(&f::GATE_TOKENS, &[name], amount(totals.tokens));
}

/// For how long an open operation was left alone that does not wait on purpose.
pub(super) async fn open_operations(page: &mut Page, store: &dyn Store, now: Timestamp) -> Result<()> {
    page.add(&f::OPERATION_AGE, &[], 0.0);
    for operation in store.open_operations(None, MOST_OPERATIONS).await? {
        let idle = left_alone(store, &operation, now).await?.unwrap_or(0);
        page.raise(&f::OPERATION_AGE, &[], number(idle) / 1_000.0);
    }
    Ok(())
}

/// What waits to be told to the world.
pub(super) fn outbox(page: &mut Page, outbox: &OutboxView, now: Timestamp) {
    page.add(&f::FACTS_KEPT, &[], f64::from(outbox.kept));
    page.add(&f::FACTS_WAITING, &[], number(outbox.waiting.cast_signed()));
    let age = outbox.oldest.map_or(0, |at| now.0.saturating_sub(at.0).max(0));
    page.add(&f::FACTS_AGE, &[], number(age) / 1_000.0);
}

/// Kinds of operations that are told whether or not there is one, and states of them.
const KINDS: [OperationKind; 3] = [OperationKind::Redrive, OperationKind::Purge, OperationKind::Prune];
const STATES: [OperationState; 2] = [OperationState::Open, OperationState::Done];

fn kind_word(kind: OperationKind) -> &'static str {
    match kind {
        OperationKind::Redrive => "redrive",
        OperationKind::Purge => "purge",
        OperationKind::Cancel => "cancel",
        OperationKind::Retry => "retry",
        OperationKind::Rerun => "rerun",
        OperationKind::Import => "import",
        OperationKind::Prune => "prune",
        OperationKind::Pause => "pause",
        OperationKind::Resume => "resume",
        OperationKind::Close => "close",
        OperationKind::Reset => "reset",
        OperationKind::Stop => "stop",
        OperationKind::Kill => "kill",
        OperationKind::Note => "note",
    }
}

fn state_word(state: OperationState) -> &'static str {
    match state {
        OperationState::Open => "open",
        OperationState::Done => "done",
        OperationState::Cancelled => "cancelled",
        OperationState::Frozen => "frozen",
    }
}
