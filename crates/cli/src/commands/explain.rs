//! `redrive explain` and `redrive dead show`.

use std::process::ExitCode;

use redrive_engine::report::{Epitaph, Explanation, Parts};
use redrive_operate::items::{self, ItemName, Life};

use super::{Answer, Context};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{KEY, count, safe, said, short, span, things};

/// Most lines of an error that are shown, and most characters of one.
const LINES: usize = 20;
const WIDTH: usize = 74;
/// How much of a message is shown beside its attempt, where there is room.
const MESSAGE: usize = 160;

/// Tells one item's whole life.
pub async fn explain(context: &Context, name: &ItemName) -> Answer {
    let told = items::explain_whole(&context.floor_to_read()?, name).await?;
    if let Some(run) = told.newest {
        context.say(&format!(
            "several runs have an item of this key; this is the newest one's, {run} (--run names another)"
        ));
    }
    tell(context, &told.life)
}

/// Tells a life.
pub fn tell(context: &Context, life: &Life) -> Answer {
    if context.global.json {
        json(life)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&match life {
        Life::Item(life) => words(life, &context.screen()),
        Life::Purged(left) => epitaph(left),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn epitaph(left: &Epitaph) -> String {
    let item = &left.item;
    let key = short(&item.key, KEY);
    format!("item {}\n  key {key} in run {}, purged\n\n{}", item.id, item.run, safe(&left.now))
}

fn words(life: &Explanation, screen: &Screen) -> String {
    let item = &life.item;
    let mut text = format!(
        "item {}\n  key {} in run {}, at stage {}, {}\n",
        item.id,
        short(&item.key, KEY),
        item.run,
        item.stage,
        screen.state(&item.state.to_string())
    );
    if let Some(verdict) = item.verdict {
        text.push_str(&format!("  verdict {}\n", screen.state(verdict.name())));
    }
    if let Some(parent) = &item.parent {
        text.push_str(&format!("  expanded from {parent}\n"));
    }
    text.push_str(&format!("  submitted {}", screen.happened(&item.created_at)));
    if let Some(deadline) = &item.deadline {
        text.push_str(&format!(", deadline {}", screen.when(deadline)));
    }
    text.push('\n');
    if item.looks_permanent {
        text.push_str("  it has failed so often that it looks permanent\n");
    }
    if let Some(retry) = &item.retry {
        text.push_str(&format!("  at this stage under a policy of its own: {}\n", policy_words(retry)));
    }
    if let Some(payload) = &item.payload {
        text.push_str(&format!("  content {}\n", short(payload.get(), 200)));
    }
    if let Some(damage) = &item.damage {
        text.push_str(&format!("  its content is damaged: {}\n", safe(damage)));
    }
    if let Some(message) = item.message.as_ref().filter(|message| message.trim().contains('\n')) {
        text.push_str(&format!("  the last failure said\n{}", indented(message)));
    }
    if !life.attempts.is_empty() {
        text.push('\n');
        text.push_str(&attempts(life, screen));
        text.push('\n');
    }
    for mark in &life.marks {
        text.push_str(&format!("\n{}  {} {}", screen.happened(&mark.at), mark.what, safe(&mark.detail)));
    }
    if let Some(parts) = &life.parts {
        text.push_str(&parts_words(parts));
    }
    text.push_str(&format!("\n{}", safe(&life.now)));
    text
}

/// A policy as it was asked for.
fn policy_words(said: &serde_json::Value) -> String {
    said.as_str().map_or_else(|| short(&said.to_string(), 200), safe)
}

/// A text of several lines, apart from what is around it.
fn indented(message: &str) -> String {
    let lines: Vec<&str> = message.trim().lines().collect();
    let cut = lines.len().saturating_sub(LINES);
    // What is left out is in the middle: a traceback begins with where it was called and ends with what was wrong.
    let (before, after) = if cut > 0 { (LINES / 2, LINES / 2 + cut) } else { (lines.len(), lines.len()) };
    let mut text = String::new();
    for line in &lines[..before] {
        text.push_str(&format!("    {}\n", short(line, WIDTH)));
    }
    if cut > 0 {
        text.push_str(&format!("    … {} more (--json has all)\n", things(cut as u64, "line")));
    }
    for line in &lines[after..] {
        text.push_str(&format!("    {}\n", short(line, WIDTH)));
    }
    text
}

/// Why the parts of an item fail, alike failures once.
fn parts_words(parts: &Parts) -> String {
    let told = [
        (parts.done, "passed"),
        (parts.live, "not finished"),
        (parts.dead, "dead"),
        (parts.gone, "cancelled or superseded"),
    ];
    let told = told.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n)));
    let told = told.collect::<Vec<_>>().join(", ");
    let mut text = format!("\n{}: {told}\n", things(parts.total, "part"));
    for failure in &parts.failing {
        let class = failure.class.map(|class| format!(" ({class})")).unwrap_or_default();
        text.push_str(&format!(
            "  {}× at {}{class}: {}\n    for example {}: `redrive explain {}`\n    {}\n",
            count(failure.items),
            failure.stage,
            said(&failure.message, WIDTH),
            short(&failure.example.key, 40),
            &failure.example.id.to_string()[..12],
            safe(&failure.todo)
        ));
    }
    if parts.more {
        text.push_str("  there are more that were not looked at\n");
    }
    text
}

fn attempts(life: &Explanation, screen: &Screen) -> String {
    let again = life.attempts.iter().any(|row| row.generation > 0);
    let mut columns = vec![Column::whole("started").rank(3), Column::text("stage").least(8)];
    columns.extend(again.then(|| Column::number("gen").rank(4)));
    columns.extend([
        Column::number("attempt"),
        Column::whole("outcome"),
        Column::number("took").rank(2),
        Column::text("why").least(20).wide(),
        Column::whole("then waits").rank(1),
    ]);
    let mut table = Table::new(columns);
    for row in &life.attempts {
        let why = match (row.class, &row.message) {
            (Some(class), Some(message)) => format!("{class}: {}", said(message, MESSAGE)),
            _ => row.verdict.map_or_else(String::new, |verdict| format!("verdict {verdict}")),
        };
        let wait = match (row.wait_ms, row.wait_cause) {
            (Some(ms), Some(cause)) => format!("{} ({cause})", span(ms)),
            _ => String::new(),
        };
        let mut cells: Vec<Cell> = vec![screen.happened(&row.started_at).into(), row.stage.clone().into()];
        cells.extend(again.then(|| row.generation.to_string().into()));
        cells.extend([
            row.attempt.to_string().into(),
            Cell::state(row.outcome),
            row.duration_ms.map(span).unwrap_or_default().into(),
            why.into(),
            wait.into(),
        ]);
        table.row(cells);
    }
    table.on(screen)
}
