//! `redrive explain` and `redrive dead show`.

use std::process::ExitCode;

use redrive_engine::report::{Epitaph, Explanation};
use redrive_operate::items::{self, ItemName, Life};

use super::{Answer, Context};
use crate::output::json;
use crate::output::table::{Side, table};
use crate::output::text::{KEY, safe, short, span};

/// Tells one item's whole life.
pub async fn explain(context: &Context, name: &ItemName) -> Answer {
    let told = items::explain(&context.floor_to_read()?, name).await?;
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
        Life::Item(life) => words(life),
        Life::Purged(left) => epitaph(left),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn epitaph(left: &Epitaph) -> String {
    let item = &left.item;
    let key = short(&item.key, KEY);
    format!("item {}\n  key {key} in run {}, purged\n\n{}", item.id, item.run, safe(&left.now))
}

fn words(life: &Explanation) -> String {
    let item = &life.item;
    let mut text = format!(
        "item {}\n  key {} in run {}, at stage {}, {}\n",
        item.id,
        short(&item.key, KEY),
        item.run,
        item.stage,
        item.state
    );
    if let Some(parent) = &item.parent {
        text.push_str(&format!("  expanded from {parent}\n"));
    }
    text.push_str(&format!("  submitted {}", item.created_at));
    if let Some(deadline) = &item.deadline {
        text.push_str(&format!(", worth a try until {deadline}"));
    }
    text.push('\n');
    if item.looks_permanent {
        text.push_str("  it has failed so often that it looks permanent\n");
    }
    if let Some(payload) = &item.payload {
        text.push_str(&format!("  content {}\n", short(payload.get(), 200)));
    }
    if let Some(damage) = &item.damage {
        text.push_str(&format!("  its content is damaged: {}\n", safe(damage)));
    }
    if !life.attempts.is_empty() {
        text.push('\n');
        text.push_str(&attempts(life));
        text.push('\n');
    }
    for mark in &life.marks {
        text.push_str(&format!("\n{}  {} {}", mark.at, mark.what, safe(&mark.detail)));
    }
    text.push_str(&format!("\n{}", safe(&life.now)));
    text
}

fn attempts(life: &Explanation) -> String {
    let headings = [
        ("started", Side::Whole),
        ("stage", Side::Left),
        ("gen", Side::Right),
        ("attempt", Side::Right),
        ("outcome", Side::Whole),
        ("why", Side::Left),
        ("then waits", Side::Left),
    ];
    table(
        headings,
        life.attempts.iter().map(|row| {
            let why = match (row.class, &row.message) {
                (Some(class), Some(message)) => format!("{class}: {}", short(message, 60)),
                _ => String::new(),
            };
            let wait = match (row.wait_ms, row.wait_cause) {
                (Some(ms), Some(cause)) => format!("{} ({cause})", span(ms)),
                _ => String::new(),
            };
            [
                row.started_at.clone(),
                row.stage.clone(),
                row.generation.to_string(),
                row.attempt.to_string(),
                row.outcome.to_owned(),
                why,
                wait,
            ]
        }),
    )
}
