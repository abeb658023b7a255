//! What becomes of items, as spans: one for every attempt that is recorded, and one for the item itself when it ends.
//!
//! A span is made where its attempt has been committed, by whoever committed it, and follows from the transition alone. It
//! holds names, numbers and words of our own: neither content nor keys, and of a failure no more than its class and kind.

use std::sync::Arc;

use redrive_core::attempt::{AttemptRecord, Outcome};
use redrive_core::event::Transition;
use redrive_core::failure::{Class, Kind};
use redrive_core::id::{ItemId, ItemSeq, RunId, WorkerId};
use redrive_core::item::{DeadReason, Item, State, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::{Timestamp, millis};
use redrive_core::trace::{SpanId, TraceId, traceparent};
use redrive_store::Applied;

/// Something that took a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The trace that it is a part of.
    pub trace: TraceId,
    /// Its name.
    pub id: SpanId,
    /// The span that it is a part of.
    pub parent: Option<SpanId>,
    /// The item's run.
    pub run: RunId,
    /// The item.
    pub item: ItemId,
    /// How often the item had been sent back.
    pub generation: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended, not before it began.
    pub ended_at: Timestamp,
    /// What it was.
    pub what: What,
}

/// What a span is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// An attempt.
    Attempt {
        /// The name of its stage.
        stage: String,
        /// Its number, from 1.
        attempt: u32,
        /// How it ended.
        outcome: Outcome,
        /// What its failure meant, where it came from, and its HTTP status.
        failure: Option<(Class, Kind, Option<u16>)>,
        /// How long the item waits after it, in milliseconds.
        wait_ms: Option<i64>,
        /// Who did it.
        worker: WorkerId,
    },
    /// The item, from its admission to its end.
    Item {
        /// The state that it ended in.
        state: StateKind,
        /// Why it is dead, if it is.
        reason: Option<DeadReason>,
        /// The item that it was expanded from.
        parent: Option<ItemSeq>,
    },
}

/// How many spans a process has made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpanCounts {
    /// Those that were taken by whoever collects them.
    pub sent: u64,
    /// Those that were not: nobody took them, or more came than are kept.
    pub dropped: u64,
}

/// Who hears of spans. What it does must neither wait nor fail: work does not depend on it.
pub trait Tracer: Send + Sync {
    /// Whether spans of a trace are kept.
    fn keeps(&self, trace: TraceId) -> bool;

    /// Takes a span.
    fn ended(&self, span: Span);

    /// Whether services are told which trace they are called in.
    fn tells_services(&self) -> bool;

    /// How many there were.
    fn counts(&self) -> SpanCounts;
}

/// Who hears of spans, if anybody does.
pub type Traced = Option<Arc<dyn Tracer>>;

/// Tells the spans of a transition that was committed.
pub(crate) fn committed(traced: &Traced, plan: &Plan, transition: &Transition) {
    if let Some(tracer) = traced {
        spans(&**tracer, plan, transition).into_iter().flatten().for_each(|span| tracer.ended(span));
    }
}

/// The span of the attempt that ended by a transition, and that of the item.
fn spans(tracer: &dyn Tracer, plan: &Plan, transition: &Transition) -> [Option<Span>; 2] {
    let item = &transition.after;
    let ends = item.state.kind().is_terminal() && !transition.from.kind.is_terminal();
    if transition.record.is_none() && !ends {
        return [None, None];
    }
    let trace = TraceId::of(item);
    if !tracer.keeps(trace) {
        return [None, None];
    }
    let attempt = transition.record.as_ref().map(|record| {
        let stage = plan.stage(record.stage).map_or("?", |stage| &stage.name);
        attempt(trace, item, record, stage)
    });
    [attempt, ends.then(|| life(trace, item))]
}

/// Spans that are told once it is known that their transitions were committed.
pub(crate) struct Prepared {
    traced: Traced,
    /// Those of each transition.
    spans: Vec<Vec<Span>>,
}

/// Makes the spans of changes that are about to be committed.
pub(crate) fn prepare<'a>(
    traced: &Traced,
    plan: &Plan,
    changes: impl IntoIterator<Item = &'a Transition>,
) -> Prepared {
    let Some(tracer) = traced else { return Prepared { traced: None, spans: Vec::new() } };
    let of = |transition| spans(&**tracer, plan, transition).into_iter().flatten().collect();
    Prepared { traced: traced.clone(), spans: changes.into_iter().map(of).collect() }
}

impl Prepared {
    /// Tells those of the transitions that were committed.
    pub(crate) fn committed(self, applied: &[Applied]) {
        let Some(tracer) = self.traced else { return };
        let done = self.spans.into_iter().zip(applied).filter(|(_, applied)| **applied == Applied::Done);
        done.flat_map(|(spans, _)| spans).for_each(|span| tracer.ended(span));
    }
}

/// What a service is told of an attempt that it is called for.
pub(crate) fn context(traced: &Traced, item: &Item) -> Option<Arc<str>> {
    let tracer = traced.as_ref().filter(|tracer| tracer.tells_services())?;
    let trace = TraceId::of(item);
    let span = trace.attempt_span(item.stage, item.generation, item.attempt);
    Some(Arc::from(traceparent(trace, span, tracer.keeps(trace))))
}

fn attempt(trace: TraceId, item: &Item, record: &AttemptRecord, stage: &str) -> Span {
    Span {
        trace,
        id: trace.attempt_span(record.stage, record.generation, record.attempt),
        parent: Some(trace.item_span(record.generation)),
        run: item.run,
        item: item.id,
        generation: record.generation,
        started_at: record.started_at,
        ended_at: record.ended_at.max(record.started_at),
        what: What::Attempt {
            stage: stage.to_owned(),
            attempt: record.attempt,
            outcome: record.outcome,
            failure: record.failure.as_ref().map(|failure| (failure.class, failure.kind, failure.status)),
            wait_ms: record.wait.map(|(wait, _)| millis(wait)),
            worker: record.worker,
        },
    }
}

fn life(trace: TraceId, item: &Item) -> Span {
    let reason = match item.state {
        State::Dead { reason } => Some(reason),
        _ => None,
    };
    Span {
        trace,
        id: trace.item_span(item.generation),
        parent: None,
        run: item.run,
        item: item.id,
        generation: item.generation,
        started_at: item.created_at,
        ended_at: item.updated_at.max(item.created_at),
        what: What::Item { state: item.state.kind(), reason, parent: item.parent },
    }
}
