//! How long the items take through the gates of their stages, and what holds them up.

use std::time::Duration;

use redrive_core::gate::{GateSpec, Hold, Passage, Unknown, Work, items_within, passage};
use redrive_core::time::millis;
use serde::{Deserialize, Serialize};

use super::View;
use super::subject::{AtGate, Subject};

/// What a gate is called that only the request describes.
pub const GIVEN: &str = "as given";

/// What the calls of a simulation have to pass; in a file it takes the place of what the file says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Through {
    /// Most requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Most tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Tokens of one item.
    pub tokens_per_item: Option<u64>,
    /// Most items of one call.
    pub batch: Option<u32>,
    /// How long a call takes.
    pub latency: Option<Duration>,
    /// Most calls at once.
    pub concurrency: Option<u32>,
}

/// What to expect of every gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Passages {
    /// Each stage, as if it had its gate for itself.
    pub stages: Vec<GatePassage>,
    /// The gates that several stages share.
    pub shared: Vec<GatePassage>,
    /// The time of the slowest gate: stages overlap. None where nothing is known of any.
    pub time_ms: Option<i64>,
    /// Whether that is only the least.
    pub at_least: bool,
    /// The slowest gate.
    pub slowest: Option<String>,
    /// The time of the slowest gate, which may have no end.
    #[serde(skip)]
    pub time: Option<Duration>,
    /// What was given.
    #[serde(skip)]
    pub through: Through,
}

/// What to expect of one gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatePassage {
    /// Its name.
    pub gate: String,
    /// The stages that pass it.
    pub stages: Vec<String>,
    /// Most requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Most tokens per minute.
    pub tokens_per_minute: Option<u64>,
    /// Items of one call; none where stages differ.
    pub items_per_request: Option<u64>,
    /// Calls; infinite, and null in JSON, where nothing ends them.
    pub requests: f64,
    /// The share of them that are retries.
    pub retried: f64,
    /// Tokens of all of them.
    pub tokens: Option<f64>,
    /// Calls at once.
    pub at_once: Option<u32>,
    /// The time that the limit of requests makes it take.
    pub by_requests_ms: Option<i64>,
    /// The time that the limit of tokens makes it take.
    pub by_tokens_ms: Option<i64>,
    /// The time that the calls at once make it take.
    pub by_concurrency_ms: Option<i64>,
    /// What holds it up most.
    pub held_by: Option<Hold>,
    /// How long it takes.
    pub time_ms: Option<i64>,
    /// What would have to be known to know more.
    pub unknown: Vec<Unknown>,
    /// Whether every item has more tokens than can ever pass.
    pub refused: bool,
    /// Items that expire before it is their turn, when all come at once.
    pub expired: Option<u64>,
    /// How long it takes, which may have no end.
    #[serde(skip)]
    pub time: Option<Duration>,
}

/// Lets what was asked for take the place of what a file says; a preset has a gate only by it.
pub(super) fn take_over(subject: &mut Subject, through: &Through) {
    if subject.gate.is_none() && subject.stage.is_none() && *through != Through::default() {
        subject.gate = Some(AtGate {
            name: GIVEN.to_owned(),
            spec: GateSpec { max_concurrency: u32::MAX, ..GateSpec::default() },
            batch: 1,
            batch_tokens: None,
            concurrency: None,
            deadline: None,
        });
    }
    let Some(gate) = &mut subject.gate else { return };
    gate.spec.requests_per_minute = through.requests_per_minute.or(gate.spec.requests_per_minute);
    gate.spec.tokens_per_minute = through.tokens_per_minute.or(gate.spec.tokens_per_minute);
    gate.batch = through.batch.unwrap_or(gate.batch);
    if let Some(concurrency) = through.concurrency {
        gate.concurrency = Some(concurrency);
        gate.spec.max_concurrency = gate.spec.max_concurrency.max(concurrency);
    }
}

struct Stage<'a> {
    name: &'a str,
    gate: &'a AtGate,
    work: Work,
}

impl Passages {
    /// What to expect of the gates of these policies; none where there is no gate.
    pub(super) fn of(views: &[View], through: &Through) -> Option<Self> {
        let stage = |view| stage(view, through);
        let all: Vec<Stage<'_>> = views.iter().filter_map(stage).collect();
        if all.is_empty() {
            return None;
        }
        let mut names: Vec<&str> = all.iter().map(|stage| stage.gate.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let together = names.into_iter().filter_map(|name| {
            let sharing: Vec<&Stage<'_>> = all.iter().filter(|stage| stage.gate.name == name).collect();
            (sharing.len() > 1).then(|| row(&sharing))
        });
        let shared: Vec<GatePassage> = together.collect();
        let stages: Vec<GatePassage> = all.iter().map(|stage| row(&[stage])).collect();
        // A gate that several stages share takes at least as long as each of them.
        let slowest = shared.iter().chain(&stages).filter(|row| row.time.is_some());
        let slowest = slowest.reduce(|a, b| if b.time > a.time { b } else { a });
        let time = slowest.and_then(|row| row.time);
        Some(Self {
            time_ms: time.and_then(finite),
            at_least: stages.iter().any(|row| !row.unknown.is_empty()),
            slowest: slowest.map(|row| row.gate.clone()),
            time,
            through: *through,
            stages,
            shared,
        })
    }
}

fn stage<'a>(view: &'a View, through: &Through) -> Option<Stage<'a>> {
    let (gate, outlook) = (view.subject.gate.as_ref()?, view.outlook.as_ref()?);
    let work = Work {
        items: outlook.items,
        calls_per_item: outlook.expected_calls_per_item,
        batch: gate.batch,
        batch_tokens: gate.batch_tokens,
        tokens_per_item: through.tokens_per_item,
        concurrency: gate.concurrency,
        latency: through.latency,
    };
    Some(Stage { name: view.subject.stage.as_deref().unwrap_or(&view.subject.name), gate, work })
}

fn row(stages: &[&Stage<'_>]) -> GatePassage {
    let gate = stages.first().map(|stage| stage.gate.clone());
    let spec = gate.as_ref().map(|gate| gate.spec.clone()).unwrap_or_default();
    let works: Vec<Work> = stages.iter().map(|stage| stage.work).collect();
    let found: Passage = passage(&spec, &works);
    let alone = if let [work] = works[..] { Some(work) } else { None };
    let within = alone.zip(gate.as_ref().and_then(|gate| gate.deadline));
    let within =
        within.and_then(|(work, deadline)| items_within(&spec, &work, deadline).map(|n| (work.items, n)));
    GatePassage {
        gate: gate.map(|gate| gate.name).unwrap_or_default(),
        stages: stages.iter().map(|stage| stage.name.to_owned()).collect(),
        requests_per_minute: spec.requests_per_minute,
        tokens_per_minute: spec.tokens_per_minute,
        items_per_request: alone.map(|work| work.items_per_request(&spec)),
        requests: found.requests,
        retried: found.retried,
        tokens: found.tokens,
        at_once: found.at_once,
        by_requests_ms: found.by_requests.and_then(finite),
        by_tokens_ms: found.by_tokens.and_then(finite),
        by_concurrency_ms: found.by_concurrency.and_then(finite),
        held_by: found.held_by,
        time_ms: found.time.and_then(finite),
        unknown: found.unknown,
        refused: found.refused,
        expired: within.and_then(|(items, within)| items.checked_sub(within)).filter(|n| *n > 0),
        time: found.time,
    }
}

fn finite(span: Duration) -> Option<i64> {
    (span < Duration::MAX).then(|| millis(span))
}
