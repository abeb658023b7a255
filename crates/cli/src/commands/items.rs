//! `redrive items` and `redrive stuck`.

use std::process::ExitCode;

use redrive_core::item::StateKind;
use redrive_operate::Error;
use redrive_operate::items::{self, ItemRow, Standstill, StuckItem};
use serde_json::Value;

use super::{Answer, Context};
use crate::args::{ItemsArgs, StuckArgs};
use crate::output::screen::Screen;
use crate::output::table::{Cell, Column, Table};
use crate::output::text::{KEY, short, span};
use crate::output::tone::Tone;
use crate::output::{csv, json, lines};

/// How much of a message is shown where there is room; `--json` has the whole of it.
const MESSAGE: usize = 200;

/// Columns that are shown unless others are asked for; where something waits, [`DUE`] as well, and [`VERDICT`] where
/// something has one.
const USUAL: [&str; 7] = ["id", "run", "key", "stage", "state", "attempts", "message"];
/// When an item that waits may go.
const DUE: &str = "due";
/// What was found of an item that succeeded.
const VERDICT: &str = "verdict";
/// Every column, by its name in a document.
const ALL: [&str; 18] = [
    "id",
    "key",
    "run",
    "stage",
    "state",
    VERDICT,
    "child",
    "reason",
    "class",
    "message",
    "group",
    "attempts",
    "failures",
    "throttles",
    "generation",
    DUE,
    "created_at",
    "updated_at",
];

/// Lists items.
pub async fn items(context: &Context, args: &ItemsArgs) -> Answer {
    let asked = chosen(&args.columns)?;
    let request = args.request();
    let found = items::list(&context.floor_to_read()?, &request).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    // Programs read columns that follow from what was asked, never from what was found.
    let waits = request.state == Some(StateKind::Waiting);
    let waits = waits || (!args.csv && found.items.iter().any(|item| item.due.is_some()));
    let judged = request.verdict.is_some();
    let judged = judged || (!args.csv && found.items.iter().any(|item| item.verdict.is_some()));
    let names = asked.unwrap_or_else(|| usual(waits, judged));
    let more = found.next.map(|next| format!("there are more: --after {next}"));
    let rows = found.items.iter().map(|item| cells(item, &names));
    if args.csv {
        let heading = names.iter().map(ToString::to_string).collect();
        lines(&csv::table(std::iter::once(heading).chain(rows)))?;
    } else if found.items.is_empty() {
        context.tell("no such items")?;
    } else {
        context.tell(&listing(&found.items, &names, &context.screen()))?;
    }
    if let Some(more) = more {
        context.hint(&more);
    }
    Ok(ExitCode::SUCCESS)
}

/// The columns that were asked for, if any were.
fn chosen(asked: &[String]) -> Result<Option<Vec<&str>>, Error> {
    if asked.is_empty() {
        return Ok(None);
    }
    let find = |name: &String| {
        ALL.into_iter().find(|known| known == name).ok_or_else(|| {
            Error::wrong(format!("there is no column {name:?}")).hint(format!("columns: {}", ALL.join(", ")))
        })
    };
    asked.iter().map(find).collect::<Result<_, _>>().map(Some)
}

/// The columns for whoever asked for none: with the time of the next try where something waits for one, and with the verdict
/// where something has one.
fn usual(waits: bool, judged: bool) -> Vec<&'static str> {
    let more = |name: &str| {
        let [due, verdict] =
            [(waits, DUE), (judged, VERDICT)].map(|(wanted, column)| wanted.then_some(column));
        due.into_iter().chain(verdict).filter(move |_| name == "state").collect::<Vec<_>>()
    };
    USUAL.iter().flat_map(|name| std::iter::once(*name).chain(more(name))).collect()
}

/// The cells of an item: what a document has of it. What was filtered says why in place of a message, unless the reason has a
/// column of its own.
fn cells(item: &ItemRow, names: &[&str]) -> Vec<String> {
    let document = serde_json::to_value(item).unwrap_or_default();
    let says_why = item.state == StateKind::Filtered && !names.contains(&"reason");
    let cell = |name: &&str| match &document[if says_why && *name == "message" { "reason" } else { *name }] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    names.iter().map(cell).collect()
}

/// The same for people: what can be read from a document in full is cut here.
fn listing(items: &[ItemRow], names: &[&str], screen: &Screen) -> String {
    let mut table = Table::new(names.iter().map(|name| column(name)));
    let cell = |(name, text): (&&str, String)| match *name {
        "id" => Cell::from(text.chars().take(12).collect::<String>()),
        DUE => screen.when(&text).into(),
        "created_at" | "updated_at" => screen.happened(&text).into(),
        "key" => short(&text, KEY).into(),
        "message" => short(&text, MESSAGE).into(),
        "state" | "class" | "reason" | VERDICT => Cell::state(text),
        _ => text.into(),
    };
    for item in items {
        table.row(names.iter().zip(cells(item, names)).map(cell));
    }
    table.on(screen)
}

/// How a column is shown, and which ones go first where there is little room.
fn column(name: &str) -> Column<'_> {
    match name {
        "id" | "state" => Column::whole(name),
        "key" => Column::text(name).least(10),
        "message" => Column::text(name).least(20).wide(),
        "attempts" => Column::number(name).rank(4),
        "failures" | "throttles" | "generation" => Column::number(name).rank(6),
        "run" => Column::whole(name).rank(3),
        "stage" => Column::text(name).least(8).rank(2),
        DUE | VERDICT => Column::whole(name).rank(1),
        "created_at" | "updated_at" | "reason" | "class" => Column::whole(name).rank(5),
        _ => Column::text(name).rank(5),
    }
}

/// Lists items that nothing happens to.
pub async fn stuck(context: &Context, args: &StuckArgs) -> Answer {
    let found = items::stuck(&context.floor_to_read()?, &args.request()).await?;
    if context.global.json {
        json(&found)?;
        return Ok(ExitCode::SUCCESS);
    }
    if found.items.is_empty() {
        context.tell("nothing is at a standstill")?;
        return Ok(ExitCode::SUCCESS);
    }
    context.tell(&standing(&found.items, &context.screen()))?;
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

fn standing(items: &[StuckItem], screen: &Screen) -> String {
    let mut table = Table::new([
        Column::whole("item"),
        Column::whole("run").rank(2),
        Column::text("key").least(10),
        Column::text("stage").least(8).rank(3),
        Column::whole("what"),
        Column::number("for").rank(1),
        Column::text("why").least(20).wide(),
    ]);
    for item in items {
        let (what, tone) = match item.what {
            Standstill::Stuck => ("stuck", Tone::Bad),
            Standstill::Slow => ("slow", Tone::Wait),
            Standstill::Awaited => ("awaited", Tone::Wait),
            Standstill::Starved => ("starved", Tone::Wait),
        };
        table.row([
            item.id.to_string().chars().take(12).collect::<String>().into(),
            item.run.to_string().into(),
            short(&item.key, KEY).into(),
            item.stage.clone().into(),
            Cell::toned(what, tone),
            span(item.for_ms).into(),
            short(&item.why, MESSAGE).into(),
        ]);
    }
    table.on(screen)
}

#[cfg(test)]
mod tests {
    use redrive_core::failure::Class;
    use redrive_core::verdict::Verdict;

    use super::*;
    use crate::output::sample::{at_widths, dead, moment};

    fn row(n: u8, state: StateKind) -> ItemRow {
        let dead = dead(n, "reviews/2026/11/a-key-of-some-length", "no answer in time; the service was away");
        ItemRow {
            id: dead.id,
            key: dead.key,
            run: dead.run,
            stage: dead.stage,
            state,
            verdict: (state == StateKind::Succeeded).then_some(Verdict::NeedsReview),
            child: false,
            reason: None,
            class: Some(Class::Timeout),
            message: dead.message,
            group: dead.group,
            attempts: 2,
            failures: 1,
            throttles: 1,
            generation: 0,
            due: (state == StateKind::Waiting).then(|| moment(40_000).to_string()),
            awaited: None,
            created_at: moment(-200_000_000).to_string(),
            updated_at: moment(-42_000).to_string(),
        }
    }

    #[test]
    fn items_fit_their_screen() {
        let mut filtered = row(4, StateKind::Filtered);
        filtered.reason = Some("not of this year".to_owned());
        let rows =
            [row(1, StateKind::Waiting), row(2, StateKind::Succeeded), row(3, StateKind::Dead), filtered];
        at_widths("items", |screen| listing(&rows[1..], &usual(false, false), screen));
        at_widths("items-waiting", |screen| listing(&rows, &usual(true, false), screen));
        at_widths("items-judged", |screen| listing(&rows[1..], &usual(false, true), screen));
        at_widths("items-all-columns", |screen| listing(&rows, &ALL, screen));
        let item = row(1, StateKind::Waiting);
        let stuck = StuckItem {
            what: Standstill::Starved,
            id: item.id,
            key: item.key,
            run: item.run,
            stage: item.stage,
            since: moment(-900_000).to_string(),
            for_ms: 900_000,
            why: "gate api.openai.example is paused: an invoice is open".to_owned(),
            way_out: None,
        };
        at_widths("stuck", |screen| standing(std::slice::from_ref(&stuck), screen));
    }
}
