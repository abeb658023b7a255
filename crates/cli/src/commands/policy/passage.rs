//! How long the items take through the gates of their stages, and what holds them up.

use std::time::Duration;

use redrive_core::gate::{GateSpec, Hold, Passage, Unknown, Work, items_within, passage};
use redrive_core::time::millis;
use serde::Serialize;

use super::View;
use super::subject::{AtGate, Subject};
use crate::args::ThroughArgs;
use crate::output::plot::{exact, figure, percent};
use crate::output::table::{Side, table};
use crate::output::text::{count, safe};

/// What a gate is called that only the command line describes.
const GIVEN: &str = "as given";

/// What to expect of every gate.
#[derive(Serialize)]
pub struct Passages {
    /// Each stage, as if it had its gate for itself.
    stages: Vec<Row>,
    /// The gates that several stages share.
    shared: Vec<Row>,
    /// The time of the slowest gate: stages overlap. None where nothing is known of any.
    time_ms: Option<i64>,
    /// Whether that is only the least.
    at_least: bool,
    /// The slowest gate.
    slowest: Option<String>,
    #[serde(skip)]
    time: Option<Duration>,
    #[serde(skip)]
    through: ThroughArgs,
}

#[derive(Serialize)]
struct Row {
    gate: String,
    stages: Vec<String>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
    /// Items of one call; none where stages differ.
    items_per_request: Option<u64>,
    /// Infinite, and null in JSON, where nothing ends them.
    requests: f64,
    retried: f64,
    tokens: Option<f64>,
    at_once: Option<u32>,
    by_requests_ms: Option<i64>,
    by_tokens_ms: Option<i64>,
    by_concurrency_ms: Option<i64>,
    held_by: Option<Hold>,
    time_ms: Option<i64>,
    unknown: Vec<Unknown>,
    /// Whether every item has more tokens than can ever pass.
    refused: bool,
    /// Items that expire before it is their turn, when all come at once.
    expired: Option<u64>,
    #[serde(skip)]
    time: Option<Duration>,
}

/// Lets what was said on the command line take the place of what a file says; a preset has a gate only by it.
pub fn take_over(subject: &mut Subject, through: &ThroughArgs) {
    if subject.gate.is_none() && subject.stage.is_none() && *through != ThroughArgs::default() {
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
    pub fn of(views: &[View], through: &ThroughArgs) -> Option<Self> {
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
        let shared: Vec<Row> = together.collect();
        let stages: Vec<Row> = all.iter().map(|stage| row(&[stage])).collect();
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

    /// All of it for people.
    pub fn words(&self) -> String {
        let right = |name| (name, Side::Right);
        let headings = [
            ("gate", Side::Left),
            ("stage", Side::Left),
            right("items/call"),
            right("calls"),
            right("retries"),
            right("tokens"),
            right("at once"),
            ("held by", Side::Left),
            ("time", Side::Left),
        ];
        let dash = || "–".to_owned();
        let cells = |row: &Row| {
            [
                row.gate.clone(),
                row.stages.join(" + "),
                row.items_per_request.map_or_else(dash, count),
                figure(row.requests),
                percent(row.retried),
                row.tokens.map_or_else(dash, figure),
                row.at_once.map_or_else(dash, |n| count(n.into())),
                row.held_by.map_or_else(dash, |hold| hold.name().to_owned()),
                row.time.map_or_else(|| "unknown".to_owned(), |time| about(time, !row.unknown.is_empty())),
            ]
        };
        let mut lines = vec![format!(
            "through gates:\n{}",
            table(headings, self.stages.iter().chain(&self.shared).map(cells))
        )];
        lines.extend(self.in_all());
        lines.extend(self.stages.iter().filter_map(|row| self.warning(row)));
        lines.extend(self.unknown());
        safe(&lines.join("\n"))
    }

    fn in_all(&self) -> Option<String> {
        let (time, slowest) = (self.time?, self.slowest.as_ref()?);
        let time = about(time, self.at_least);
        Some(if self.stages.len() > 1 {
            format!("in all {time}: stages overlap, and gate {slowest} takes longest")
        } else {
            format!("in all {time}")
        })
    }

    fn warning(&self, row: &Row) -> Option<String> {
        let stage = row.stages.join(" + ");
        if row.refused {
            let (each, minute) = (self.through.tokens_per_item?, row.tokens_per_minute?);
            return Some(format!(
                "{stage}: items of {} tokens are refused as oversized, {} pass in a minute",
                count(each),
                count(minute)
            ));
        }
        let expired = row.expired?;
        Some(format!(
            "{stage}: {} items would expire before it is their turn; raise the deadline or the limit, or submit fewer at a time",
            count(expired)
        ))
    }

    /// What would have to be said to know more.
    fn unknown(&self) -> Option<String> {
        let gates = |what: Unknown| -> Vec<&str> {
            let mut gates: Vec<&str> = self
                .stages
                .iter()
                .filter(|row| row.unknown.contains(&what))
                .map(|row| row.gate.as_str())
                .collect();
            gates.dedup();
            gates
        };
        let mut parts = Vec::new();
        match gates(Unknown::Limits)[..] {
            [] => {}
            [GIVEN] => parts.push("limits, which are learnt at run time".to_owned()),
            ref all => parts.push(format!("limits of {}, which are learnt at run time", all.join(", "))),
        }
        for (what, words) in [
            (Unknown::TokensPerItem, "the tokens of an item (--tokens-per-item)"),
            (Unknown::Latency, "how long a call takes (--latency)"),
            (Unknown::Concurrency, "how many calls run at once (--concurrency)"),
        ] {
            if !gates(what).is_empty() {
                parts.push(words.to_owned());
            }
        }
        (!parts.is_empty()).then(|| format!("not known: {}", parts.join("; ")))
    }
}

fn stage<'a>(view: &'a View, through: &ThroughArgs) -> Option<Stage<'a>> {
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

fn row(stages: &[&Stage<'_>]) -> Row {
    let gate = stages.first().map(|stage| stage.gate.clone());
    let spec = gate.as_ref().map(|gate| gate.spec.clone()).unwrap_or_default();
    let works: Vec<Work> = stages.iter().map(|stage| stage.work).collect();
    let found: Passage = passage(&spec, &works);
    let alone = if let [work] = works[..] { Some(work) } else { None };
    let within = alone.zip(gate.as_ref().and_then(|gate| gate.deadline));
    let within =
        within.and_then(|(work, deadline)| items_within(&spec, &work, deadline).map(|n| (work.items, n)));
    Row {
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

/// An expectation, as exact as it is.
fn about(time: Duration, at_least: bool) -> String {
    let time = if time.as_secs() >= 10 && time < Duration::MAX {
        Duration::from_secs(time.as_secs() + u64::from(time.subsec_millis() >= 500))
    } else {
        time
    };
    format!("{} {}", if at_least { "at least" } else { "about" }, exact(time))
}
