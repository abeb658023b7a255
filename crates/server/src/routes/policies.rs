//! Retry policies: timelines, what to expect of them, and what is odd about them.

use std::time::Duration;

use redrive_operate::policies::{self, Show, Shown, Simulate, Through};
use redrive_operate::{Error, Result};

use crate::call::Call;
use crate::pages::Page;
use crate::reply::Reply;
use crate::route::{Kind, Param, Route, Shape, param};

/// Most attempts of a timeline, and as many as are shown where nobody says how many.
const MOST_ATTEMPTS: usize = 1_000;
const USUAL_ATTEMPTS: usize = 10;
/// Items that a simulation expects where nobody says how many, and the most of them.
const USUAL_ITEMS: u64 = 1_000;
const MOST_ITEMS: usize = 1_000_000_000;
/// Most of a limit that a simulation is told.
const MOST: usize = 1_000_000_000;

const STAGE: Param = param("stage", Kind::Text, "only this stage of the pipeline");
const ATTEMPTS: Param = param("attempts", Kind::Count(MOST_ATTEMPTS), "so many attempts");

pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/v1/policies",
            "Lists the retry policies that have names.",
            Shape::Json("preset_page"),
            list,
        ),
        Route::get(
            "/v1/policies/{policy}",
            "Shows a retry policy, or those of a pipeline of the folder, as timelines.",
            Shape::Json("shown"),
            show,
        )
        .query(&[STAGE, ATTEMPTS]),
        Route::get(
            "/v1/policies/{policy}/simulate",
            "Says how many calls a policy makes, how many items die of it, and how long gates take for them.",
            Shape::Json("shown"),
            simulate,
        )
        .query(&[
            STAGE,
            ATTEMPTS,
            param("failure_rate", Kind::Share, "so many of all attempts fail; none where nobody says"),
            param("items", Kind::Count(MOST_ITEMS), "so many items; 1,000 where nobody says"),
            param("requests_per_minute", Kind::Count(MOST), "the gate lets so many requests pass"),
            param("tokens_per_minute", Kind::Count(MOST), "the gate lets so many tokens pass"),
            param("tokens_per_item", Kind::Count(MOST), "an item has so many tokens"),
            param("batch", Kind::Count(100_000), "a call has so many items"),
            param("latency", Kind::Number, "a call takes so many milliseconds"),
            param("concurrency", Kind::Count(100_000), "so many calls at once"),
        ]),
        Route::get(
            "/v1/policies/{policy}/lint",
            "Says what a policy, or a pipeline of the folder, cannot do that it seems to promise.",
            Shape::Json("lint"),
            lint,
        ),
    ]
}

async fn list(_call: Call) -> Result<Reply> {
    Reply::json(&Page::only(policies::list().presets))
}

/// What the floor knows a policy by: a preset's name, or the file of a pipeline. The floor would take any file.
fn word(call: &Call) -> Result<String> {
    let name = call.text("policy");
    if policies::list().presets.iter().any(|preset| preset.name == name) {
        return Ok(name.to_owned());
    }
    call.app.catalog.find(name).map(|pipeline| pipeline.file.clone()).map_err(|_| {
        Error::not_found(format!("there is no policy and no pipeline {name:?}"))
            .hint("GET /v1/policies and GET /v1/pipelines list them")
    })
}

fn asked(call: &Call) -> Result<Show> {
    let attempts = call.query.number("attempts").unwrap_or(USUAL_ATTEMPTS);
    Ok(Show { policy: word(call)?, stage: call.query.text("stage"), attempts })
}

/// A pipeline is called by its name here, not by where its file is.
fn named(call: &Call, mut shown: Shown) -> Result<Reply> {
    let name = call.text("policy");
    name.clone_into(&mut shown.source);
    shown.policies.iter_mut().for_each(|view| name.clone_into(&mut view.subject.name));
    Reply::json(&shown)
}

async fn show(call: Call) -> Result<Reply> {
    named(&call, policies::show(&asked(&call)?)?)
}

async fn simulate(call: Call) -> Result<Reply> {
    let query = &call.query;
    let through = Through {
        requests_per_minute: query.number("requests_per_minute"),
        tokens_per_minute: query.number("tokens_per_minute"),
        tokens_per_item: query.number("tokens_per_item"),
        batch: query.number("batch"),
        latency: query.number("latency").map(Duration::from_millis),
        concurrency: query.number("concurrency"),
    };
    let request = Simulate {
        show: asked(&call)?,
        failure_rate: query.number("failure_rate").unwrap_or(0.0),
        items: query.number("items").unwrap_or(USUAL_ITEMS),
        through,
    };
    named(&call, policies::simulate(&request)?)
}

async fn lint(call: Call) -> Result<Reply> {
    let mut report = policies::lint(&*call.floor.wiring, &[word(&call)?])?;
    let name = call.text("policy");
    report.checked = vec![name.to_owned()];
    report.warnings.iter_mut().chain(&mut report.notes).for_each(|found| name.clone_into(&mut found.source));
    Reply::json(&report)
}
