//! `redrive failures`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_engine::report::{FailedItem, failures as find};

use super::{Answer, Context, known_run};
use crate::output::text::{safe, short};
use crate::output::{json, lines};

/// Shows what failed in a run.
pub async fn failures(context: &Context, run: Option<RunId>, limit: usize) -> Answer {
    let store = context.store()?;
    let known = known_run(&*store, run).await?;
    let report = find(&*store, &known.row, &known.plan, context.env.clock.now(), limit).await?;
    if context.global.json {
        json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("run {} of {} over {}: ", report.run, report.pipeline, report.source);
    text.push_str(&match report.items.len() {
        0 => "nothing failed".to_owned(),
        n if report.more => format!("the first {n} items that failed"),
        n => format!("{n} items failed"),
    });
    for item in &report.items {
        text.push_str(&describe(item));
    }
    lines(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn describe(failed: &FailedItem) -> String {
    let item = &failed.item;
    let fate = match (&failed.next_at, &item.reason) {
        (Some(next), _) => format!("tried again at {next}"),
        (None, Some(reason)) => format!("dead ({reason})"),
        (None, None) => item.state.to_string(),
    };
    let mut text = format!("\n\n{}  at {}, {} retries, {fate}", safe(&item.key), item.stage, failed.retries);
    if item.looks_permanent {
        text.push_str(", looks permanent");
    }
    for error in &failed.errors {
        let ended = error.ended_at.as_deref().unwrap_or("now");
        let message = error.message.as_deref().unwrap_or_default();
        text.push_str(&format!("\n  {ended}  {}#{}  {}", error.stage, error.attempt, short(message, 90)));
    }
    text
}
