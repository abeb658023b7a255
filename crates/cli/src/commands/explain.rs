//! `redrive explain` and `redrive dead show`.

use std::process::ExitCode;

use redrive_core::id::RunId;
use redrive_core::item::Item;
use redrive_engine::report::{Explanation, epitaph, explain as tell_life, find_item, find_tombstones};
use redrive_operate::Error;
use redrive_store::{Store, Tombstone};

use super::{Answer, Context, known_run};
use crate::output::table::{Side, table};
use crate::output::text::{safe, short, span};
use crate::output::{json, lines};
use crate::wiring;

/// Tells one item's whole life.
pub async fn explain(context: &Context, name: &str, run: Option<RunId>) -> Answer {
    let store = context.store_to_read()?;
    let item = match one_of(&*store, name, run).await? {
        Found::Item(item) => *item,
        Found::Tombstone(tombstone) => return tell_tombstone(context, &*store, &tombstone).await,
    };
    let known = known_run(&*store, Some(item.run)).await?;
    let gate = wiring::gate_names(&known.definition).into_iter().nth(item.stage.index()).flatten();
    let now = context.env.clock.now();
    let life = tell_life(&*store, &known.row, &item, &known.plan, gate.as_deref(), now).await?;
    if context.global.json {
        json(&life)?;
    } else {
        lines(&words(&life))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What a name can mean.
enum Found {
    Item(Box<Item>),
    Tombstone(Tombstone),
}

/// Finds the one item that is meant; one that was purged does not count.
pub async fn one_item(store: &dyn Store, name: &str, run: Option<RunId>) -> Result<Item, Error> {
    match one_of(store, name, run).await? {
        Found::Item(item) => Ok(*item),
        Found::Tombstone(tombstone) => {
            let id = tombstone.id;
            Err(Error::wrong(format!("item {id} was purged at {}", tombstone.at))
                .hint(format!("`redrive explain {id}` tells what is left of it")))
        }
    }
}

/// Finds the one item, or what is left of the one purged item, that is meant.
async fn one_of(store: &dyn Store, name: &str, run: Option<RunId>) -> Result<Found, Error> {
    let mut items = find_item(store, name, run, 6).await?;
    let mut purged = find_tombstones(store, name, run, 6).await?;
    match (items.len(), purged.len()) {
        (0, 0) => Err(Error::wrong(format!("no item has the id or key {:?}", short(name, 80))).hint(
            "ids are shown by `redrive dead list` and `redrive failures`; a key has to be given whole",
        )),
        (1, 0) => Ok(Found::Item(Box::new(items.remove(0)))),
        (0, 1) => Ok(Found::Tombstone(purged.remove(0))),
        _ => {
            let living = items.iter().map(|item| format!("{} ({} in {})", item.id, item.key, item.run));
            let gone =
                purged.iter().map(|gone| format!("{} ({} in {}, purged)", gone.id, gone.key, gone.run));
            let some: Vec<String> = living.chain(gone).take(5).collect();
            Err(Error::wrong(format!("several items are called {name}:\n       {}", some.join("\n       ")))
                .hint("give more of the id, or --run"))
        }
    }
}

/// Tells what is left of a purged item, whose run may be forgotten.
async fn tell_tombstone(context: &Context, store: &dyn Store, tombstone: &Tombstone) -> Answer {
    let plan = store.run(tombstone.run).await?.as_ref().and_then(wiring::plan_of);
    let left = epitaph(tombstone, plan.as_ref());
    if context.global.json {
        json(&left)?;
    } else {
        let item = &left.item;
        let key = safe(&item.key);
        lines(&format!("item {}\n  key {key} in run {}, purged\n\n{}", item.id, item.run, safe(&left.now)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(life: &Explanation) -> String {
    let item = &life.item;
    let mut text = format!(
        "item {}\n  key {} in run {}, at stage {}, {}\n",
        item.id,
        safe(&item.key),
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
        ("started", Side::Left),
        ("stage", Side::Left),
        ("gen", Side::Right),
        ("attempt", Side::Right),
        ("outcome", Side::Left),
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
