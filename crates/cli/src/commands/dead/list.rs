//! `redrive dead list` and `redrive dead groups`.

use std::process::ExitCode;

use clap::ValueEnum;
use redrive_core::failure::{Class, headline};
use redrive_core::item::DeadReason;
use redrive_operate::dead::{self, DeadGroup, DeadItem, List, Note, Which};

use crate::args::DeadColumn;
use crate::commands::{Answer, Context};
use crate::output::command::quoted;
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{KEY, count, safe, said, short};
use crate::output::{csv, json, lines};

/// How much of a message is shown where there is room; `--json` has the whole of it.
const MESSAGE: usize = 200;

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

/// The same, and when an item is to be removed where somebody asked for that.
fn usual(items: &[DeadItem]) -> Vec<DeadColumn> {
    let doomed = items.iter().any(|item| item.purge_at.is_some());
    let (message, before) = (DeadColumn::Message, &USUAL[..USUAL.len() - 1]);
    before.iter().copied().chain(doomed.then_some(DeadColumn::PurgeAt)).chain([message]).collect()
}

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
        (false, []) => context.tell(&listing(&found.items, &usual(&found.items), &context.screen()))?,
        (false, columns) => context.tell(&listing(&found.items, columns, &context.screen()))?,
    }
    if let Some(next) = found.next {
        context.hint(&format!("there are more: --after {next}"));
    } else if let Some(group) = request.which.group.as_ref().filter(|_| found.items.is_empty()) {
        let group = short(group, KEY);
        context.hint(&format!("nothing dead is in group {group}; `redrive dead groups` lists the groups"));
    } else if !found.items.is_empty() {
        context.hint(&format!("`redrive dead groups` groups them; `redrive dead show ITEM` tells one's life; `redrive dead redrive{} --work` sends them back", again(&request.which, &found.items)));
    }
    Ok(ExitCode::SUCCESS)
}

/// What sends these back: the filters that were given, the run that all are of, or a word that all are meant.
fn again(which: &Which, items: &[DeadItem]) -> String {
    let one_run = items.first().map(|item| item.run);
    let one_run = one_run.filter(|run| which.item.is_none() && items.iter().all(|item| item.run == *run));
    let (run, spans) = (which.run.or(one_run), which.within_ms.map(|ms| format!("{ms}ms")));
    let given = [
        ("run", run.map(|run| run.to_string())),
        ("pipeline", which.pipeline.clone()),
        ("stage", which.stage.clone()),
        ("class", which.class.map(|class| class.name().to_owned())),
        ("reason", which.reason.map(|reason| reason.name().to_owned())),
        ("group", which.group.clone()),
        ("text", which.text.clone()),
        ("since", spans),
        ("item", which.item.clone()),
    ];
    let given = given.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let mut said: String = given.map(|(name, value)| format!(" --{name} {}", quoted(&value))).collect();
    if !which.is_narrow() {
        said.push_str(" --all");
    }
    said
}

fn listing(items: &[DeadItem], columns: &[DeadColumn], screen: &Screen) -> String {
    if items.is_empty() {
        return "no dead items".to_owned();
    }
    let one_run = items.windows(2).all(|pair| pair[0].run == pair[1].run);
    let mut table = Table::new(columns.iter().map(|column| shown(*column, one_run)));
    for item in items {
        table.row(columns.iter().map(|column| cell(item, *column, screen)));
    }
    table.on(screen)
}

fn cell(item: &DeadItem, column: DeadColumn, screen: &Screen) -> Cell {
    match column {
        DeadColumn::Item => item.id.to_string()[..12].into(),
        DeadColumn::Key => short(&item.key, KEY).into(),
        DeadColumn::Reason | DeadColumn::Class => Cell::state(whole(item, column)),
        DeadColumn::Attempts => count(item.attempts.into()).into(),
        DeadColumn::FailedAt => screen.happened(&item.failed_at).into(),
        DeadColumn::PurgeAt => item.purge_at.as_deref().map_or("-".to_owned(), |at| screen.when(at)).into(),
        DeadColumn::Message => said(item.message.as_deref().unwrap_or_default(), MESSAGE).into(),
        other => whole(item, other).into(),
    }
}

/// A column, and how soon it goes where there is little room.
fn shown(column: DeadColumn, one_run: bool) -> Column<'static> {
    match column {
        DeadColumn::Item => Column::whole("item"),
        DeadColumn::Run => Column::whole("run").rank(if one_run { 6 } else { 3 }),
        DeadColumn::Key => Column::text("key").least(10),
        DeadColumn::Stage => Column::text("stage").least(8).rank(2),
        DeadColumn::Reason => Column::whole("reason").rank(4),
        DeadColumn::Class => Column::whole("class").rank(4),
        DeadColumn::Attempts => Column::number("attempts").rank(5),
        DeadColumn::Generation => Column::number("generation").rank(5),
        DeadColumn::FailedAt => Column::whole("died").rank(1),
        DeadColumn::Group => Column::whole("group").rank(3),
        DeadColumn::Message => Column::text("message").least(28).wide(),
        DeadColumn::PurgeAt => Column::whole("removed"),
    }
}

/// The name of a column for a program.
fn name(column: DeadColumn) -> &'static str {
    match column {
        DeadColumn::Item => "item",
        DeadColumn::Run => "run",
        DeadColumn::Key => "key",
        DeadColumn::Stage => "stage",
        DeadColumn::Reason => "reason",
        DeadColumn::Class => "class",
        DeadColumn::Attempts => "attempts",
        DeadColumn::Generation => "generation",
        DeadColumn::FailedAt => "failed_at",
        DeadColumn::Group => "group",
        DeadColumn::Message => "message",
        DeadColumn::PurgeAt => "purge_at",
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
        DeadColumn::PurgeAt => item.purge_at.clone().unwrap_or_default(),
    }
}

/// The same for a spreadsheet: a row of names, then a row for each.
fn values(items: &[DeadItem], columns: &[DeadColumn]) -> String {
    let names = columns.iter().map(|column| name(*column).to_owned()).collect::<Vec<_>>();
    let row = |item| columns.iter().map(|column| whole(item, *column)).collect::<Vec<_>>();
    let rows = std::iter::once(names).chain(items.iter().map(row));
    csv::table(rows)
}

/// Shows dead items grouped by alike errors.
pub async fn groups(context: &Context, which: &Which, open: bool, limit: usize) -> Answer {
    let floor = context.floor_to_read()?;
    let found = match open {
        true => dead::open_groups(&floor, which, limit).await?,
        false => dead::groups(&floor, which, limit).await?,
    };
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.groups.is_empty() {
        context.tell(&match found.looked_after {
            0 => "no dead items".to_owned(),
            1 => "no open groups; 1 is acknowledged".to_owned(),
            n => format!("no open groups; {} are acknowledged", count(n)),
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&grouped(&found.groups, &context.screen()))?;
    Ok(ExitCode::SUCCESS)
}

fn grouped(groups: &[DeadGroup], screen: &Screen) -> String {
    let mut table = Table::new([
        Column::whole("group"),
        Column::number("items"),
        Column::text("stage").least(8).rank(2),
        Column::whole("class").rank(3),
        Column::whole("last").rank(1),
        Column::text("message").least(28).wide(),
    ]);
    for group in groups {
        table.row([
            group.group.clone().into(),
            count(group.items).into(),
            group.stage.clone().into(),
            Cell::state(group.class.map(Class::name).unwrap_or_default()),
            screen.happened(&group.last_at).into(),
            short(&noted(group), MESSAGE).into(),
        ]);
    }
    table.on(screen)
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
    context.tell(&safe(&format!("group {} is {known}{words}", noted.group)))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::sample::{at_widths, dead, group};

    #[test]
    fn dead_items_and_groups_fit_their_screen() {
        let items = [
            dead(1, "B000UA0QIQ", "422: the review has no text"),
            dead(
                2,
                "reviews/2026/11/a-key-of-some-length-that-has-to-be-cut-somewhere",
                &"no answer in time; ".repeat(20),
            ),
            dead(9, "漢字のキー", "500"),
        ];
        at_widths("dead-list", |screen| listing(&items, &USUAL, screen));
        let groups =
            [group(1, "no answer in time"), group(9, &"Traceback (most recent call last): ".repeat(9))];
        at_widths("dead-groups", |screen| grouped(&groups, screen));
    }
}
