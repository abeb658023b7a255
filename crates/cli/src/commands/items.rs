//! `redrive items` and `redrive stuck`.

use std::process::ExitCode;

use redrive_operate::Error;
use redrive_operate::items::{self, ItemRow, Standstill, StuckItem};
use serde_json::Value;

use super::{Answer, Context};
use crate::args::{ItemsArgs, StuckArgs};
use crate::output::table::{Side, columns, table};
use crate::output::text::{short, span, when};
use crate::output::{csv, json, lines};

/// Columns that are shown unless others are asked for.
const USUAL: [&str; 7] = ["id", "run", "key", "stage", "state", "attempts", "message"];
/// Every column, by its name in a document.
const ALL: [&str; 17] = [
    "id",
    "key",
    "run",
    "stage",
    "state",
    "child",
    "reason",
    "class",
    "message",
    "group",
    "attempts",
    "failures",
    "throttles",
    "generation",
    "due",
    "created_at",
    "updated_at",
];

/// Lists items.
pub async fn items(context: &Context, args: &ItemsArgs) -> Answer {
    let names = chosen(&args.columns)?;
    let found = items::list(&context.floor_to_read()?, &args.request()).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    let more = found.next.map(|next| format!("there are more: --after {next}"));
    let rows = found.items.iter().map(|item| cells(item, &names));
    if args.csv {
        let heading = names.iter().map(ToString::to_string).collect();
        lines(&csv::table(std::iter::once(heading).chain(rows)))?;
    } else if found.items.is_empty() {
        lines("no such items")?;
    } else {
        lines(&columns(&headings(&names), rows.map(|row| shown(row, &names))))?;
    }
    if let Some(more) = more {
        context.hint(&more);
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen(asked: &[String]) -> Result<Vec<&str>, Error> {
    if asked.is_empty() {
        return Ok(USUAL.to_vec());
    }
    let find = |name: &String| {
        ALL.into_iter().find(|known| known == name).ok_or_else(|| {
            Error::wrong(format!("there is no column {name:?}")).hint(format!("columns: {}", ALL.join(", ")))
        })
    };
    asked.iter().map(find).collect()
}

/// The cells of an item: what a document has of it.
fn cells(item: &ItemRow, names: &[&str]) -> Vec<String> {
    let document = serde_json::to_value(item).unwrap_or_default();
    let cell = |name: &&str| match &document[*name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    names.iter().map(cell).collect()
}

/// The same, for people.
fn shown(row: Vec<String>, names: &[&str]) -> Vec<String> {
    let cell = |(name, text): (&&str, String)| match *name {
        "id" => text.chars().take(12).collect(),
        "due" | "created_at" | "updated_at" => when(&text),
        "key" => short(&text, 40),
        "message" | "reason" => short(&text, 80),
        _ => text,
    };
    names.iter().zip(row).map(cell).collect()
}

fn headings<'a>(names: &[&'a str]) -> Vec<(&'a str, Side)> {
    let side = |name: &str| match name {
        "attempts" | "failures" | "throttles" | "generation" => Side::Right,
        "id" | "run" | "state" | "due" | "created_at" | "updated_at" => Side::Whole,
        _ => Side::Left,
    };
    names.iter().map(|name| (*name, side(name))).collect()
}

/// Lists items that nothing happens to.
pub async fn stuck(context: &Context, args: &StuckArgs) -> Answer {
    let found = items::stuck(&context.floor_to_read()?, &args.request()).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.items.is_empty() {
        lines("nothing is at a standstill")?;
        return Ok(ExitCode::SUCCESS);
    }
    lines(&standing(&found.items))?;
    if found.more {
        context.hint(&format!("there are more: -n {} shows more of them", 2 * args.limit));
    }
    let mut ways: Vec<&String> = found.items.iter().filter_map(|item| item.way_out.as_ref()).collect();
    ways.sort_unstable();
    ways.dedup();
    for way in ways.into_iter().take(5) {
        context.hint(&format!("`{way}` lets them go on"));
    }
    Ok(ExitCode::SUCCESS)
}

fn standing(items: &[StuckItem]) -> String {
    let headings = [
        ("item", Side::Whole),
        ("run", Side::Whole),
        ("key", Side::Left),
        ("stage", Side::Left),
        ("what", Side::Whole),
        ("for", Side::Whole),
        ("why", Side::Left),
    ];
    table(
        headings,
        items.iter().map(|item| {
            [
                item.id.to_string().chars().take(12).collect(),
                item.run.to_string(),
                short(&item.key, 32),
                item.stage.clone(),
                match item.what {
                    Standstill::Stuck => "stuck",
                    Standstill::Slow => "slow",
                    Standstill::Starved => "starved",
                }
                .to_owned(),
                span(item.for_ms),
                item.why.clone(),
            ]
        }),
    )
}
