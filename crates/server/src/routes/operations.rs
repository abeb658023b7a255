//! Operations on many items: freeze, start, list, show, their items, stop.

use redrive_core::id::OperationId;
use redrive_operate::Result;
use redrive_operate::operations::{self, ItemsOf, OperationList, Start};

use super::runs::Nothing;
use crate::call::Call;
use crate::pages::{AFTER, Page};
use crate::reply::Reply;
use crate::route::{Kind, Route, Shape, param};

/// Most operations of a list.
const MOST: usize = 500;
/// Operations of a list where nobody says how many.
const USUAL: usize = 50;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/operations", "Lists operations, newest first.", Shape::Json("operation_page"), list)
            .query(&[param("limit", Kind::Count(MOST), "at most so many"), AFTER]),
        Route::post(
            "/v1/operations",
            "Writes down what is to be done to many items, and carries it on in the background; or freezes the items and says what would be done.",
            Shape::Json("started"),
            start,
        )
        .body("new_operation")
        .may_make(),
        Route::get("/v1/operations/{operation}", "Says how far an operation is.", Shape::Json("operation"), show),
        Route::get(
            "/v1/operations/{operation}/items",
            "Lists the items of an operation, and what became of each.",
            Shape::Json("operation_items"),
            items,
        )
        .query(&[
            param("outcome", Kind::Schema("outcome_of_item"), "only those that came to this"),
            param("limit", Kind::Count(MOST), "at most so many"),
            AFTER,
        ]),
        Route::post(
            "/v1/operations/{operation}/start",
            "Starts an operation that a dry run has frozen: exactly the items that were seen, as far as they are still so.",
            Shape::Json("operation"),
            start_frozen,
        )
        .may_have_body("nothing"),
        Route::post(
            "/v1/operations/{operation}/stop",
            "Stops an operation after the page it is at; what can be undone is undone by it.",
            Shape::Json("operation"),
            stop,
        )
        .may_have_body("nothing"),
    ]
}

async fn list(call: Call) -> Result<Reply> {
    let limit = call.query.number("limit").unwrap_or(USUAL);
    let OperationList { operations, next } = operations::page(&call.floor, call.after_id()?, limit).await?;
    Reply::json(&Page { items: operations, next: call.next(next) })
}

async fn start(call: Call) -> Result<Reply> {
    let request: Start = call.body()?;
    let started = operations::start(&call.floor, &request).await?;
    if !started.dry_run {
        started.operations.iter().for_each(|operation| call.app.carrier.take(operation.id));
    }
    let reply = Reply::json(&started)?;
    Ok(match started.operations.last() {
        None => reply,
        Some(last) => reply.made(format!("/v1/operations/{}", last.id)),
    })
}

async fn show(call: Call) -> Result<Reply> {
    Reply::json(&operations::show(&call.floor, call.part("operation")?).await?)
}

async fn items(call: Call) -> Result<Reply> {
    let asked = ItemsOf {
        outcome: call.query.one("outcome")?,
        limit: call.query.number("limit").unwrap_or(USUAL),
        after: call.after()?,
    };
    let found = operations::items(&call.floor, call.part("operation")?, &asked).await?;
    Reply::json(&Page { items: found.items, next: call.next(found.next) })
}

async fn start_frozen(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    let operation: OperationId = call.part("operation")?;
    let started = operations::start_frozen(&call.floor, operation).await?;
    call.app.carrier.take(operation);
    Reply::json(&started)
}

async fn stop(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    let operation: OperationId = call.part("operation")?;
    Reply::json(&operations::stop(&call.floor, operation).await?)
}
