//! Answers of items that were handed over.

use redrive_operate::{Result, Role, answers};
use serde_json::value::RawValue;

use crate::call::Call;
use crate::reply::Reply;
use crate::route::{Route, Shape};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/answers/{token}",
            "Takes the answer of an item that was handed over. One that comes too late changes nothing, and is told so.",
            Shape::Json("answer_taken"),
            take_one,
        )
        .body("answer_result")
        .least(Role::Worker),
        Route::post(
            "/v1/answers",
            "Takes answers of many items that were handed over, and tells what became of each.",
            Shape::Json("answers_taken"),
            take,
        )
        .body("answers")
        .least(Role::Worker),
    ]
}

async fn take_one(call: Call) -> Result<Reply> {
    let result: Box<RawValue> = call.body()?;
    Reply::json(&answers::take_one(&call.floor, call.text("token").to_owned(), result).await?)
}

async fn take(call: Call) -> Result<Reply> {
    Reply::json(&answers::take(&call.floor, call.body()?).await?)
}
