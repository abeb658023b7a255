//! `redrive dead freeze`, `start` and `outcomes`, and what goes by way of a frozen set.

use std::process::ExitCode;

use redrive_core::id::{OperationId, RunId};
use redrive_operate::dead::{Canary, Planned, Redriven};
use redrive_operate::operations::{self, ItemsOf, OperationItem, OperationView, Start, Started, Through};
use redrive_operate::{Error, Floor};
use redrive_store::{OperationKind, OperationState};

use super::redrive::{at_once, results_target};
use crate::args::RedriveArgs;
use crate::commands::work::{Watching, write_results};
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
pub async fn start(context: &Context, operation: OperationId, work: bool) -> Answer {
    let floor = context.floor()?;
    operations::start_frozen(&floor, operation).await?;
    let through = carried(context, &floor, operation, work).await?;
    if context.global.json {
        json(&through.view)?;
    } else {
        context.tell(&stands(&through.view, &context.screen()))?;
    }
    Ok(ended(context, &through, work, true))
}

/// Carries an operation on, and works on the runs of its items where that is asked for.
async fn carried(
    context: &Context,
    floor: &Floor,
    operation: OperationId,
    work: bool,
) -> Result<Through, Error> {
    if work {
        return operations::work_through(floor, operation, &Watching::of(context)).await;
    }
    let view = operations::carry_on(floor, operation).await?;
    Ok(Through { view, runs: Vec::new(), interrupted: false })
}

/// Says what becomes of an operation that has not ended, and ends as its runs do that were worked on.
fn ended(context: &Context, through: &Through, worked: bool, whole: bool) -> ExitCode {
    let Through { view, runs, interrupted } = through;
    match view.state {
        OperationState::Open => goes_on(context, view),
        OperationState::Cancelled => {
            let why = view.stopped.clone().unwrap_or_else(|| "it was stopped".to_owned());
            note(&format!("the others stay dead: {why}"));
            return exit::partial();
        }
        OperationState::Done | OperationState::Frozen => {}
    }
    match worked {
        true => exit::of_work(runs.iter().map(|report| report.status), *interrupted, whole),
        false => ExitCode::SUCCESS,
    }
}

/// Says who goes on with an operation when this process has ended, and how it is stopped.
fn goes_on(context: &Context, view: &OperationView) {
    let operation = view.id;
    context.hint(&format!(
        "a `redrive serve` or `redrive work` of this store carries {operation} on; where there is none, `redrive dead start {operation} --work` does"
    ));
    context.hint(&format!("`redrive dead operations --stop {operation}` stops it"));
}

fn stands(view: &OperationView, screen: &Screen) -> String {
    let state = format!("{:?}", view.state).to_lowercase();
    let mut text = format!(
        "{} is {state}: {} changed, {} left alone",
        view.id,
        count(view.changed),
        count(view.skipped)
    );
    if let Some(tally) = view.outcomes.filter(|_| view.state == OperationState::Open) {
        text.push_str(&format!(", {} to go", count(tally.pending)));
    }
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

/// Says of an operation that somebody stopped how much of it was done.
pub fn stopped(view: &OperationView) -> String {
    let tally = view.outcomes.unwrap_or_default();
    let live = match tally.live {
        0 => String::new(),
        n => format!(", {} of them not ended yet", count(n)),
    };
    let changed = match view.kind {
        OperationKind::Redrive => format!("{} sent back{live}", things(tally.sent(), "item")),
        _ => format!("{} changed", things(view.changed, "item")),
    };
    let left = match tally.pending {
        0 => String::new(),
        n => format!("; {} stay as they are", count(n)),
    };
    format!("{} is stopped: {changed}{left}", view.id)
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

/// Sends dead items back by way of a set: at a rate, and no more when too many of them fail again.
pub async fn redrive(context: &Context, args: &RedriveArgs) -> Answer {
    let (request, mut results) = (args.send.start()?, results_target(context, args)?);
    let floor = context.floor()?;
    if let Some(results) = &mut results {
        results.spare_runs(&*floor.store).await?;
    }
    let started = operations::start(&floor, &request).await?;
    let Some(operation) = started.operations.first().map(|operation| operation.id) else {
        return Ok(ExitCode::SUCCESS);
    };
    let through = carried(context, &floor, operation, args.work).await?;
    let view = &through.view;
    if args.work && view.outcomes.is_some_and(|tally| tally.items == 0) {
        // What was sent back before is worked on.
        return at_once(context, args).await;
    }
    let whole = match &results {
        Some(target) => {
            let runs: Vec<RunId> = through.runs.iter().map(|report| report.run).collect();
            write_results(context, &floor, &runs, target).await?
        }
        None => true,
    };
    if context.global.json {
        json(&Redriven {
            items: view.changed,
            skipped: view.skipped,
            canary: request.canary.and_then(|first| canary(view, first)),
            runs: through.runs.clone(),
            operation: Some(operation).filter(|_| view.state == OperationState::Open),
            ..Redriven::default()
        })?;
    } else {
        context.tell(&stands(view, &context.screen()))?;
    }
    Ok(ended(context, &through, args.work, whole))
}

/// How those went that were sent first; `None` when they have not ended.
fn canary(view: &OperationView, first: u64) -> Option<Canary> {
    let tally = view.outcomes?;
    let sent = tally.sent().min(first);
    match view.state {
        OperationState::Cancelled if tally.sent() <= first => {
            Some(Canary { sent, passed: tally.passed, went_on: false })
        }
        OperationState::Open if tally.sent() <= first => None,
        _ => Some(Canary { sent, passed: sent, went_on: true }),
    }
}
