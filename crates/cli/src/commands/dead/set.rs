//! `redrive dead freeze`, `start` and `outcomes`, and what goes by way of a frozen set.

use std::process::ExitCode;

use redrive_core::id::OperationId;
use redrive_operate::dead::{Planned, Redriven};
use redrive_operate::operations::{self, ItemsOf, OperationItem, OperationView, Start, Started};
use redrive_store::OperationState;

use crate::args::RedriveArgs;
use crate::commands::work::Watching;
use crate::commands::{Answer, Context};
use crate::exit;
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{count, short, things};
use crate::output::{json, note};

/// Freezes what would be sent back or done again, and says what that would mean.
pub async fn freeze(context: &Context, request: &Start) -> Answer {
    let floor = context.floor()?;
    let started = operations::start(&floor, request).await?;
    if context.global.json {
        json(&started)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(operation) = started.operations.first() else {
        return nothing(context, started.skipped.unwrap_or(0));
    };
    context.tell(&frozen(&started, operation))?;
    context.hint(&format!("`redrive dead start {}` has exactly these go again", operation.id));
    Ok(ExitCode::SUCCESS)
}

/// Tells that nothing was frozen.
pub fn nothing(context: &Context, skipped: u64) -> Answer {
    context.tell(&match skipped {
        0 => "nothing is dead that this means; no operation was made".to_owned(),
        n => format!("nothing can be sent back, {} left alone; no operation was made", count(n)),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn frozen(started: &Started, operation: &OperationView) -> String {
    let items = things(started.items.unwrap_or(0), "item");
    let mut lines = vec![format!("{}: {items} frozen", operation.id)];
    lines.extend(started.preview.iter().flat_map(planned));
    lines.join("\n")
}

fn planned(planned: &Planned) -> Vec<String> {
    let Planned { items, matching, skipped, usd, unpriced, reused, by, .. } = planned;
    let mut lines: Vec<String> = Vec::new();
    for share in by {
        let class = share.class.map_or("no class", |class| class.name());
        lines.push(format!("  {} at {}, {class}", count(share.items), share.stage));
    }
    if *skipped > 0 {
        lines.push(format!("  {} cannot be sent back (`redrive explain ID` says why)", count(*skipped)));
    }
    if items + skipped < *matching {
        lines.push(format!("  {} more are dead and beyond the limit", count(matching - items - skipped)));
    }
    lines.push(format!("  {} find an output that is used again", count(*reused)));
    lines.push(match (usd, unpriced) {
        (Some(usd), 0) => format!("  expected to cost ${usd:.4}"),
        (Some(usd), n) => {
            format!("  expected to cost ${usd:.4}, without {} whose price is not known", count(*n))
        }
        (None, _) => "  what they cost is not known".to_owned(),
    });
    lines
}

/// Starts a frozen operation, or carries on one that is under way, and says how far it is then.
pub async fn start(context: &Context, operation: OperationId) -> Answer {
    let floor = context.floor()?;
    operations::start_frozen(&floor, operation).await?;
    let view = operations::carry_on(&floor, operation).await?;
    if context.global.json {
        json(&view)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&stands(&view, &context.screen()))?;
    if view.state == OperationState::Open {
        context.hint("`redrive serve` and `redrive work` carry it on; saying this again does, too");
    }
    Ok(ExitCode::SUCCESS)
}

fn stands(view: &OperationView, screen: &Screen) -> String {
    let state = format!("{:?}", view.state).to_lowercase();
    let mut text = format!(
        "{} is {state}: {} changed, {} left alone",
        view.id,
        count(view.changed),
        count(view.skipped)
    );
    if let Some(late) = view.late.filter(|late| *late > 0) {
        text.push_str(&format!("; {} died since it was frozen, and stay", count(late)));
    }
    if let Some(at) = &view.undo_until {
        text.push_str(&format!("; it is carried out {}, and can be undone until then", screen.at(at)));
    }
    if let Some(why) = &view.stopped {
        text.push_str(&format!("; stopped: {why}"));
    }
    text
}

/// Lists the items of an operation.
pub async fn outcomes(context: &Context, operation: OperationId, asked: &ItemsOf) -> Answer {
    let floor = context.floor_to_read()?;
    let found = operations::items(&floor, operation, asked).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&listed(&found.items, &context.screen()))?;
    if let Some(next) = &found.next {
        context.hint(&format!("more of them: --after {next}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(items: &[OperationItem], screen: &Screen) -> String {
    if items.is_empty() {
        return "no such items".to_owned();
    }
    let mut table = Table::new([
        Column::whole("item"),
        Column::text("key").least(8).rank(3),
        Column::whole("run").rank(2),
        Column::whole("stage").rank(1),
        Column::whole("outcome"),
        Column::text("message").least(16).rank(4).wide(),
    ]);
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    for item in items {
        table.row([
            or_none(item.id.map(|id| id.to_string())).into(),
            or_none(item.key.clone()).into(),
            or_none(item.run.map(|run| run.to_string())).into(),
            or_none(item.stage.clone()).into(),
            Cell::from(word(item)),
            short(item.message.as_deref().unwrap_or_default(), usize::MAX).into(),
        ]);
    }
    table.on(screen)
}

fn word(item: &OperationItem) -> String {
    let written = serde_json::to_value(item.outcome).ok();
    written.and_then(|word| Some(word.as_str()?.replace('_', " "))).unwrap_or_default()
}

/// Sends dead items back by way of a set, and stops when too many of them fail again.
pub async fn redrive(context: &Context, args: &RedriveArgs) -> Answer {
    let request = args.send.start()?;
    let floor = context.floor()?;
    let started = operations::start(&floor, &request).await?;
    let Some(operation) = started.operations.first().map(|operation| operation.id) else {
        return Ok(ExitCode::SUCCESS);
    };
    let (view, runs, interrupted) = if args.work {
        let through = operations::work_through(&floor, operation, &Watching::of(context)).await?;
        (through.view, through.runs, through.interrupted)
    } else {
        (operations::carry_on(&floor, operation).await?, Vec::new(), false)
    };
    let done =
        Redriven { items: view.changed, skipped: view.skipped, runs, interrupted, ..Redriven::default() };
    if context.global.json {
        json(&done)?;
    } else {
        context.tell(&stands(&view, &context.screen()))?;
    }
    match view.state {
        OperationState::Cancelled => {
            note(&format!(
                "the others stay dead: {}",
                view.stopped.unwrap_or_else(|| "it was stopped".to_owned())
            ));
            Ok(exit::partial())
        }
        OperationState::Open => {
            context.hint(&format!(
                "`redrive serve` and `redrive work` carry {operation} on; `redrive dead start {operation}` does, too"
            ));
            Ok(ExitCode::SUCCESS)
        }
        OperationState::Done | OperationState::Frozen if args.work => {
            Ok(exit::of_work(done.runs.iter().map(|report| report.status), interrupted, true))
        }
        OperationState::Done | OperationState::Frozen => Ok(ExitCode::SUCCESS),
    }
}
