//! How a stage waits for answers that come later: `event`, `defer` and `stuck_after`.

use std::time::Duration;

use crate::definition::{Body, DeferDef, PollDef, StageKind};
use crate::problem::Report;
use crate::reader::{Node, Table};
use crate::{kind, scalar};

const STUCK_AFTER: Duration = Duration::from_secs(24 * 3_600);
const STUCK_AFTER_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
const EVERY: Duration = Duration::from_secs(5);
const EVERY_MIN: Duration = Duration::from_millis(100);

/// Reads the name of the event by which others do what a stage of this kind does; none where it is done by whoever works on the run.
pub(crate) fn event(kind: &StageKind, table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    match kind {
        StageKind::Http { .. }
        | StageKind::Command { .. }
        | StageKind::Embed { .. }
        | StageKind::EmbedBuiltin { .. }
        | StageKind::Chat { .. }
        | StageKind::Parse { .. }
        | StageKind::Mail { .. } => table.take("event").and_then(|node| node.parsed(report, scalar::event)),
        // It has read the key already.
        StageKind::Event { .. } => None,
        StageKind::External { .. }
        | StageKind::Filter { .. }
        | StageKind::Pass
        | StageKind::Upsert
        | StageKind::Publish => {
            let message = format!("a stage of kind {:?} is not handed over as an event", kind.name());
            table.refuse(&["event"], &message, "leave it out", report);
            None
        }
    }
}

/// Reads how a stage of this kind waits; none where every call answers for its items. `told`: it is handed over as an event.
pub(crate) fn read(
    kind: &StageKind,
    told: bool,
    table: &mut Table<'_, '_>,
    report: &mut Report<'_>,
) -> Option<DeferDef> {
    if told || matches!(kind, StageKind::Event { .. }) {
        table.refuse(&["defer"], "an event is answered later in any case", "leave it out", report);
        return Some(DeferDef { stuck_after: stuck_after(table, report), callback: None, poll: None });
    }
    let node = table.take("defer");
    let asked = node.as_ref().and_then(|node| asked(kind, node, report));
    if asked.is_none() {
        let remedy = "answers come later only with defer = true, event = \"…\", or kind = \"event\"";
        table.refuse(&["stuck_after"], "unknown key", remedy, report);
        return None;
    }
    let stuck_after = stuck_after(table, report);
    asked.map(|(callback, poll)| DeferDef { stuck_after, callback, poll })
}

/// Where answers come to, and how they are asked for.
type Asked = (Option<String>, Option<PollDef>);

fn asked(kind: &StageKind, node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<Asked> {
    let asked = match node.is_table() {
        true => options(node, report),
        false if node.boolean(report)? => (None, None),
        false => return None,
    };
    match kind {
        StageKind::Http { body: Body::Webhook, .. } => {
            let hint = "use body = \"protocol\" or \"payload\"";
            node.fail_with(report, "nothing is asked of a webhook but that it arrives", hint);
            None
        }
        StageKind::Http { .. } => Some(asked),
        StageKind::Command { .. } if asked.1.is_some() => {
            let hint = "have the program answer by POST /v1/answers, with defer = true";
            node.fail_with(report, "a program is not asked for its answer", hint);
            None
        }
        StageKind::Command { .. } => Some(asked),
        _ => {
            let message = format!("a stage of kind {:?} answers at once", kind.name());
            node.fail_with(report, message, "defer belongs to stages of kind \"http\" and \"command\"");
            None
        }
    }
}

fn options(node: &Node<'_, '_>, report: &mut Report<'_>) -> Asked {
    let Some(mut table) = node.table(report) else { return (None, None) };
    let callback = table.take("callback").and_then(|node| kind::url(&node, report));
    let every = table.take("every");
    let poll = table.take("poll");
    let url = poll.as_ref().and_then(|node| template(node, report));
    if let (Some(node), None) = (&every, &poll) {
        node.fail_with(report, "there is no poll to repeat", "say where: poll = \"https://…/{id}\"");
    }
    if let (Some(_), Some(node)) = (&callback, &poll) {
        node.fail(report, "an answer is asked for, or comes by itself to the callback: not both");
    }
    let every = every.and_then(|node| {
        let every = node.duration(report)?;
        if every < EVERY_MIN {
            node.fail(report, "shorter than 100ms");
        }
        Some(every)
    });
    table.finish(report);
    (callback, url.map(|url| PollDef { url, every: every.unwrap_or(EVERY) }))
}

/// An address that names the work, in its path or query.
fn template(node: &Node<'_, '_>, report: &mut Report<'_>) -> Option<String> {
    let text = node.string(report)?.to_owned();
    let filled = text.replace("{id}", "0").replace("{ticket}", "0");
    if filled == text {
        node.fail(report, "names no work: write {id} or {ticket} where the address does");
        return None;
    }
    if filled.contains(['{', '}']) {
        node.fail(report, "what stands in braces is {id} or {ticket}");
        return None;
    }
    if let Err(bad) = scalar::url(&filled) {
        report.problem(node.at, &node.path, bad.message, bad.hint.map(str::to_owned));
        return None;
    }
    if scalar::authority(&filled) != scalar::authority(&text) {
        node.fail(report, "the host cannot depend on the work");
        return None;
    }
    Some(text)
}

fn stuck_after(table: &mut Table<'_, '_>, report: &mut Report<'_>) -> Duration {
    let Some(node) = table.take("stuck_after") else { return STUCK_AFTER };
    let Some(span) = node.duration(report) else { return STUCK_AFTER };
    if span.is_zero() || span > STUCK_AFTER_MAX {
        node.fail(report, "expected a time of more than nothing and at most a year");
    }
    span
}
