//! Whether the process lives, what it answers, and what changes.

use axum::http::StatusCode;
use redrive_operate::{Floor, Result, bus, monitor};
use redrive_store::OutboxView;
use serde::Serialize;

use crate::call::Call;
use crate::events::follow;
use crate::limits;
use crate::reply::{EVENTS, Reply};
use crate::route::{Route, Shape};

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/healthz", "Says that the process lives.", Shape::Json("health"), health).for_anybody(),
        Route::get(
            "/readyz",
            "Says whether the store answers and can be written, somebody works here (or nobody is to) and the process is not told to stop.",
            Shape::Json("readiness"),
            ready,
        )
        .for_anybody(),
        Route::get("/metrics", "Tells all metrics, as Prometheus reads them.", Shape::Metrics, metrics),
        Route::get("/v1/openapi.json", "Describes every route.", Shape::AnyJson, document),
        Route::get(
            "/v1/events",
            "Tells by server-sent events which of runs, gates, dead and operations to look at again.",
            Shape::Events,
            events,
        ),
    ]
}

#[derive(Serialize)]
struct Health {
    status: &'static str,
}

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    store: bool,
    writes: bool,
    workers: bool,
    draining: bool,
    /// Whether every file of the folder of pipelines is in force as it is. One that is broken keeps nobody from handing work to others.
    pipelines: bool,
    /// Whether facts for the bus are passed on: none waits for more than ten minutes. It keeps nobody from handing work over.
    facts: bool,
}

async fn health(_call: Call) -> Result<Reply> {
    Reply::json(&Health { status: "alive" })
}

async fn ready(call: Call) -> Result<Reply> {
    let Call { app, .. } = call;
    let outbox = tokio::select! {
        outbox = outbox(&app.floor) => outbox,
        () = app.floor.env.clock.sleep(limits::READY_WITHIN) => None,
    };
    let store = outbox.is_some();
    let facts = outbox.is_some_and(|outbox| !bus::are_late(&outbox, app.floor.now()));
    let (writes, workers, draining) = (app.writes.go_well(), app.is_working(), app.is_draining());
    let ready = store && writes && (workers || app.only_answers) && !draining;
    let pipelines = !app.catalog.has_problems();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Reply::json(&Readiness { ready, store, writes, workers, draining, pipelines, facts })?
        .with_status(status))
}

/// What waits to be told; `None` where the store does not answer.
async fn outbox(floor: &Floor) -> Option<OutboxView> {
    floor.store.stamp().await.ok()?;
    floor.store.outbox(0).await.ok()
}

async fn metrics(call: Call) -> Result<Reply> {
    Ok(Reply::text(monitor::CONTENT_TYPE, monitor::metrics(&call.floor, &call.app.catalog.in_force()).await?))
}

async fn document(call: Call) -> Result<Reply> {
    Reply::json(&call.app.document)
}

async fn events(call: Call) -> Result<Reply> {
    Ok(Reply::stream(EVENTS, follow(&call.app, call.bearer, call.last_event.as_deref())?))
}
