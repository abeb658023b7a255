//! `redrive dead list` and `redrive dead groups`.

use std::process::ExitCode;

use clap::ValueEnum;
use redrive_core::failure::{Class, headline};
use redrive_core::item::DeadReason;
use redrive_operate::dead::{self, DeadGroup, DeadItem, List, Note, Which};

use crate::args::DeadColumn;
use crate::commands::{Answer, Context};
use crate::output::table::{self, Side};
use crate::output::text::{KEY, count, safe, said, short, when};
use crate::output::{csv, json, lines};

/// What a table of dead items has unless somebody chooses.
const USUAL: [DeadColumn; 8] = [
    DeadColumn::Item,
    DeadColumn::Run,
    DeadColumn::Key,
    DeadColumn::Stage,
    DeadColumn::Reason,
    DeadColumn::Attempts,
    DeadColumn::FailedAt,
    DeadColumn::Message,
];

/// Lists dead items.
pub async fn list(context: &Context, request: &List, columns: &[DeadColumn], csv: bool) -> Answer {
    let found = dead::list(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    match (csv, columns) {
        (true, []) => lines(&values(&found.items, DeadColumn::value_variants()))?,
        (true, columns) => lines(&values(&found.items, columns))?,
        (false, []) => lines(&listing(&found.items, &USUAL))?,
        (false, columns) => lines(&listing(&found.items, columns))?,
    }
    if let Some(next) = found.next {
        let most = if request.limit > found.items.len() {
            format!(" (at most {} at a time)", count(found.items.len() as u64))
        } else {
            String::new()
        };
        context.hint(&format!("there are more: --after {next}{most}"));
    } else if let Some(group) = request.which.group.as_ref().filter(|_| found.items.is_empty()) {
        let group = short(group, KEY);
        context.hint(&format!("nothing dead is in group {group}; `redrive dead groups` lists the groups"));
    } else if !found.items.is_empty() {
        context.hint("`redrive dead groups` groups them; `redrive dead show ITEM` tells one's life; `redrive dead redrive` sends them back");
    }
    Ok(ExitCode::SUCCESS)
}

fn listing(items: &[DeadItem], columns: &[DeadColumn]) -> String {
    if items.is_empty() {
        return "no dead items".to_owned();
    }
    let headings: Vec<(&str, Side)> = columns.iter().map(|column| heading(*column)).collect();
    let cell = |item: &DeadItem, column| match column {
        DeadColumn::Item => item.id.to_string()[..12].to_owned(),
        DeadColumn::Key => short(&item.key, 32),
        DeadColumn::FailedAt => when(&item.failed_at),
        DeadColumn::Message => said(item.message.as_deref().unwrap_or_default(), 60),
        other => whole(item, other),
    };
    let row = |item| columns.iter().map(|column| cell(item, *column)).collect();
    table::columns(&headings, items.iter().map(row))
}

fn heading(column: DeadColumn) -> (&'static str, Side) {
    match column {
        DeadColumn::Item => ("item", Side::Whole),
        DeadColumn::Run => ("run", Side::Whole),
        DeadColumn::Key => ("key", Side::Left),
        DeadColumn::Stage => ("stage", Side::Left),
        DeadColumn::Reason => ("reason", Side::Left),
        DeadColumn::Class => ("class", Side::Left),
        DeadColumn::Attempts => ("attempts", Side::Right),
        DeadColumn::Generation => ("generation", Side::Right),
        DeadColumn::FailedAt => ("failed at", Side::Whole),
        DeadColumn::Group => ("group", Side::Whole),
        DeadColumn::Message => ("message", Side::Left),
    }
}

/// What a column says of an item, as `--json` has it.
fn whole(item: &DeadItem, column: DeadColumn) -> String {
    match column {
        DeadColumn::Item => item.id.to_string(),
        DeadColumn::Run => item.run.to_string(),
        DeadColumn::Key => item.key.clone(),
        DeadColumn::Stage => item.stage.clone(),
        DeadColumn::Reason => item.reason.map(DeadReason::name).unwrap_or_default().to_owned(),
        DeadColumn::Class => item.class.map(Class::name).unwrap_or_default().to_owned(),
        DeadColumn::Attempts => item.attempts.to_string(),
        DeadColumn::Generation => item.generation.to_string(),
        DeadColumn::FailedAt => item.failed_at.clone(),
        DeadColumn::Group => item.group.clone().unwrap_or_default(),
        DeadColumn::Message => item.message.clone().unwrap_or_default(),
    }
}

/// The same for a spreadsheet: a row of names, then a row for each.
fn values(items: &[DeadItem], columns: &[DeadColumn]) -> String {
    let names = columns.iter().map(|column| heading(*column).0.replace(' ', "_")).collect::<Vec<_>>();
    let row = |item| columns.iter().map(|column| whole(item, *column)).collect::<Vec<_>>();
    let rows = std::iter::once(names).chain(items.iter().map(row));
    safe(&csv::table(rows))
}

/// Shows dead items grouped by alike errors.
pub async fn groups(context: &Context, which: &Which, open: bool, limit: usize) -> Answer {
    let mut found = dead::groups(&context.floor_to_read()?, which, limit).await?;
    found.groups.retain(|group| group.open || !open);
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let headings = [
        ("group", Side::Whole),
        ("items", Side::Right),
        ("stage", Side::Left),
        ("class", Side::Left),
        ("last at", Side::Whole),
        ("message", Side::Left),
    ];
    let text = table::table(
        headings,
        found.groups.iter().map(|group| {
            [
                group.group.clone(),
                count(group.items),
                group.stage.clone(),
                group.class.map(|class| class.name().to_owned()).unwrap_or_default(),
                when(&group.last_at),
                short(&noted(group), 80),
            ]
        }),
    );
    lines(if found.groups.is_empty() { "no dead items" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

/// What is known of a group: its message, and what somebody wrote.
fn noted(group: &DeadGroup) -> String {
    let known = if group.open { "" } else { "[known] " };
    let message = headline(&group.message);
    match &group.note {
        Some(note) => format!("{known}{note}: {message}"),
        None => format!("{known}{message}"),
    }
}

/// Writes down what is known about a group.
pub async fn note(context: &Context, group: &str, note: Note) -> Answer {
    let noted = dead::note(&context.floor()?, group, note).await?;
    if context.global.json {
        json(&noted)?;
        return Ok(ExitCode::SUCCESS);
    }
    let known = if noted.acknowledged_at.is_some() { "known and looked after" } else { "open" };
    let words = if noted.note.is_empty() { String::new() } else { format!(": {}", noted.note) };
    lines(&format!("group {} is {known}{words}", noted.group))?;
    Ok(ExitCode::SUCCESS)
}
