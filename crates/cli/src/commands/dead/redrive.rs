//! `redrive dead redrive`.

use std::process::ExitCode;

use redrive_operate::dead::{self, Canary, Redriven, Selection, Which};
use redrive_operate::{Error, Floor};

use super::set;
use crate::args::RedriveArgs;
use crate::commands::work::{self, Watching, write_results};
use crate::commands::{Answer, Context};
use crate::exit;
use crate::output::progress::Unit;
use crate::output::target::{Existing, Guard, Target};
use crate::output::text::{count, things};
use crate::output::{advice, json, lines, note};

/// Sends dead items back, from the stage that failed them.
pub async fn redrive(context: &Context, args: RedriveArgs) -> Answer {
    let which = args.send.which();
    Selection::said_which(&which, args.send.all, "sent back")?;
    args.request()?.check()?;
    if let Some(stage) = &args.send.from {
        return from(context, &which, stage, &args).await;
    }
    if args.send.stop_at.is_some() || args.send.rate.is_some() {
        args.send.start()?.check()?;
        if !args.dry_run {
            return set::redrive(context, &args).await;
        }
    }
    at_once(context, &args).await
}

/// Sends them back at once, or says which.
pub(super) async fn at_once(context: &Context, args: &RedriveArgs) -> Answer {
    let (request, mut results) = (args.request()?, results_target(context, args)?);
    let mut floor = if args.dry_run { context.floor_to_read()? } else { context.floor()? };
    if let Some(results) = &mut results {
        results.spare_runs(&*floor.store).await?;
    }
    let selection = Selection::of(&floor, &args.send.which()).await?;
    if args.dry_run {
        return planned(context, &dead::preview(&floor, &selection, &request).await?);
    }
    let watch = context.watch(&mut floor, "sending back", Unit::Items);
    let done = dead::redrive(&floor, &selection, &request, &Watching::of(context)).await?;
    drop(watch);
    if let Some(canary) = &done.canary {
        note(&canary_words(canary, done.items));
        if !canary.went_on {
            told(context, &done)?;
            return Ok(exit::partial());
        }
    }
    for run in &done.cancelled {
        note(&format!("run {run} was cancelled: its dead items stay dead"));
    }
    if request.work {
        return worked(context, &floor, &done, results.as_ref()).await;
    }
    told(context, &done)?;
    for run in done.live.iter().filter(|_| done.items > 0) {
        work::hint_at_work(context, &floor, *run, "them").await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Looks at where results are to go, before anything is sent back.
pub(super) fn results_target(context: &Context, args: &RedriveArgs) -> Result<Option<Target>, Error> {
    let Some(path) = &args.results else { return Ok(None) };
    let guard = Guard::of_store(&context.global.store)?;
    Target::look("--results", path, Existing::Replaced, guard).map(Some)
}

/// Has dead items done again from a stage before the one that failed them.
async fn from(context: &Context, which: &Which, stage: &str, args: &RedriveArgs) -> Answer {
    let mut floor = if args.dry_run { context.floor_to_read()? } else { context.floor()? };
    let selection = Selection::of(&floor, which).await?;
    let watch = context.watch(&mut floor, "sending back", Unit::Items);
    let how = (args.dry_run, args.work);
    let done = dead::redrive_from(&floor, &selection, stage, how, &Watching::of(context)).await?;
    drop(watch);
    if args.dry_run {
        return planned(context, &done);
    }
    if args.work {
        return worked(context, &floor, &done, None).await;
    }
    told(context, &done)?;
    for run in done.live.iter().filter(|_| done.items > 0) {
        work::hint_at_work(context, &floor, *run, "them").await?;
    }
    Ok(ExitCode::SUCCESS)
}

/// How the first few went. `items` were sent back by this command: where none was, those that went first were sent back before.
fn canary_words(canary: &Canary, items: u64) -> String {
    let Canary { sent, passed, went_on } = canary;
    match sent {
        0 => "there is nothing to send back".to_owned(),
        _ if items == 0 => format!(
            "nothing is dead that could be sent back; of {} sent back before, {} passed",
            things(*sent, "item"),
            count(*passed)
        ),
        _ if *went_on => format!("{} of {} passed; going on", count(*passed), canaries(*sent)),
        _ => format!("only {} of {} passed; the others stay dead", count(*passed), canaries(*sent)),
    }
}

fn canaries(n: u64) -> String {
    if n == 1 { "1 canary".to_owned() } else { format!("{} canaries", count(n)) }
}

fn were(n: u64) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

/// Tells what was done, as a document or in words.
fn told(context: &Context, done: &Redriven) -> Result<(), Error> {
    if context.global.json {
        return json(done);
    }
    let left = match done.skipped {
        0 => String::new(),
        n => format!("; {} {} left alone (`redrive explain ID` says why)", count(n), were(n)),
    };
    context.tell(&format!("{} sent back{left}", things(done.items, "item")))
}

/// Says exactly which items the same command without --dry-run would send back.
fn planned(context: &Context, planned: &Redriven) -> Answer {
    if context.global.json {
        json(planned)?;
        return Ok(ExitCode::SUCCESS);
    }
    let listed: Vec<String> = planned.ids.iter().flatten().map(ToString::to_string).collect();
    if !listed.is_empty() {
        lines(&listed.join("\n"))?;
    }
    let left = match planned.skipped {
        0 => String::new(),
        n => format!("; {} would be left alone (`redrive explain ID` says why)", count(n)),
    };
    let calls = planned.calls.map_or_else(String::new, |n| format!(" in at least {}", things(n, "call")));
    note(&format!("{} would be sent back{calls}{left}", things(planned.items, "item")));
    Ok(ExitCode::SUCCESS)
}

/// Tells how all runs stand that were worked on.
async fn worked(context: &Context, floor: &Floor, done: &Redriven, results: Option<&Target>) -> Answer {
    let whole = match results {
        Some(target) => write_results(context, floor, &done.live, target).await?,
        None => true,
    };
    if done.items == 0 {
        note(&match done.skipped {
            _ if done.gone_on_with => {
                "nothing more is dead that could be sent back; what was sent back before is worked on"
                    .to_owned()
            }
            0 => "nothing is dead that could be sent back".to_owned(),
            n => {
                format!(
                    "nothing was sent back: {} {} left alone (`redrive explain ID` says why)",
                    count(n),
                    were(n)
                )
            }
        });
    }
    if context.global.json {
        json(done)?;
        for hint in done.runs.iter().filter_map(|report| advice::next(report, &[])) {
            context.hint(&hint);
        }
    } else {
        for report in &done.runs {
            work::tell_of(context, floor, report).await?;
        }
    }
    Ok(exit::of_work(done.runs.iter().map(|report| report.status), done.interrupted, whole))
}
