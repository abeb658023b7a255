//! Pipelines of the folder, and items for their standing runs.

use redrive_operate::schedules;
use redrive_operate::submit::{self, HandIn, Inbox};
use redrive_operate::{Error, Result};
use serde::Deserialize;
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
    ]
}

async fn list(call: Call) -> Result<Reply> {
    Reply::json(&schedules::with_schedules(&call.floor, &call.app.catalog).await?)
}

/// Items that are handed in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewItems {
    items: Vec<Box<RawValue>>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default)]
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
