//! Pipelines and stages are paused, and let go on.

use redrive_core::id::OperationId;
use redrive_core::time::Timestamp;
use redrive_store::{Operation, OperationState, PauseAsk, PauseChange, PipelinePause, Result, Store};

use super::Request;
use crate::journal;

/// Pauses a pipeline, or one stage of it: what runs is finished, and nothing more of it is claimed in any run, by whoever.
/// `false` when that was said already.
///
/// # Errors
/// When the store fails.
pub async fn pause_pipeline(store: &dyn Store, pause: PipelinePause) -> Result<bool> {
    let PipelinePause { pipeline, stage, since, actor, why } = pause.clone();
    let request = Request::Pause { pipeline, stage, why };
    let by = record(&request, &actor, since)?;
    let changed = store.change_pause(PauseChange { ask: PauseAsk::Pause(pause.clone()), by }).await?;
    if changed {
        journal::pipeline_paused(&pause);
    }
    Ok(changed)
}

/// Lets a pipeline that was paused as a whole go on, or one stage of it. `false` when it was not paused.
///
/// # Errors
/// When the store fails.
pub async fn resume_pipeline(
    store: &dyn Store,
    pipeline: &str,
    stage: Option<&str>,
    actor: &str,
    now: Timestamp,
) -> Result<bool> {
    let (pipeline, stage) = (pipeline.to_owned(), stage.map(str::to_owned));
    let request = Request::Resume { pipeline: pipeline.clone(), stage: stage.clone() };
    let by = record(&request, actor, now)?;
    let ask = PauseAsk::Resume { pipeline: pipeline.clone(), stage: stage.clone() };
    let changed = store.change_pause(PauseChange { ask, by }).await?;
    if changed {
        journal::pipeline_resumed(&pipeline, stage.as_deref(), actor);
    }
    Ok(changed)
}

/// What is kept of who said so: an operation that is done.
pub(super) fn record(request: &Request, actor: &str, now: Timestamp) -> Result<Operation> {
    Ok(Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: OperationState::Done,
        actor: actor.to_owned(),
        request: request.written()?,
        after: None,
        changed: 0,
        skipped: 0,
        created_at: now,
        updated_at: now,
    })
}
