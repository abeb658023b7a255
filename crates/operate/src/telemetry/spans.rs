//! From spans to a body.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::attempt::Outcome;
use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::StateKind;
use redrive_core::time::Timestamp;
use redrive_core::trace::{SpanId, TraceId};
use redrive_engine::trace::{Span, What};
use redrive_store::Store;

use super::otlp::{Attribute, INTERNAL, Link, Resource, ResourceSpans, Scope, ScopeSpans, Status, Traces};

/// How many runs and parents are remembered.
const MOST_KNOWN: usize = 1_000;

/// What is told of a span beside what it has: the pipeline of its run, and the span of the item that its item came from.
#[derive(Default)]
pub(super) struct Lore {
    pipelines: BTreeMap<RunId, String>,
    parents: BTreeMap<ItemSeq, (TraceId, SpanId)>,
}

impl Lore {
    /// Looks up what is not known of these. Where the store does not tell, they go without.
    pub(super) async fn learn(&mut self, store: &dyn Store, spans: &[Span]) {
        if self.pipelines.len() > MOST_KNOWN {
            self.pipelines.clear();
        }
        if self.parents.len() > MOST_KNOWN {
            self.parents.clear();
        }
        let runs: BTreeSet<RunId> = spans.iter().map(|span| span.run).collect();
        for run in runs.into_iter().filter(|run| !self.pipelines.contains_key(run)).collect::<Vec<_>>() {
            if let Ok(Some(row)) = store.run(run).await {
                self.pipelines.insert(run, row.spec.pipeline);
            }
        }
        let parents: BTreeSet<ItemSeq> = spans.iter().filter_map(|span| parent_of(&span.what)).collect();
        let parents: Vec<ItemSeq> =
            parents.into_iter().filter(|parent| !self.parents.contains_key(parent)).collect();
        if !parents.is_empty() {
            for item in store.items_of(parents).await.unwrap_or_default() {
                let trace = TraceId::of(&item);
                self.parents.insert(item.seq, (trace, trace.item_span(item.generation)));
            }
        }
    }

    /// The body of a request with these spans.
    pub(super) fn body(&self, resource: &BTreeMap<String, String>, spans: &[Span]) -> Vec<u8> {
        let spans = spans.iter().map(|span| self.encoded(span)).collect();
        let scope_spans = [ScopeSpans { scope: Scope::OWN, spans }];
        let all =
            Traces { resource_spans: [ResourceSpans { resource: Resource::of(resource), scope_spans }] };
        // Texts and numbers can be written.
        serde_json::to_vec(&all).unwrap_or_default()
    }

    fn encoded<'a>(&'a self, span: &'a Span) -> super::otlp::Span<'a> {
        let pipeline = self.pipelines.get(&span.run).map_or("?", String::as_str);
        let mut attributes = vec![
            Attribute::text("redrive.pipeline", pipeline),
            Attribute::text("redrive.run", span.run.to_string()),
            Attribute::text("redrive.item", span.item.to_string()),
            Attribute::number("redrive.generation", span.generation),
        ];
        let (name, failed) = match &span.what {
            What::Attempt { stage, outcome, .. } => {
                attributes.extend(of_attempt(&span.what));
                let failed = matches!(outcome, Outcome::Failed | Outcome::Crashed | Outcome::Expired);
                (stage.as_str(), failed)
            }
            What::Item { state, reason, .. } => {
                attributes.push(Attribute::text("redrive.state", state.name()));
                attributes.extend(reason.map(|reason| Attribute::text("redrive.dead.reason", reason.name())));
                (pipeline, *state == StateKind::Dead)
            }
        };
        let parent = parent_of(&span.what).and_then(|parent| self.parents.get(&parent));
        let link = |(trace, span): &(TraceId, SpanId)| Link {
            trace_id: trace.to_string(),
            span_id: span.to_string(),
        };
        super::otlp::Span {
            trace_id: span.trace.to_string(),
            span_id: span.id.to_string(),
            parent_span_id: span.parent.map(|parent| parent.to_string()),
            name,
            kind: INTERNAL,
            start_time_unix_nano: nanos(span.started_at),
            end_time_unix_nano: nanos(span.ended_at),
            attributes,
            links: parent.map(link).into_iter().collect(),
            status: failed.then_some(Status::ERROR),
        }
    }
}

fn of_attempt(what: &What) -> Vec<Attribute<'_>> {
    let What::Attempt { stage, attempt, outcome, failure, wait_ms, worker } = what else { return Vec::new() };
    let mut told = vec![
        Attribute::text("redrive.stage", stage.as_str()),
        Attribute::number("redrive.attempt", *attempt),
        Attribute::text("redrive.outcome", outcome.name()),
        Attribute::text("redrive.worker", worker.to_string()),
    ];
    if let Some((class, kind, status)) = failure {
        told.push(Attribute::text("error.type", class.name()));
        told.push(Attribute::text("redrive.failure.kind", kind.name()));
        told.extend(status.map(|status| Attribute::number("http.response.status_code", status)));
    }
    told.extend(wait_ms.map(|wait| Attribute::number("redrive.wait_ms", wait)));
    told
}

/// The item that the item of a span was expanded from.
fn parent_of(what: &What) -> Option<ItemSeq> {
    match what {
        What::Attempt { .. } => None,
        What::Item { parent, .. } => *parent,
    }
}

/// A moment as it is written: nanoseconds since 1970.
pub(super) fn nanos(at: Timestamp) -> String {
    (i128::from(at.0.max(0)) * 1_000_000).to_string()
}
