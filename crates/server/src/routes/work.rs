//! External workers: they claim work, prolong their leases, and say what became of it.

use redrive_operate::{Result, Role, external};

use crate::call::Call;
use crate::reply::Reply;
use crate::route::{Route, Shape};

pub fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/v1/work/claim",
            "Waits for a batch of an external stage and takes it, under a lease.",
            Shape::Json("claimed_work"),
            claim,
        )
        .body("work_claim")
        .least(Role::Worker)
        .waits(),
        Route::post("/v1/work/heartbeat", "Prolongs a lease.", Shape::Json("lease"), heartbeat)
            .body("work_heartbeat")
            .least(Role::Worker),
        Route::post(
            "/v1/work/complete",
            "Takes results of a batch; the answer to the last comes when they are kept.",
            Shape::Json("work_heard"),
            complete,
        )
        .body("work_results")
        .least(Role::Worker),
        Route::post(
            "/v1/work/fail",
            "Takes that everything of a batch that has no result yet failed.",
            Shape::Json("work_heard"),
            fail,
        )
        .body("work_failure")
        .least(Role::Worker),
    ]
}

async fn claim(call: Call) -> Result<Reply> {
    Reply::json(&external::claim(&call.floor, call.body()?).await?)
}

async fn heartbeat(call: Call) -> Result<Reply> {
    Reply::json(&external::heartbeat(&call.floor, &call.body()?)?)
}

async fn complete(call: Call) -> Result<Reply> {
    Reply::json(&external::complete(&call.floor, call.body()?).await?)
}

async fn fail(call: Call) -> Result<Reply> {
    Reply::json(&external::fail(&call.floor, call.body()?).await?)
}
