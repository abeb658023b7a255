//! Runs: list, begin, show, pause, resume, cancel, results.

use std::path::PathBuf;
use std::sync::Arc;

use axum::http::StatusCode;
use redrive_core::id::RunId;
use redrive_operate::pipelines::Pipeline;
use redrive_operate::results::Asked;
use redrive_operate::runs::{self, Begin, List};
use redrive_operate::sources::SourceName;
use redrive_operate::submit::{self, Given};
use redrive_operate::{Error, Result, Role, whole};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::gates::Because;
use crate::call::Call;
use crate::pages::{AFTER, Page};
use crate::reply::Reply;
use crate::route::{Kind, Route, Shape, param};
use crate::streams;

/// Most runs of a page.
const MOST: usize = 200;
/// Runs of a page where nobody says how many.
const USUAL: usize = 50;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/runs", "Lists runs, newest first.", Shape::Json("run_page"), list).query(&[
            param(
                "status",
                Kind::Schema("status"),
                "only runs that stand like one of these, parted by commas",
            ),
            param("pipeline", Kind::Text, "only runs of this pipeline"),
            param(
                "since",
                Kind::Number,
                "only runs that are unfinished, or finished within so many milliseconds",
            ),
            param("limit", Kind::Count(MOST), "at most so many"),
            AFTER,
        ]),
        Route::post(
            "/v1/runs",
            "Begins a run of a pipeline of the folder, or of one that is sent, over a source or given items.",
            Shape::Json("begun_run"),
            begin,
        )
        .body("new_run")
        .may_make(),
        Route::get("/v1/runs/{run}", "Says how a run stands.", Shape::Json("run_report"), show),
        Route::post("/v1/runs/{run}/pause", "Stops a run for now.", Shape::Json("run_report"), pause)
            .may_have_body("because"),
        Route::post("/v1/runs/{run}/resume", "Lets a run go on.", Shape::Json("run_report"), resume)
            .may_have_body("nothing"),
        Route::post(
            "/v1/runs/{run}/close",
            "Has a standing run take nothing more.",
            Shape::Json("run_report"),
            close,
        )
        .may_have_body("nothing"),
        Route::post("/v1/runs/{run}/cancel", "Takes a run out for good.", Shape::Json("run_report"), cancel)
            .may_have_body("nothing"),
        Route::get(
            "/v1/runs/{run}/results",
            "Gives what became of a run's items, as JSON Lines.",
            Shape::Lines("result_line"),
            results,
        )
        .query(&[
            param("stage", Kind::Text, "what this stage made of the items that passed it"),
            param("verdict", Kind::Schema("verdict"), "only of items that succeeded with this verdict"),
        ]),
    ]
}

async fn list(call: Call) -> Result<Reply> {
    let limit = call.query.number("limit").unwrap_or(USUAL);
    let request = List {
        pipeline: call.query.text("pipeline"),
        status: call.query.several("status")?,
        within_ms: call.query.number("since"),
        // One more tells whether there is another page.
        limit: limit + 1,
        before: call.after_id()?,
    };
    let mut items = runs::list(&call.floor, &request).await?.runs;
    let more = items.len() > limit;
    items.truncate(limit);
    let next = call.next(items.last().map(|run| run.run).filter(|_| more));
    Reply::json(&Page { items, next })
}

/// What a run is begun with.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRun {
    pipeline: String,
    #[serde(default)]
    input: Option<Input>,
    #[serde(default)]
    items: Option<Vec<Box<RawValue>>>,
    #[serde(default)]
    category: Option<String>,
    #[serde(default, deserialize_with = "whole::optional")]
    priority: Option<i32>,
    #[serde(default)]
    new: bool,
}

/// One path or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Input {
    One(String),
    Several(Vec<String>),
}

/// Items that are given, each `{"key", "payload", "category"}`.
///
/// # Errors
/// When one of them is not.
pub fn given(items: &[Box<RawValue>]) -> Result<Vec<Given>> {
    let mut read = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let given = Given::from_envelope(item.get().as_bytes());
        read.push(given.map_err(|why| Error::wrong(format!("item {} {why}", at + 1)))?);
    }
    Ok(read)
}

async fn begin(call: Call) -> Result<Reply> {
    let NewRun { pipeline, input, items, category, priority, new } = call.body()?;
    let pipeline = pipeline_of(&call, pipeline)?;
    let request = Begin { new, keep_passed: false, category, priority };
    if let Some(items) = items {
        if input.is_some() {
            return Err(Error::wrong("a run has `input` or `items`, not both"));
        }
        let items = given(&items)?;
        let begun = submit::run_of_items(&call.floor, pipeline, items, request).await?;
        return at_run(&begun, begun.run, begun.created);
    }
    let input = match input {
        None => Vec::new(),
        Some(Input::One(path)) => vec![path],
        Some(Input::Several(paths)) => paths,
    };
    let input = confined(&call, input)?;
    let source = SourceName::find(&pipeline.definition, &input, &pipeline.folder)?;
    if source.is_read_once() && !source.is_inbox() {
        return Err(Error::wrong("a source that can be read once only is not read here")
            .hint("send the items with the request, as `items`"));
    }
    let prepared = runs::prepare(&*call.floor.wiring, pipeline, source)?;
    let begun = submit::run(&call.floor, prepared, request).await?;
    at_run(&begun, begun.run, begun.created)
}

/// An answer that says where the run is, and whether it was made or was there.
fn at_run(begun: &impl Serialize, run: RunId, created: bool) -> Result<Reply> {
    let reply = Reply::json(begun)?.made(format!("/v1/runs/{run}"));
    Ok(if created { reply } else { reply.with_status(StatusCode::OK) })
}

/// A pipeline of the folder by its name, or a text that an administrator sends.
fn pipeline_of(call: &Call, named: String) -> Result<Pipeline> {
    if !named.contains(['\n', '=']) {
        return Ok(Arc::unwrap_or_clone(call.app.catalog.find(&named)?));
    }
    // It may name any variable of the environment, and calls addresses outside: that reaches beyond the store.
    call.floor.require(Role::Admin)?;
    let folder = match call.app.catalog.folder() {
        Some(folder) => folder.to_owned(),
        None => std::env::current_dir()?,
    };
    Pipeline::sent(&*call.floor.wiring, &named, std::fs::canonicalize(folder)?)
}

/// What whoever is no administrator has read is in the folder of pipelines: the daemon may be able to read much more. What
/// a pipeline of the folder names itself is its own affair.
fn confined(call: &Call, input: Vec<String>) -> Result<Vec<String>> {
    let base = call.app.catalog.folder().and_then(|base| std::fs::canonicalize(base).ok());
    let placed = input.iter().map(|path| base.as_ref().map_or_else(|| path.into(), |base| base.join(path)));
    let paths: Vec<PathBuf> = placed.collect();
    let inside = |path: &PathBuf| {
        let path = std::fs::canonicalize(path);
        path.is_ok_and(|path| base.as_ref().is_some_and(|base| path.starts_with(base)))
    };
    if call.floor.asker.role < Role::Admin && !paths.iter().all(inside) {
        let message = "only an administrator names sources outside the folder of pipelines";
        return Err(Error::forbidden(message).hint("send the items with the request, as `items`"));
    }
    Ok(paths.iter().map(|path| path.display().to_string()).collect())
}

async fn show(call: Call) -> Result<Reply> {
    Reply::json(&runs::show(&call.floor, Some(call.part("run")?)).await?)
}

/// A body that says nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

async fn pause(call: Call) -> Result<Reply> {
    let because: Because = call.body()?;
    Reply::json(&runs::pause(&call.floor, call.part("run")?, &because.words("")).await?)
}

async fn resume(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    Reply::json(&runs::let_go_on(&call.floor, call.part("run")?).await?)
}

async fn close(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    Reply::json(&submit::close(&call.floor, call.part("run")?).await?.report)
}

async fn cancel(call: Call) -> Result<Reply> {
    let Nothing {} = call.body()?;
    Reply::json(&runs::cancel(&call.floor, call.part("run")?).await?)
}

async fn results(call: Call) -> Result<Reply> {
    let asked = Asked {
        run: Some(call.part("run")?),
        stage: call.query.text("stage"),
        verdict: call.query.one("verdict")?,
    };
    Ok(Reply::stream("application/jsonl", streams::results(call.floor, asked).await?))
}
