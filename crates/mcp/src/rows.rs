//! What the tools answer with, row by row. What others wrote stands in `untrusted_text`, and nowhere else.

use redrive_core::failure::Class;
use redrive_core::id::{ItemId, RunId};
use redrive_core::item::{DeadReason, StateKind};
use redrive_core::status::{Counts, RunStatus};
use redrive_engine::report::{AttemptView, GateReport, RunReport};
use redrive_index::search::SearchHit;
use redrive_operate::dead::{DeadGroup, DeadItem, Planned, Share};
use redrive_operate::index::OneIndex;
use redrive_operate::items::Life;
use redrive_operate::passages::Part;
use serde::Serialize;

use crate::answer::{brief, clean, cut, short};

/// Most bytes of a passage in a list of hits.
const PASSAGE: usize = 1_200;
/// Attempts and marks of an item that are told; the last ones.
const LAST: usize = 4;

/// A row with what others wrote kept apart.
#[derive(Serialize)]
pub(crate) struct Row<T, U> {
    #[serde(flatten)]
    of: T,
    untrusted_text: U,
}

#[derive(Serialize)]
pub(crate) struct HitFacts {
    root: String,
    kind: String,
    page: Option<u32>,
    first_line: u32,
    last_line: u32,
    score: f64,
}

#[derive(Serialize)]
pub(crate) struct HitText {
    path: String,
    context: String,
    text: String,
}

pub(crate) type Hit = Row<HitFacts, HitText>;

pub(crate) fn hit(hit: SearchHit) -> Hit {
    let SearchHit { path, page, start, end, score, root, kind, context, text, .. } = hit;
    let of = HitFacts { root, kind, page, first_line: start, last_line: end, score };
    Row {
        of,
        untrusted_text: HitText { path: clean(&path), context: brief(&context), text: cut(&text, PASSAGE) },
    }
}

#[derive(Serialize)]
pub(crate) struct PartFacts {
    page: Option<u32>,
    first_line: u32,
    last_line: u32,
    cut: bool,
}

#[derive(Serialize)]
pub(crate) struct PartText {
    context: String,
    text: String,
}

pub(crate) type PartRow = Row<PartFacts, PartText>;

pub(crate) fn part(part: Part) -> PartRow {
    let Part { page, first_line, last_line, context, text, cut } = part;
    let of = PartFacts { page, first_line, last_line, cut };
    Row { of, untrusted_text: PartText { context: short(&context), text: clean(&text) } }
}

#[derive(Serialize)]
pub(crate) struct IndexRow {
    root: String,
    model: String,
    documents: u64,
    refused: u64,
    passages: u64,
    last_run: Option<RunId>,
    last_status: Option<RunStatus>,
    last_finished_at: Option<String>,
}

pub(crate) fn index(one: OneIndex) -> IndexRow {
    let OneIndex { root, model, size, last_pass } = one;
    let last = last_pass.as_ref();
    IndexRow {
        root,
        model,
        documents: size.documents,
        refused: size.refused,
        passages: size.chunks,
        last_run: last.map(|pass| pass.run),
        last_status: last.map(|pass| pass.status),
        last_finished_at: last.and_then(|pass| pass.finished_at.clone()),
    }
}

#[derive(Serialize)]
pub(crate) struct RunFacts {
    pub(crate) run: RunId,
    pipeline: String,
    status: RunStatus,
    items: Counts,
    usd: Option<f64>,
    next_due: Option<String>,
    created_at: String,
    finished_at: Option<String>,
}

#[derive(Serialize)]
pub(crate) struct RunText {
    source: String,
    reason: Option<String>,
}

pub(crate) type RunRow = Row<RunFacts, RunText>;

impl RunRow {
    pub(crate) fn id(&self) -> RunId {
        self.of.run
    }
}

pub(crate) fn run(run: RunReport) -> RunRow {
    let untrusted_text = RunText { source: short(&run.source), reason: run.reason.as_deref().map(short) };
    let of = RunFacts {
        run: run.run,
        pipeline: short(&run.pipeline),
        status: run.status,
        items: run.counts,
        usd: run.usage.and_then(|usage| usage.usd),
        next_due: run.next_due,
        created_at: run.created_at,
        finished_at: run.finished_at,
    };
    Row { of, untrusted_text }
}

#[derive(Serialize)]
pub(crate) struct GroupFacts {
    group: String,
    items: u64,
    stage: String,
    class: Option<Class>,
    example: ItemId,
    first_at: String,
    last_at: String,
    open: bool,
}

#[derive(Serialize)]
pub(crate) struct GroupText {
    message: String,
    note: Option<String>,
}

pub(crate) type GroupRow = Row<GroupFacts, GroupText>;

pub(crate) fn group(group: DeadGroup) -> GroupRow {
    let DeadGroup { group, items, stage, class, message, example, first_at, last_at, note, open, .. } = group;
    let untrusted_text = GroupText { message: short(&message), note: note.as_deref().map(short) };
    Row { of: GroupFacts { group, items, stage, class, example, first_at, last_at, open }, untrusted_text }
}

#[derive(Serialize)]
pub(crate) struct DeadFacts {
    id: ItemId,
    run: RunId,
    stage: String,
    reason: Option<DeadReason>,
    class: Option<Class>,
    attempts: u32,
}

#[derive(Serialize)]
pub(crate) struct ItemText {
    key: String,
    message: Option<String>,
}

pub(crate) type DeadRow = Row<DeadFacts, ItemText>;

fn dead(item: &DeadItem) -> DeadRow {
    let of = DeadFacts {
        id: item.id,
        run: item.run,
        stage: item.stage.clone(),
        reason: item.reason,
        class: item.class,
        attempts: item.attempts,
    };
    Row {
        of,
        untrusted_text: ItemText { key: brief(&item.key), message: item.message.as_deref().map(brief) },
    }
}

#[derive(Serialize)]
pub(crate) struct PreviewAnswer {
    set: String,
    items: u64,
    matching: u64,
    skipped: u64,
    usd: Option<f64>,
    unpriced: u64,
    reused: u64,
    by: Vec<Share>,
    first: Vec<DeadRow>,
    may_start: bool,
}

pub(crate) fn preview(planned: &Planned, may_start: bool) -> PreviewAnswer {
    PreviewAnswer {
        set: planned.set.clone(),
        items: planned.items,
        matching: planned.matching,
        skipped: planned.skipped,
        usd: planned.usd,
        unpriced: planned.unpriced,
        reused: planned.reused,
        by: planned.by.iter().take(20).cloned().collect(),
        first: planned.first.iter().map(dead).collect(),
        may_start,
    }
}

#[derive(Serialize)]
pub(crate) struct GateFacts {
    name: String,
    state: &'static str,
    since: Option<String>,
    until: Option<String>,
    calls_now: u32,
    calls_limit: u32,
    requests_per_minute: Option<u64>,
    latency_ms: u64,
    workers: usize,
}

#[derive(Serialize)]
pub(crate) struct GateText {
    why: String,
}

pub(crate) type GateRow = Row<GateFacts, GateText>;

impl GateRow {
    pub(crate) fn name(&self) -> &str {
        &self.of.name
    }
}

pub(crate) fn gate(gate: GateReport) -> GateRow {
    let untrusted_text = GateText { why: short(&gate.why) };
    let of = GateFacts {
        name: gate.name,
        state: gate.state,
        since: gate.since,
        until: gate.until,
        calls_now: gate.concurrency.now,
        calls_limit: gate.concurrency.limit,
        requests_per_minute: gate.requests_per_minute.now,
        latency_ms: gate.latency_ms,
        workers: gate.workers,
    };
    Row { of, untrusted_text }
}

#[derive(Serialize)]
pub(crate) struct LifeFacts {
    id: ItemId,
    run: RunId,
    stage: Option<String>,
    state: StateKind,
    purged: bool,
    class: Option<&'static str>,
    group: Option<String>,
    generation: Option<u32>,
    due: Option<String>,
    attempts: usize,
    last_attempts: Vec<Row<AttemptFacts, AttemptText>>,
}

#[derive(Serialize)]
pub(crate) struct LifeText {
    key: String,
    now: String,
    reason: Option<String>,
    message: Option<String>,
    content: Option<String>,
    marks: Vec<String>,
}

#[derive(Serialize)]
pub(crate) struct AttemptFacts {
    attempt: u32,
    stage: String,
    ended_at: Option<String>,
    outcome: &'static str,
    class: Option<&'static str>,
    status: Option<u16>,
    wait_ms: Option<i64>,
    usd: Option<f64>,
}

#[derive(Serialize)]
pub(crate) struct AttemptText {
    message: Option<String>,
}

fn attempt(view: &AttemptView) -> Row<AttemptFacts, AttemptText> {
    let of = AttemptFacts {
        attempt: view.attempt,
        stage: view.stage.clone(),
        ended_at: view.ended_at.clone(),
        outcome: view.outcome,
        class: view.class,
        status: view.status,
        wait_ms: view.wait_ms,
        usd: view.usd,
    };
    Row { of, untrusted_text: AttemptText { message: view.message.as_deref().map(brief) } }
}

pub(crate) fn life(life: Life) -> Row<LifeFacts, LifeText> {
    match life {
        Life::Item(life) => {
            let last = life.attempts.len().saturating_sub(LAST);
            let marks = life.marks.iter().rev().take(LAST).rev();
            let untrusted_text = LifeText {
                key: short(&life.item.key),
                now: short(&life.now),
                reason: life.item.reason.as_deref().map(short),
                message: life.item.message.as_deref().map(short),
                content: life.item.payload.as_ref().map(|payload| short(payload.get())),
                marks: marks
                    .map(|mark| brief(&format!("{} {} {}", mark.at, mark.what, mark.detail)))
                    .collect(),
            };
            let of = LifeFacts {
                id: life.item.id,
                run: life.item.run,
                stage: Some(life.item.stage),
                state: life.item.state,
                purged: false,
                class: life.item.class,
                group: life.item.group,
                generation: Some(life.item.generation),
                due: life.item.due,
                attempts: life.attempts.len() + usize::try_from(life.left_off.attempts).unwrap_or(usize::MAX),
                last_attempts: life.attempts[last..].iter().map(attempt).collect(),
            };
            Row { of, untrusted_text }
        }
        Life::Purged(left) => {
            let untrusted_text = LifeText {
                key: short(&left.item.key),
                now: short(&left.now),
                reason: None,
                message: None,
                content: None,
                marks: Vec::new(),
            };
            let of = LifeFacts {
                id: left.item.id,
                run: left.item.run,
                stage: left.item.stage,
                state: left.item.was,
                purged: true,
                class: None,
                group: None,
                generation: None,
                due: None,
                attempts: 0,
                last_attempts: Vec::new(),
            };
            Row { of, untrusted_text }
        }
    }
}
