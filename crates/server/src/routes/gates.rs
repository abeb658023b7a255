//! Gates: how they stand, and an operator's word to one; workers.

use redrive_operate::{Result, gates, work};
use serde::Deserialize;

use super::runs::Nothing;
use crate::call::Call;
use crate::pages::Page;
use crate::reply::Reply;
use crate::route::{Route, Shape};

/// Most characters of what is said why something is done.
const WORDS: usize = 500;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/gates", "Says how the gates stand.", Shape::Json("gate_page"), list),
        Route::post("/v1/gates/{gate}/pause", "Pauses a gate.", Shape::Json("gate_page"), pause)
            .may_have_body("because"),
        Route::post("/v1/gates/{gate}/resume", "Lets a gate go on.", Shape::Json("gate_page"), resume)
            .may_have_body("nothing"),
        Route::post(
            "/v1/gates/{gate}/reset",
            "Has a gate forget what was found out about it.",
            Shape::Json("gate_page"),
            reset,
        )
        .may_have_body("nothing"),
        Route::get("/v1/workers", "Lists who works on runs.", Shape::Json("worker_list"), workers),
    ]
}

/// Why something is done.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Because {
    #[serde(default)]
    why: Option<String>,
}

impl Because {
    /// The words that were given, or these; no more of them than are shown.
    pub fn words(&self, otherwise: &str) -> String {
        self.why.as_deref().unwrap_or(otherwise).chars().take(WORDS).collect()
    }
}

async fn list(call: Call) -> Result<Reply> {
    Reply::json(&Page::only(gates::list(&call.floor).await?.gates))
}

async fn pause(call: Call) -> Result<Reply> {
    let because: Because = call.body()?;
    gates::pause(&call.floor, call.text("gate"), &because.words("paused by an operator")).await?;
    list(call).await
}

async fn resume(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    gates::resume(&call.floor, Some(call.text("gate").to_owned())).await?;
    list(call).await
}

async fn reset(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    gates::reset(&call.floor, call.text("gate")).await?;
    list(call).await
}

async fn workers(call: Call) -> Result<Reply> {
    Reply::json(&work::workers(&call.floor).await?)
}
