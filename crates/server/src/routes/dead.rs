//! Dead letters: list, show, groups, notes, and out and in again.

use redrive_operate::dead::{
    self, DeadList, DeadOrder, GroupPage, Groups, Import, Imported, LINES, List, Note, Which,
};
use redrive_operate::items::{self, ItemName};
use redrive_operate::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::call::{Call, Query};
use crate::pages::{AFTER, Page};
use crate::reply::Reply;
use crate::route::{Kind, Param, Route, Shape, param};
use crate::streams;

/// Most items or groups of a page.
const MOST: usize = 500;
/// Items or groups of a page where nobody says how many.
const USUAL: usize = 100;

const RUN: Param = param("run", Kind::Schema("run"), "in this run");
const PIPELINE: Param = param("pipeline", Kind::Text, "of this pipeline");
const STAGE: Param = param("stage", Kind::Text, "at this stage");
const CLASS: Param = param("class", Kind::Schema("class"), "whose last failure has this class");
const REASON: Param = param("reason", Kind::Schema("reason"), "dead for this reason");
const GROUP: Param = param("group", Kind::Text, "in this group of alike errors");
const TEXT: Param = param("text", Kind::Text, "whose key or last failure contains this");
const SINCE: Param = param("since", Kind::Number, "that died within so many milliseconds");
const ITEM: Param = param("item", Kind::Text, "only this one, by its id, the beginning of it, or its key");
const SORT: Param = param("sort", Kind::Schema("dead_order"), "in this order; newest first otherwise");
const OPEN: Param = param("open", Kind::Flag, "leaves out groups that are acknowledged");
const LIMIT: Param = param("limit", Kind::Count(MOST), "at most so many");

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/dead", "Lists dead items.", Shape::Json("dead_list"), list)
            .query(&[RUN, PIPELINE, STAGE, CLASS, REASON, GROUP, TEXT, SINCE, ITEM, SORT, LIMIT, AFTER]),
        Route::get(
            "/v1/dead/groups",
            "Groups dead items by alike errors.",
            Shape::Json("group_page"),
            groups,
        )
        .query(&[RUN, PIPELINE, STAGE, CLASS, REASON, GROUP, TEXT, SINCE, ITEM, OPEN, LIMIT, AFTER]),
        Route::get(
            "/v1/dead/export",
            "Gives dead items with their contents and newest attempts, as JSON Lines.",
            Shape::Lines("life"),
            export,
        )
        .query(&[RUN, PIPELINE, STAGE, CLASS, REASON, GROUP, TEXT, SINCE, ITEM]),
        Route::post(
            "/v1/dead/import",
            "Sends dead items back with the contents of lines of an export.",
            Shape::Json("imported"),
            import,
        )
        .body("new_import"),
        Route::post(
            "/v1/dead/groups/{group}/note",
            "Writes down what is known about a group.",
            Shape::Json("noted"),
            note,
        )
        .body("new_note"),
        Route::get(
            "/v1/dead/{item}",
            "Tells a dead item's life, with its newest attempts.",
            Shape::Json("life"),
            show,
        )
        .query(&[RUN]),
    ]
}

fn which(query: &Query) -> Result<Which> {
    Ok(Which {
        run: query.one("run")?,
        pipeline: query.text("pipeline"),
        stage: query.text("stage"),
        class: query.one("class")?,
        reason: query.one("reason")?,
        group: query.text("group"),
        text: query.text("text"),
        within_ms: query.number("since"),
        item: query.text("item"),
    })
}

async fn list(call: Call) -> Result<Reply> {
    let request = List {
        which: which(&call.query)?,
        order: call.query.one::<DeadOrder>("sort")?.unwrap_or_default(),
        limit: call.query.number("limit").unwrap_or(USUAL),
        after: call.after()?,
    };
    let DeadList { items, next } = dead::list(&call.floor, &request).await?;
    Reply::json(&Page { items, next: call.next(next) })
}

async fn groups(call: Call) -> Result<Reply> {
    let request = Groups {
        which: which(&call.query)?,
        open: call.query.flag("open"),
        limit: call.query.number("limit").unwrap_or(USUAL),
        after: call.after()?,
    };
    let GroupPage { items, next } = dead::group_page(&call.floor, &request).await?;
    Reply::json(&Page { items, next: call.next(next) })
}

async fn export(call: Call) -> Result<Reply> {
    let which = which(&call.query)?;
    Ok(Reply::stream("application/jsonl", streams::dead(call.floor, which).await?))
}

/// Lines of an export.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewImport {
    items: Vec<Box<RawValue>>,
}

/// What became of each line, in their order.
#[derive(Serialize)]
struct Became {
    items: Vec<Imported>,
}

async fn import(call: Call) -> Result<Reply> {
    let NewImport { items } = call.body()?;
    if items.is_empty() || items.len() > LINES {
        return Err(Error::wrong(format!("between 1 and {LINES} lines are read in at once")));
    }
    if let Some(at) = items.iter().position(|line| !line.get().starts_with('{')) {
        return Err(Error::wrong(format!("item {} is no line of an export: it is no object", at + 1)));
    }
    let lines: Vec<String> = items.iter().map(|line| line.get().to_owned()).collect();
    let mut import = Import::of(&call.floor, "a request");
    let items = import.lines(&lines).await?;
    import.finish().await?;
    Reply::json(&Became { items })
}

async fn note(call: Call) -> Result<Reply> {
    let words: Note = call.body()?;
    Reply::json(&dead::note(&call.floor, call.text("group"), words).await?)
}

async fn show(call: Call) -> Result<Reply> {
    let name = ItemName { item: call.text("item").to_owned(), run: call.query.one("run")? };
    Reply::json(&items::explain(&call.floor, &name).await?.life)
}
