//! Items: list, show, explain, give up, and their contents.

use redrive_core::id::RunId;
use redrive_operate::dead::Which;
use redrive_operate::items::{self, ItemName, List};
use redrive_operate::{Result, runs};

use super::gates::Because;
use crate::call::Call;
use crate::pages::{AFTER, Page};
use crate::reply::Reply;
use crate::route::{Kind, Param, Route, Shape, param};

/// Most items of a page.
const MOST: usize = 500;
/// Items of a page where nobody says how many.
const USUAL: usize = 100;
/// Only in one run.
const IN_RUN: &[Param] = &[param("run", Kind::Schema("run"), "only in this run")];

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs/{run}/items", "Lists the items of a run.", Shape::Json("item_list"), list)
            .query(&[
                param("state", Kind::Schema("state"), "in this state"),
                param("verdict", Kind::Schema("verdict"), "succeeded with this verdict"),
                param("stage", Kind::Text, "at this stage"),
                param("text", Kind::Text, "whose key or last failure contains this"),
                param("children", Kind::Flag, "those that came from others, too"),
                AFTER,
                param("limit", Kind::Count(MOST), "at most so many"),
            ]),
        Route::get("/v1/items/{item}", "Shows one item, by its id or key.", Shape::Json("item"), show)
            .query(IN_RUN),
        Route::get(
            "/v1/items/{item}/explain",
            "Tells one item's life, with its newest attempts.",
            Shape::Json("life"),
            explain,
        )
        .query(IN_RUN),
        Route::get(
            "/v1/items/{item}/attempts",
            "Lists one item's attempts, newest first.",
            Shape::Json("attempt_page"),
            attempts,
        )
        .query(&[IN_RUN[0], param("limit", Kind::Count(MOST), "at most so many"), AFTER]),
        Route::post(
            "/v1/items/{item}/kill",
            "Gives one item up: it is dead, with these words, and can be redriven.",
            Shape::Json("life"),
            kill,
        )
        .may_have_body("because")
        .query(IN_RUN),
        Route::get("/v1/items/{item}/payload", "Gives one item's content.", Shape::AnyJson, payload)
            .query(IN_RUN),
    ]
}

async fn list(call: Call) -> Result<Reply> {
    let run: RunId = call.part("run")?;
    // A run that does not exist is told even where nothing is asked of its stages.
    runs::show(&call.floor, Some(run)).await?;
    let which = Which {
        run: Some(run),
        stage: call.query.text("stage"),
        text: call.query.text("text"),
        ..Which::default()
    };
    let request = List {
        which,
        state: call.query.one("state")?,
        verdict: call.query.one("verdict")?,
        children: call.query.flag("children"),
        limit: call.query.number("limit").unwrap_or(USUAL),
        after: call.after()?,
    };
    let items::ItemList { items, next } = items::list(&call.floor, &request).await?;
    Reply::json(&Page { items, next: call.next(next) })
}

fn name(call: &Call) -> Result<ItemName> {
    Ok(ItemName { item: call.text("item").to_owned(), run: call.query.one("run")? })
}

async fn show(call: Call) -> Result<Reply> {
    Reply::json(&items::show(&call.floor, &name(&call)?).await?)
}

async fn explain(call: Call) -> Result<Reply> {
    Reply::json(&items::explain(&call.floor, &name(&call)?).await?.life)
}

async fn kill(call: Call) -> Result<Reply> {
    let because: Because = call.body()?;
    let words = because.words("given up by an operator");
    Reply::json(&items::kill(&call.floor, &name(&call)?, &words).await?)
}

async fn attempts(call: Call) -> Result<Reply> {
    let (after, limit) = (call.after()?, call.query.number("limit").unwrap_or(USUAL));
    let found = items::attempts(&call.floor, &name(&call)?, after.as_deref(), limit).await?;
    Reply::json(&Page { items: found.items, next: call.next(found.next) })
}

async fn payload(call: Call) -> Result<Reply> {
    Reply::json(&items::payload(&call.floor, &name(&call)?).await?)
}
