//! Pipelines of the folder, and items for their standing runs.

use redrive_engine::report::PauseView;
use redrive_operate::pauses::{self, Which};
use redrive_operate::schedules;
use redrive_operate::submit::{self, HandIn, Inbox};
use redrive_operate::{Error, Result, whole};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::runs::given;
use crate::call::Call;
use crate::reply::Reply;
use crate::route::{Route, Shape};

/// Most items of one request.
const MOST_ITEMS: usize = 10_000;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/pipelines",
            "Lists the pipelines of the folder, with how their schedules stand.",
            Shape::Json("pipeline_list"),
            list,
        ),
        Route::post(
            "/v1/pipelines/{pipeline}/items",
            "Hands items to the standing runs of a pipeline; what is known by its key is not admitted twice.",
            Shape::Json("handed_in"),
            hand_in,
        )
        .body("new_items"),
        Route::post(
            "/v1/pipelines/{pipeline}/pause",
            "Pauses a pipeline, or one stage of it, in all its runs.",
            Shape::Json("paused"),
            pause,
        )
        .may_have_body("pause_request"),
        Route::post(
            "/v1/pipelines/{pipeline}/resume",
            "Lets a pipeline, or one stage of it, go on.",
            Shape::Json("paused"),
            resume,
        )
        .may_have_body("resume_request"),
    ]
}

async fn list(call: Call) -> Result<Reply> {
    let mut list = schedules::with_schedules(&call.floor, &call.app.catalog).await?;
    for pipeline in &mut list.items {
        if let Some(name) = &pipeline.name {
            pipeline.paused = pauses::on(&call.floor, name).await?;
        }
    }
    Reply::json(&list)
}

/// What is paused, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseRequest {
    #[serde(default)]
    stage: Option<String>,
    #[serde(default)]
    why: Option<String>,
}

/// What goes on.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeRequest {
    #[serde(default)]
    stage: Option<String>,
}

/// What is paused of a pipeline.
#[derive(Serialize)]
struct Paused {
    pipeline: String,
    paused: Vec<PauseView>,
}

async fn pause(call: Call) -> Result<Reply> {
    let PauseRequest { stage, why } = call.body()?;
    let pipeline = call.text("pipeline").to_owned();
    let given = call.app.catalog.find(&pipeline).ok();
    let which = Which { pipeline: pipeline.clone(), stage };
    let why = why.as_deref().unwrap_or("no reason was given");
    let definition = given.as_ref().map(|pipeline| &pipeline.definition);
    let paused = pauses::pause(&call.floor, &which, why, definition).await?;
    Reply::json(&Paused { pipeline, paused })
}

async fn resume(call: Call) -> Result<Reply> {
    let ResumeRequest { stage } = call.body()?;
    let pipeline = call.text("pipeline").to_owned();
    let given = call.app.catalog.find(&pipeline).ok();
    let which = Which { pipeline: pipeline.clone(), stage };
    let definition = given.as_ref().map(|pipeline| &pipeline.definition);
    let paused = pauses::resume(&call.floor, &which, definition).await?;
    Reply::json(&Paused { pipeline, paused })
}

/// Items that are handed in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItems {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    priority: Option<i32>,
}

async fn hand_in(call: Call) -> Result<Reply> {
    let NewItems { items, category, priority } = call.body()?;
    if items.is_empty() || items.len() > MOST_ITEMS {
        return Err(Error::wrong(format!("between 1 and {MOST_ITEMS} items are handed in at once")));
    }
    let pipeline = (*call.app.catalog.find(call.text("pipeline"))?).clone();
    let request = HandIn { category, priority, keep_passed: false };
    let ready = submit::prepare(&*call.floor.wiring, pipeline, request)?;
    let items = given(&items)?;
    let handed = Inbox::open(&call.floor, ready).items(items).await?;
    Reply::json(&handed)
}
