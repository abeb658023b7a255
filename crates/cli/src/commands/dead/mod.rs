//! `redrive dead …`.

mod edit;
mod export;
mod list;
mod redrive;
pub(super) mod set;

use std::process::ExitCode;
use std::time::Duration;

use redrive_core::id::OperationId;
use redrive_core::time::millis;
use redrive_operate::dead::{self, Changed, List, Note, Selection, Which};
use redrive_operate::items::ItemName;
use redrive_operate::operations::{self, ItemsOf, OperationView, Start, StartKind};

use super::{Answer, Context, care, explain};
use crate::args::DeadCommand;
use crate::output::progress::Unit;
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{count, short, things};
use crate::output::{json, note};

/// Runs the command about dead items that was typed.
pub async fn dead(context: &Context, command: DeadCommand) -> Answer {
    match command {
        DeadCommand::List { filter, sort, columns, csv, limit, after } => {
            let request = List { which: filter.into(), order: sort.into(), limit, after };
            list::list(context, &request, &columns, csv).await
        }
        DeadCommand::Show { item, run } => explain::explain(context, &ItemName { item, run }).await,
        DeadCommand::Groups { filter, open, limit } => {
            list::groups(context, &filter.into(), open, limit).await
        }
        DeadCommand::Note { group, words, ack, unack } => {
            let acknowledged = (ack || unack).then_some(ack);
            let words = (!words.is_empty()).then(|| words.join(" "));
            list::note(context, &group, Note { words, acknowledged }).await
        }
        DeadCommand::Export { filter, output, overwrite } => {
            export::export(context, &filter.into(), output.as_deref(), overwrite).await
        }
        DeadCommand::Import { file } => export::import(context, &file).await,
        DeadCommand::Edit(args) => edit::edit(context, args).await,
        DeadCommand::Redrive(args) => redrive::redrive(context, args).await,
        DeadCommand::Freeze(args) => set::freeze(context, &args.request()?).await,
        DeadCommand::Start { operation, work } => set::start(context, operation, work).await,
        DeadCommand::Outcomes { operation, outcome, limit, after } => {
            let asked = ItemsOf { outcome: outcome.map(Into::into), limit, after };
            set::outcomes(context, operation, &asked).await
        }
        DeadCommand::Purge { filter, all, dry_run: false, yes, undo_for: Some(span) } => {
            purge_later(context, filter.into(), all, yes, span).await
        }
        DeadCommand::Purge { filter, all, dry_run, yes, undo_for: _ } => {
            purge(context, &filter.into(), all, dry_run, yes).await
        }
        DeadCommand::Operations { stop, limit } => operations(context, stop, limit).await,
    }
}

async fn purge(context: &Context, which: &Which, all: bool, dry_run: bool, yes: bool) -> Answer {
    Selection::said_which(which, all, "removed")?;
    let mut floor = if dry_run { context.floor_to_read()? } else { context.floor()? };
    let selection = Selection::of(&floor, which).await?;
    let ahead = dead::preview_purge(&floor, &selection).await?;
    if dry_run {
        return told(context, &ahead, "removed");
    }
    let (items, of) = (things(ahead.items, "dead item"), if ahead.items == 1 { "it" } else { "them" });
    context.confirm(&format!("Remove {items} and everything that came from {of}?"), yes)?;
    let watch = context.watch(&mut floor, "removing", Unit::Items);
    let purged = dead::purge(&floor, &selection).await?;
    drop(watch);
    if let Some(left) = &purged.left {
        note(&format!("bytes of what was removed may be left: {left}"));
    }
    let told = told(context, &purged, "removed")?;
    care::hint_at(context, purged.room);
    Ok(told)
}

/// Has dead items removed after a while, until when that can be undone.
async fn purge_later(context: &Context, which: Which, all: bool, yes: bool, span: Duration) -> Answer {
    Selection::said_which(&which, all, "removed")?;
    let floor = context.floor()?;
    let ahead = dead::preview_purge(&floor, &Selection::of(&floor, &which).await?).await?;
    if ahead.items == 0 {
        return match context.global.json {
            true => told(context, &Changed::default(), "removed"),
            false => set::nothing(context, 0),
        };
    }
    let (items, of) = (things(ahead.items, "dead item"), if ahead.items == 1 { "it" } else { "them" });
    context.confirm(&format!("Remove {items} and everything that came from {of} later?"), yes)?;
    let request = Start { all, undo_ms: millis(span), ..Start::of(StartKind::Purge, which) };
    let started = operations::start(&floor, &request).await?;
    let Some(begun) = started.operations.first() else { return Ok(ExitCode::SUCCESS) };
    let view = operations::show(&floor, begun.id).await?;
    let items = view.outcomes.map_or(0, |outcomes| outcomes.items);
    if context.global.json {
        let (operation, undo_until) = (Some(view.id), view.undo_until);
        json(&Changed { items, operation, undo_until, ..Changed::default() })?;
        return Ok(ExitCode::SUCCESS);
    }
    let when = view.undo_until.map(|at| context.screen().at(&at)).unwrap_or_default();
    context.tell(&format!("{}: {} will be removed {when}", view.id, things(items, "item")))?;
    context.hint(&format!("`redrive dead operations --stop {}` undoes it until then", view.id));
    context.hint("`redrive serve` and `redrive work` carry it out when it is time");
    Ok(ExitCode::SUCCESS)
}

/// Tells how many items an operation meant or changed.
fn told(context: &Context, changed: &Changed, verb: &str) -> Answer {
    if context.global.json {
        json(changed)?;
        return Ok(ExitCode::SUCCESS);
    }
    let would = if changed.dry_run { "would be " } else { "" };
    let left = match changed.skipped {
        0 => String::new(),
        n => format!("; {} left alone", count(n)),
    };
    context.tell(&format!("{} {would}{verb}{left}", things(changed.items, "item")))?;
    Ok(ExitCode::SUCCESS)
}

async fn operations(context: &Context, stop: Option<OperationId>, limit: usize) -> Answer {
    let floor = if stop.is_none() { context.floor_to_read()? } else { context.floor()? };
    if let Some(operation) = stop {
        let view = operations::stop(&floor, operation).await?;
        context.say(&set::stopped(&view));
    }
    let list = operations::list(&floor, limit).await?;
    if context.global.json {
        json(&list)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&operated(&list.operations, &context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn operated(operations: &[OperationView], screen: &Screen) -> String {
    if operations.is_empty() {
        return "no operations".to_owned();
    }
    let mut table = Table::new([
        Column::whole("operation"),
        Column::whole("what"),
        Column::whole("state"),
        Column::text("by").least(6).rank(5),
        Column::whole("began").rank(2),
        Column::number("changed").rank(1),
        Column::number("skipped").rank(4),
        Column::text("request").least(16).rank(3).wide(),
    ]);
    for operation in operations {
        let mut asked = operation.asked.clone();
        if let Some(at) = &operation.undo_until {
            asked = asked.replace(&format!("at {at}"), &screen.at(at));
        }
        table.row([
            operation.id.to_string().into(),
            format!("{:?}", operation.kind).to_lowercase().into(),
            Cell::state(format!("{:?}", operation.state).to_lowercase()),
            operation.actor.clone().into(),
            screen.happened(&operation.created_at).into(),
            count(operation.changed).into(),
            count(operation.skipped).into(),
            short(&asked, usize::MAX).into(),
        ]);
    }
    table.on(screen)
}

#[cfg(test)]
mod tests {
    use redrive_store::{OperationKind, OperationState};

    use super::*;
    use crate::output::sample::{at_widths, moment};

    #[test]
    fn operations_fit_their_screen() {
        let redrive = OperationView {
            id: OperationId(3),
            kind: OperationKind::Redrive,
            state: OperationState::Open,
            actor: "ann".to_owned(),
            request: r#"{"filter":{"run":12,"state":"dead","stage":"summarise-with-a-model"},"limit":null}"#
                .to_owned(),
            asked: "run r12, stage summarise-with-a-model, class final, at most 500".to_owned(),
            changed: 1_261,
            skipped: 1,
            created_at: moment(-42_000).to_string(),
            updated_at: moment(-1_000).to_string(),
            undo_until: None,
            stopped: None,
            outcomes: None,
            late: None,
        };
        let purge = OperationView {
            id: OperationId(2),
            kind: OperationKind::Purge,
            state: OperationState::Done,
            created_at: moment(-400_000_000).to_string(),
            ..redrive.clone()
        };
        at_widths("dead-operations", |screen| operated(&[redrive.clone(), purge.clone()], screen));
    }
}
