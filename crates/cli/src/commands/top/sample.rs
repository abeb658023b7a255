//! A rehearsed evening, for tests and for the picture in the documents: the same at any time, on any machine.

use redrive_core::failure::Class;
use redrive_core::gate::LimitKind;
use redrive_core::id::{ItemId, RunId};
use redrive_core::status::{Counts, RunStatus};
use redrive_core::time::Timestamp;
use redrive_engine::report::{Attempts, Concurrency, GateReport, GateTotals, PerMinute};
use redrive_operate::dead::DeadGroup;
use redrive_operate::overview::{Overview, RunView, StageView, Totals};

use super::model::Model;

/// When it begins: 2026-11-17T18:00:00Z.
const BEGIN: i64 = 1_794_938_400_000;

/// A model that has looked once a second for so many seconds.
pub fn after(seconds: u64) -> Model {
    let mut model = Model::new("sqlite:.redrive/state.db".to_owned(), None, true);
    for second in 0..=seconds {
        model.saw(Ok(look(second)));
    }
    model
}

/// Everything that goes on at a second.
pub fn look(second: u64) -> Overview {
    let now = Timestamp(BEGIN + i64::try_from(second).expect("small") * 1_000);
    let runs = vec![mail(second), papers(), old()];
    let counts = runs.iter().fold(Counts::default(), |sum, run| sum.plus(&run.counts));
    let totals = Totals { going_on: 2, ended: 1, workers: 2, counts, gates_shut: 1, ..Totals::default() };
    Overview { at: now.to_string(), now, runs, gates: gates(second), dead: dead(second), totals }
}

fn mail(second: u64) -> RunView {
    let (fetched, embedded, dead) = (6_000 + 90 * second, 4_000 + 40 * second, 12 + 2 * second);
    let all = 20_000;
    let stages = vec![
        stage("fetch", [all, fetched, all - fetched - 8, 8, 0], Some(12_400)),
        stage("embed", [fetched, embedded, fetched - embedded - dead - 16, 16, dead], Some(3_100)),
    ];
    let waiting = all - embedded - dead - 24;
    let counts =
        Counts { admitted: all, succeeded: embedded, dead, running: 24, waiting, ..Counts::default() };
    run(3, "mail", RunStatus::Running, counts, stages, &["ann@west-1", "ann@west-2"])
}

fn papers() -> RunView {
    let counts =
        Counts { admitted: 900, succeeded: 310, filtered: 40, dead: 150, waiting: 400, ..Counts::default() };
    let stages = vec![
        stage("parse", [900, 700, 200, 0, 0], Some(95_000)),
        stage("summarise", [700, 310, 200, 0, 150], None),
    ];
    let reason = "the failure budget of summarise is spent: 150 of the last 200 items died".to_owned();
    let view = run(2, "papers", RunStatus::PausedBudget, counts, stages, &[]);
    RunView { reason: Some(reason), ..view }
}

fn old() -> RunView {
    let counts = Counts { admitted: 1_200, succeeded: 1_200, ..Counts::default() };
    let view = run(
        1,
        "mail",
        RunStatus::Completed,
        counts,
        vec![stage("fetch", [1_200, 1_200, 0, 0, 0], None)],
        &[],
    );
    RunView { ended: true, finished_at: Some(Timestamp(BEGIN).to_string()), ..view }
}

fn run(
    id: i64,
    pipeline: &str,
    status: RunStatus,
    counts: Counts,
    stages: Vec<StageView>,
    workers: &[&str],
) -> RunView {
    RunView {
        run: RunId(id),
        pipeline: pipeline.to_owned(),
        source: "inbox".to_owned(),
        category: None,
        status,
        reason: None,
        paused: Vec::new(),
        ended: false,
        reading: false,
        counts,
        awaited: 0,
        attempts: Attempts { total: counts.admitted, failures: counts.dead, ..Attempts::default() },
        next_due: None,
        created_at: Timestamp(BEGIN).to_string(),
        finished_at: None,
        elapsed_ms: 754_000,
        workers: workers.iter().map(ToString::to_string).collect(),
        stages,
    }
}

/// A stage with what came to it, passed it, waits, runs and died there.
fn stage(name: &str, [came, passed, waiting, running, dead]: [u64; 5], oldest_ms: Option<i64>) -> StageView {
    StageView {
        name: name.to_owned(),
        below: None,
        came,
        passed,
        waiting,
        running,
        joining: 0,
        dead,
        filtered: 0,
        to_do: came - passed - dead,
        oldest_ms,
        next_in_ms: None,
        last_in_ms: None,
        attempts: Attempts { total: passed + dead, failures: dead, ..Attempts::default() },
    }
}

fn gates(second: u64) -> Vec<GateReport> {
    let gate = |name: &str, state, why: &str, kind, at_once: (u32, u32), throttled| GateReport {
        name: name.to_owned(),
        state,
        why: why.to_owned(),
        kind,
        since: None,
        until: None,
        concurrency: Concurrency { now: at_once.0, limit: at_once.1, most: Some(32) },
        requests_per_minute: PerMinute { now: Some(2_400), given: None, learnt: Some(2_500), told: None },
        tokens_per_minute: PerMinute::default(),
        latency_ms: 180,
        batch: std::collections::BTreeMap::new(),
        workers: 2,
        totals: GateTotals { calls: 9_000, throttled, ..GateTotals::default() },
        updated_at: Timestamp(BEGIN).to_string(),
    };
    let slower = "calls were turned away; it goes slower, at most 2,500 requests a minute";
    vec![
        gate("api.example.com", "open", slower, Some(LimitKind::Rate), (16, 24), 300 + second),
        gate("files", "paused", "an operator paused it: invoice (ann)", None, (0, 8), 0),
    ]
}

fn dead(second: u64) -> Vec<DeadGroup> {
    let group = |name: &str, items, stage: &str, class, message: &str| DeadGroup {
        group: name.to_owned(),
        items,
        stage: stage.to_owned(),
        class: Some(class),
        message: message.to_owned(),
        example: ItemId([0; 16]),
        first_at: Timestamp(BEGIN).to_string(),
        last_at: Timestamp(BEGIN).to_string(),
        note: None,
        acknowledged_at: None,
        noted_by: None,
        open: true,
    };
    vec![
        group("5c1e0d9a7b22", 150, "summarise", Class::Final, "422 the answer is not JSON"),
        group("a80f3b6611ce", 12 + 2 * second, "embed", Class::Final, "400 text is longer than 8,192 tokens"),
    ]
}
