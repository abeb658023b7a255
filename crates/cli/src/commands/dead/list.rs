//! `redrive dead list` and `redrive dead groups`.

use std::process::ExitCode;

use redrive_core::item::DeadReason;
use redrive_operate::dead::{self, DeadGroup, DeadItem, List, Note, Which};

use crate::commands::{Answer, Context};
use crate::output::table::{Side, table};
use crate::output::text::{KEY, count, short, when};
use crate::output::{json, lines};

/// Lists dead items.
pub async fn list(context: &Context, request: &List) -> Answer {
    let found = dead::list(&context.floor_to_read()?, request).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    lines(&listing(&found.items))?;
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

fn listing(items: &[DeadItem]) -> String {
    if items.is_empty() {
        return "no dead items".to_owned();
    }
    let headings = [
        ("item", Side::Whole),
        ("run", Side::Whole),
        ("key", Side::Left),
        ("stage", Side::Left),
        ("reason", Side::Left),
        ("attempts", Side::Right),
        ("failed at", Side::Whole),
        ("message", Side::Left),
    ];
    table(
        headings,
        items.iter().map(|item| {
            [
                item.id.to_string()[..12].to_owned(),
                item.run.to_string(),
                short(&item.key, 32),
                item.stage.clone(),
                item.reason.map(DeadReason::name).unwrap_or_default().to_owned(),
                item.attempts.to_string(),
                when(&item.failed_at),
                short(item.message.as_deref().unwrap_or_default(), 60),
            ]
        }),
    )
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
    let text = table(
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
    lines(&format!("group {} is {known}{words}", noted.group))?;
    Ok(ExitCode::SUCCESS)
}
