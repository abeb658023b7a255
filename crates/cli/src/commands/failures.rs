//! `redrive failures`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use redrive_engine::report::FailedItem;
use redrive_operate::reports::{self, Failures};

use super::{Answer, Context};
use crate::output::json;
use crate::output::summary::over;
use crate::output::text::{KEY, count, short, things};

/// Shows what failed in a run.
pub async fn failures(context: &Context, request: &Failures) -> Answer {
    let report = reports::failures(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("run {} of {} over {}: ", report.run, report.pipeline, over(&report.source));
    text.push_str(&match report.items.len() {
        0 if report.total == 0 => "nothing failed".to_owned(),
        n if report.more || (n as u64) < report.total => {
            format!("{n} of {} that failed", things(report.total, "item"))
        }
        n if n == report.failed.len() => format!("{} failed", things(n as u64, "item")),
        n => {
            format!("{} of {} failed", things(n as u64, "part"), things(report.failed.len() as u64, "item"))
        }
    });
    for parts in report.items.chunk_by(|a, b| a.of == b.of) {
        match parts {
            [item] if item.of == item.item.key => text.push_str(&describe(item)),
            parts => text.push_str(&describe_parts(parts)),
        }
    }
    context.tell(&text)?;
    if let Some(next) = report.next {
        context.hint(&format!("`redrive failures {} --after {next}` shows those that follow", report.run));
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(failed: &FailedItem) -> String {
    let item = &failed.item;
    let fate = match (&failed.next_at, &item.reason) {
        (Some(next), _) => format!("tried again at {next}"),
        (None, Some(reason)) => format!("dead ({reason})"),
        (None, None) => item.state.to_string(),
    };
    let retries = retries(failed.retries.into());
    let mut text = format!("\n\n{}  at {}, {retries}, {fate}", short(&item.key, KEY), item.stage);
    if item.looks_permanent {
        text.push_str(", looks permanent");
    }
    if failed.errors.is_empty()
        && let Some(message) = &item.message
    {
        text.push_str(&format!("\n  {}", short(message, 110)));
    }
    for error in &failed.errors {
        let ended = error.ended_at.as_deref().unwrap_or("now");
        let message = error.message.as_deref().unwrap_or_default();
        text.push_str(&format!("\n  {ended}  {}#{}  {}", error.stage, error.attempt, short(message, 90)));
    }
    text
}

fn retries(n: u64) -> String {
    format!("{} {}", count(n), if n == 1 { "retry" } else { "retries" })
}

/// An item some parts of which failed: what happened to them, alike errors once.
fn describe_parts(parts: &[FailedItem]) -> String {
    let Some(first) = parts.first() else { return String::new() };
    let dead = parts.iter().filter(|part| part.next_at.is_none()).count();
    let next = parts.iter().filter_map(|part| part.next_at.as_deref()).min();
    let most = parts.iter().map(|part| part.retries).max().unwrap_or(0);
    let mut fates = Vec::new();
    if dead > 0 {
        fates.push(format!("{dead} dead"));
    }
    if let Some(next) = next {
        fates.push(format!("{} tried again, the next at {next}", parts.len() - dead));
    }
    let mut text = format!(
        "\n\n{}  {}, up to {}; {}",
        short(&first.of, KEY),
        things(parts.len() as u64, "part"),
        retries(most.into()),
        fates.join(", ")
    );
    if parts.iter().any(|part| part.item.looks_permanent) {
        text.push_str("; looks permanent");
    }
    let mut alike: BTreeMap<(&str, &str), (u32, &str)> = BTreeMap::new();
    for error in parts.iter().flat_map(|part| &part.errors) {
        let ended = error.ended_at.as_deref().unwrap_or("now");
        let seen =
            alike.entry((&error.stage, error.message.as_deref().unwrap_or_default())).or_insert((0, ended));
        *seen = (seen.0 + 1, seen.1.max(ended));
    }
    for ((stage, message), (times, last)) in alike {
        text.push_str(&format!("\n  {times}× at {stage}, last {last}  {}", short(message, 90)));
    }
    text
}
