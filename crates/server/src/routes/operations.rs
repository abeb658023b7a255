//! Operations on many items: start, list, show, stop.

use redrive_core::id::OperationId;
use redrive_operate::Result;
use redrive_operate::operations::{self, Start};

use super::runs::Nothing;
use crate::call::Call;
use crate::reply::Reply;
use crate::route::{Kind, Route, Shape, param};

/// Most operations of a list.
const MOST: usize = 500;
/// Operations of a list where nobody says how many.
const USUAL: usize = 50;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/operations", "Lists operations, newest first.", Shape::Json("operations"), list)
            .query(&[param("limit", Kind::Count(MOST), "at most so many")]),
        Route::post(
            "/v1/operations",
            "Writes down what is to be done to many items, and carries it on in the background; or says what would be done.",
            Shape::Json("started"),
            start,
        )
        .body("new_operation")
        .may_make(),
        Route::get("/v1/operations/{operation}", "Says how far an operation is.", Shape::Json("operation"), show),
        Route::post(
            "/v1/operations/{operation}/stop",
            "Stops an operation after the page it is at.",
            Shape::Json("operation"),
            stop,
        )
        .may_have_body("nothing"),
    ]
}

async fn list(call: Call) -> Result<Reply> {
    let limit = call.query.number("limit").unwrap_or(USUAL);
    Reply::json(&operations::list(&call.floor, limit).await?)
}

async fn start(call: Call) -> Result<Reply> {
    let request: Start = call.body()?;
    let started = operations::start(&call.floor, &request).await?;
    started.operations.iter().for_each(|operation| call.app.carrier.take(operation.id));
    let reply = Reply::json(&started)?;
    Ok(match started.operations.last() {
        None => reply,
        Some(last) => reply.made(format!("/v1/operations/{}", last.id)),
    })
}

async fn show(call: Call) -> Result<Reply> {
    Reply::json(&operations::show(&call.floor, call.part("operation")?).await?)
}

async fn stop(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    let operation: OperationId = call.part("operation")?;
    operations::stop(&call.floor, operation).await?;
    Reply::json(&operations::show(&call.floor, operation).await?)
}
