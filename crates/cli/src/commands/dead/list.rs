//! `redrive dead list` and `redrive dead groups`.

use std::process::ExitCode;

use redrive_core::failure::Class;
use redrive_core::item::DeadReason;
use redrive_operate::dead::{self, DeadGroup, DeadItem, List, Note, Which};

use crate::commands::{Answer, Context};
use crate::output::json;
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{KEY, count, short};

/// How much of a message is shown where there is room; `--json` has the whole of it.
const MESSAGE: usize = 200;

/// Lists dead items.
pub async fn list(context: &Context, request: &List) -> Answer {
    let found = dead::list(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&listing(&found.items, &context.screen()))?;
    if let Some(next) = found.next {
        context.hint(&format!("there are more: --after {next}"));
    } else if !found.items.is_empty() {
        context.hint("`redrive dead groups` groups them; `redrive dead show ITEM` tells one's life; `redrive dead redrive` sends them back");
    }
    Ok(ExitCode::SUCCESS)
}

fn listing(items: &[DeadItem], screen: &Screen) -> String {
    if items.is_empty() {
        return "no dead items".to_owned();
    }
    let one_run = items.windows(2).all(|pair| pair[0].run == pair[1].run);
    let mut table = Table::new([
        Column::whole("item"),
        Column::whole("run").rank(if one_run { 6 } else { 3 }),
        Column::text("key").least(10),
        Column::text("stage").least(8).rank(2),
        Column::whole("reason").rank(4),
        Column::number("attempts").rank(5),
        Column::whole("died").rank(1),
        Column::text("message").least(28).wide(),
    ]);
    for item in items {
        table.row([
            item.id.to_string()[..12].into(),
            item.run.to_string().into(),
            short(&item.key, KEY).into(),
            item.stage.clone().into(),
            Cell::state(item.reason.map(DeadReason::name).unwrap_or_default()),
            count(item.attempts.into()).into(),
            screen.when(&item.failed_at).into(),
            short(item.message.as_deref().unwrap_or_default(), MESSAGE).into(),
        ]);
    }
    table.on(screen)
}

/// Shows dead items grouped by alike errors.
pub async fn groups(context: &Context, which: &Which, open: bool, limit: usize) -> Answer {
    let mut found = dead::groups(&context.floor_to_read()?, which, limit).await?;
    found.groups.retain(|group| group.open || !open);
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.groups.is_empty() {
        context.tell("no dead items")?;
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
            screen.when(&group.last_at).into(),
            short(&noted(group), MESSAGE).into(),
        ]);
    }
    table.on(screen)
}

/// What is known of a group: its message, and what somebody wrote.
fn noted(group: &DeadGroup) -> String {
    let known = if group.open { "" } else { "[known] " };
    match &group.note {
        Some(note) => format!("{known}{note}: {}", group.message),
        None => format!("{known}{}", group.message),
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
    context.tell(&format!("group {} is {known}{words}", noted.group))?;
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
        at_widths("dead-list", |screen| listing(&items, screen));
        let groups =
            [group(1, "no answer in time"), group(9, &"Traceback (most recent call last): ".repeat(9))];
        at_widths("dead-groups", |screen| grouped(&groups, screen));
    }
}
