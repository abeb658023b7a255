//! `redrive dead …`.

mod export;
mod filter;
mod list;
mod redrive;

use std::process::ExitCode;

use redrive_core::id::OperationId;
use redrive_engine::admin;
use redrive_operate::Error;
use redrive_store::Scrub;

use super::{Answer, Context, actor};
use crate::args::{DeadCommand, DeadFilter};
use crate::output::table::{Side, table};
use crate::output::text::{count, short};
use crate::output::{json, lines, note};

/// Runs the command about dead items that was typed.
pub async fn dead(context: &Context, command: DeadCommand) -> Answer {
    match command {
        DeadCommand::List { filter, limit, after } => {
            list::list(context, &filter, limit, after.as_deref()).await
        }
        DeadCommand::Show { item, run } => super::explain::explain(context, &item, run).await,
        DeadCommand::Groups { filter, limit } => list::groups(context, &filter, limit).await,
        DeadCommand::Export { filter, output, overwrite } => {
            export::export(context, &filter, output.as_deref(), overwrite).await
        }
        DeadCommand::Import { file } => export::import(context, &file).await,
        DeadCommand::Redrive(args) => redrive::redrive(context, args).await,
        DeadCommand::Purge { filter, all, dry_run, yes } => purge(context, &filter, all, dry_run, yes).await,
        DeadCommand::Operations { stop, limit } => operations(context, stop, limit).await,
    }
}

/// Refuses to take "no filter" for "everything".
fn said_which(filter: &DeadFilter, all: bool, verb: &str) -> Result<(), Error> {
    if all || filter::is_narrow(filter) {
        return Ok(());
    }
    Err(Error::wrong(format!("which dead items are to be {verb}?"))
        .hint("name them with --item, --group, --stage, --class … or say --all"))
}

async fn purge(context: &Context, which: &DeadFilter, all: bool, dry_run: bool, yes: bool) -> Answer {
    said_which(which, all, "removed")?;
    let store = if dry_run { context.store_to_read()? } else { context.store()? };
    let filters = filter::resolve(&*store, which, context.env.clock.now()).await?;
    let mut items = 0;
    for filter in &filters {
        items += admin::count_dead(&*store, filter).await?;
    }
    if dry_run {
        return told(context, items, 0, true, "removed");
    }
    context
        .confirm(&format!("Remove {} dead items and everything that came from them?", count(items)), yes)?;
    let (mut changed, mut skipped) = (0, 0);
    for filter in &filters {
        let done = admin::purge(&*store, filter, &actor(), &context.env).await?;
        changed += done.changed;
        skipped += done.skipped;
    }
    // Also when nothing was left to remove: a purge that was broken off may have got no further than that.
    let scrubbed = store.scrub(Scrub::Leftovers).await?;
    if let Some(left) = &scrubbed.left {
        note(&format!("bytes of what was removed may be left: {left}"));
    }
    told(context, changed, skipped, false, "removed")
}

/// Tells how many items an operation meant or changed.
fn told(context: &Context, changed: u64, skipped: u64, dry_run: bool, verb: &str) -> Answer {
    if context.global.json {
        json(&serde_json::json!({ "items": changed, "skipped": skipped, "dry_run": dry_run }))?;
    } else {
        let would = if dry_run { "would be " } else { "" };
        let left = if skipped > 0 { format!("; {} were left alone", count(skipped)) } else { String::new() };
        lines(&format!("{} items {would}{verb}{left}", count(changed)))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn operations(context: &Context, stop: Option<OperationId>, limit: usize) -> Answer {
    let store = if stop.is_none() { context.store_to_read()? } else { context.store()? };
    if let Some(operation) = stop
        && !admin::stop_operation(&*store, operation, context.env.clock.now()).await?
    {
        return Err(Error::wrong(format!("operation {operation} is not under way")));
    }
    let operations = store.operations(limit.min(1_000)).await?;
    if context.global.json {
        let shown: Vec<_> = operations
            .iter()
            .map(|operation| {
                serde_json::json!({
                    "id": operation.id, "kind": operation.kind, "state": operation.state, "actor": operation.actor,
                    "request": operation.request, "changed": operation.changed, "skipped": operation.skipped,
                    "created_at": operation.created_at.to_string(), "updated_at": operation.updated_at.to_string(),
                })
            })
            .collect();
        json(&serde_json::json!({ "operations": shown }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        ("operation", Side::Left),
        ("what", Side::Left),
        ("state", Side::Left),
        ("by", Side::Left),
        ("began", Side::Left),
        ("changed", Side::Right),
        ("skipped", Side::Right),
        ("request", Side::Left),
    ];
    lines(&table(
        headings,
        operations.iter().map(|operation| {
            [
                operation.id.to_string(),
                format!("{:?}", operation.kind).to_lowercase(),
                format!("{:?}", operation.state).to_lowercase(),
                operation.actor.clone(),
                operation.created_at.to_string(),
                count(operation.changed),
                count(operation.skipped),
                short(&operation.request, 60),
            ]
        }),
    ))?;
    Ok(ExitCode::SUCCESS)
}
