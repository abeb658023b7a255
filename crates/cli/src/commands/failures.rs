//! `redrive failures`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use redrive_engine::report::{AttemptView, FailedItem, FailureOrder, FailureReport, FailureTotals};
use redrive_operate::reports::{self, Failures};

use super::{Answer, Context};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::table::{Side, table};
use crate::output::text::{KEY, count, said, short, things};

/// How many of an item's errors are shown, the last ones; `--json` and `explain` have all.
const ERRORS: usize = 5;
/// How long a line is at most, where there is a choice.
const LINE: usize = 80;
/// How much of an error is shown beside its time.
const MESSAGE: usize = 44;

/// Shows what failed in a run, or in many.
pub async fn failures(context: &Context, request: &Failures) -> Answer {
    let report = reports::failures(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let screen = context.screen();
    let mut text = heading(&report, request, &screen);
    text.push_str(&projects(&report, &screen));
    let by_key = request.order == FailureOrder::Key;
    for parts in report.items.chunk_by(|a, b| by_key && a.of == b.of && a.item.run == b.item.run) {
        match parts {
            [item] if !by_key || item.of == item.item.key => {
                text.push_str(&describe(item, report.run.is_none(), &screen))
            }
            parts => text.push_str(&describe_parts(parts, report.run.is_none(), &screen)),
        }
    }
    context.tell(&text)?;
    if let Some(next) = &report.next {
        context.hint(&format!(
            "`redrive failures{} --after {next}` shows those that follow",
            again(&report, request)
        ));
    } else if report.totals.permanent > 0 && !request.permanent {
        context.hint(&format!(
            "`redrive failures{} --permanent` lists those that look permanent",
            again(&report, request)
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// What was asked for, to be said again.
fn again(report: &FailureReport, request: &Failures) -> String {
    let mut text = String::new();
    if let Some(run) = report.run {
        text.push_str(&format!(" {run}"));
    }
    for (name, value) in
        [("pipeline", &request.pipeline), ("source", &request.source), ("stage", &request.stage)]
    {
        text.push_str(
            &value.as_ref().map(|value| format!(" --{name} {}", short(value, KEY))).unwrap_or_default(),
        );
    }
    let sort = match request.order {
        FailureOrder::Key => "",
        FailureOrder::Retries => " --sort retries",
        FailureOrder::Last => " --sort last",
        FailureOrder::Next => " --sort next",
    };
    let flags = [(request.all, " --all"), (request.permanent, " --permanent")];
    text.extend(flags.iter().filter(|(said, _)| *said).map(|(_, flag)| *flag));
    text + sort
}

fn heading(report: &FailureReport, request: &Failures, screen: &Screen) -> String {
    let pipeline = report.pipeline.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let source =
        report.source.as_ref().map(|source| format!(" over {}", screen.place(source))).unwrap_or_default();
    let what = match report.run {
        Some(run) => format!("run {run}{pipeline}{source}"),
        None => format!("{}{pipeline}{source}", things(report.runs, "run")),
    };
    let FailureTotals { failed: total, own, .. } = report.totals;
    let shown = report.items.len() as u64;
    let failed = match total {
        0 => return format!("{what}: {}", nothing(request)),
        _ if shown < total => format!("{} of {} that failed", count(shown), things(total, "item")),
        _ if own == total => format!("{} failed", things(total, "item")),
        _ => format!("{} of {} failed", things(total, "part"), things(own, "item")),
    };
    format!("{what}: {failed}\n{}", standing(&report.totals))
}

/// That there is nothing of what was asked for, which says nothing of the rest.
fn nothing(request: &Failures) -> String {
    let at =
        request.stage.as_ref().map(|stage| format!(" at stage {}", short(stage, KEY))).unwrap_or_default();
    match request.permanent {
        true => format!("nothing that looks permanent{at}"),
        false => format!("nothing failed{at}"),
    }
}

/// How those that failed stand.
fn standing(totals: &FailureTotals) -> String {
    let FailureTotals { waiting, running, dead, permanent, .. } = *totals;
    let parts = [
        (waiting, "tried again later"),
        (running, "tried again now"),
        (dead, "dead"),
        (permanent, if permanent == 1 { "looks permanent" } else { "look permanent" }),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n)));
    parts.collect::<Vec<_>>().join(", ")
}

/// How much failed by project and stage, where that says more than the first line.
fn projects(report: &FailureReport, screen: &Screen) -> String {
    let stages: usize = report.projects.iter().map(|project| project.stages.len()).sum();
    if report.projects.len() < 2 && stages < 2 {
        return String::new();
    }
    let headings = [
        ("pipeline", Side::Left),
        ("source", Side::Left),
        ("stage", Side::Left),
        ("failed", Side::Right),
        ("waiting", Side::Right),
        ("dead", Side::Right),
        ("permanent", Side::Right),
    ];
    let rows = report.projects.iter().flat_map(|project| {
        project.stages.iter().map(|at| {
            let stage = match &at.below {
                Some(below) => format!("{} (below {below})", at.stage),
                None => at.stage.clone(),
            };
            [
                project.pipeline.clone(),
                short(&screen.place(&project.source), 60),
                stage,
                count(at.totals.failed),
                count(at.totals.waiting + at.totals.running),
                count(at.totals.dead),
                count(at.totals.permanent),
            ]
        })
    });
    format!("\n\n{}", table(headings, rows))
}

/// The key of what failed, with its run where there are several.
fn name(item: &FailedItem, key: &str, many_runs: bool) -> String {
    let part = if item.of == item.item.key { String::new() } else { format!(" of {}", short(&item.of, KEY)) };
    let part = if key == item.of { String::new() } else { part };
    let run = if many_runs { format!(" in {}", item.item.run) } else { String::new() };
    format!("{}{part}{run}", short(key, KEY))
}

fn describe(failed: &FailedItem, many_runs: bool, screen: &Screen) -> String {
    let item = &failed.item;
    let fate = match (&failed.next_at, &item.reason) {
        (Some(next), _) => format!("next try {}", screen.when(next)),
        (None, Some(reason)) => format!("dead ({reason})"),
        (None, None) => item.state.to_string(),
    };
    let mut first = name(failed, &item.key, many_runs);
    first.push_str(&format!("  at {}, {}", item.stage, retries(failed.retries.into())));
    if item.throttles > 0 {
        first.push_str(&format!(", {} turned away", count(item.throttles.into())));
    }
    let fate = if item.looks_permanent { format!("{fate}, looks permanent") } else { fate };
    let mut text = headed(first, ", ", &fate);
    if failed.errors.is_empty()
        && let Some(message) = &item.message
    {
        text.push_str(&format!("\n  {}", said(message, 76)));
    }
    let earlier = failed.errors.len().saturating_sub(ERRORS);
    if earlier > 0 {
        text.push_str(&format!("\n  {} before these", things(earlier as u64, "error")));
    }
    for error in &failed.errors[earlier..] {
        let message = error.message.as_deref().unwrap_or_default();
        text.push_str(&format!(
            "\n  {}  {}#{}  {}",
            ended(error, screen),
            error.stage,
            error.attempt,
            said(message, MESSAGE)
        ));
    }
    text
}

/// What failed and what becomes of it, in one line or, where that is too long, in two.
fn headed(first: String, joint: &str, fate: &str) -> String {
    let whole = format!("{first}{joint}{fate}");
    if whole.chars().count() <= LINE { format!("\n\n{whole}") } else { format!("\n\n{first}\n  {fate}") }
}

fn ended(error: &AttemptView, screen: &Screen) -> String {
    error.ended_at.as_deref().map_or_else(|| "now".to_owned(), |at| screen.happened(at))
}

fn retries(n: u64) -> String {
    format!("{} {}", count(n), if n == 1 { "retry" } else { "retries" })
}

/// An item some parts of which failed: what happened to them, alike errors once.
fn describe_parts(parts: &[FailedItem], many_runs: bool, screen: &Screen) -> String {
    let Some(first) = parts.first() else { return String::new() };
    let dead = parts.iter().filter(|part| part.next_at.is_none()).count();
    let next = parts.iter().filter_map(|part| part.next_at.as_deref()).min();
    let most = parts.iter().map(|part| part.retries).max().unwrap_or(0);
    let mut fates = Vec::new();
    if dead > 0 {
        fates.push(format!("{dead} dead"));
    }
    if let Some(next) = next {
        fates.push(format!("{} tried again, the next {}", parts.len() - dead, screen.when(next)));
    }
    if parts.iter().any(|part| part.item.looks_permanent) {
        fates.push("looks permanent".to_owned());
    }
    let (name, parts_failed) = (name(first, &first.of, many_runs), things(parts.len() as u64, "part"));
    let first = format!("{name}  {parts_failed}, up to {}", retries(most.into()));
    let mut text = headed(first, "; ", &fates.join(", "));
    let mut alike: BTreeMap<(&str, &str), (u32, String)> = BTreeMap::new();
    for error in parts.iter().flat_map(|part| &part.errors) {
        let ended = ended(error, screen);
        let message = error.message.as_deref().unwrap_or_default();
        let seen = alike.entry((&error.stage, message)).or_insert((0, ended.clone()));
        *seen = (seen.0 + 1, std::mem::take(&mut seen.1).max(ended));
    }
    for ((stage, message), (times, last)) in alike {
        text.push_str(&format!("\n  {times}× at {stage}, last {last}  {}", said(message, MESSAGE)));
    }
    text
}
