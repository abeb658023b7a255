//! Pipelines and stages: how they stand, pause one, let one go on. A pause is of the pipeline's name, so it holds for all its
//! runs, those that are begun later too.

use std::collections::BTreeMap;

use redrive_engine::admin;
use redrive_engine::report::{PauseView, pauses_on};
use redrive_pipeline::Definition;
use redrive_store::{PipelinePause, RunFilter};
use serde::{Deserialize, Serialize};

use crate::error::{Code, Error, Result};
use crate::pipelines::definition_of;
use crate::{Floor, Role, conflicts};

/// Runs that are looked at for the names of pipelines.
const RUNS: usize = 1_000;
/// Most characters of the words that somebody gives.
const WORDS: usize = 500;

/// Which pipeline, or stage of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    /// The pipeline's name.
    pub pipeline: String,
    /// The stage; `None`: all of them.
    pub stage: Option<String>,
}

/// All pipelines that go on or are paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineStandings {
    /// Each of them, by name.
    pub pipelines: Vec<PipelineStanding>,
}

/// How a pipeline stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelineStanding {
    /// Its name.
    pub name: String,
    /// Its stages, as its newest run has them; those below another one come after it.
    pub stages: Vec<String>,
    /// How many of its runs are not finished.
    pub unfinished: u64,
    /// What is paused of it.
    pub paused: Vec<PauseView>,
    /// Why its standing run cannot take over what a daemon has in its folder; `null` where nothing is wrong.
    pub problem: Option<String>,
}

/// Lists the pipelines that have unfinished runs, and those of which something is paused.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor) -> Result<PipelineStandings> {
    let unfinished = RunFilter { unfinished: true, ..RunFilter::default() };
    let mut runs: BTreeMap<String, (u64, Vec<String>)> = BTreeMap::new();
    // Newest first: the first of a name says which stages it has.
    for row in floor.store.runs(unfinished, None, RUNS).await? {
        let known = runs.entry(row.spec.pipeline.clone()).or_default();
        known.0 += 1;
        if known.1.is_empty() {
            known.1 = definition_of(&row).map(|definition| stages(&definition)).unwrap_or_default();
        }
    }
    let pauses = floor.store.pauses().await?;
    for row in &pauses.rows {
        if !runs.contains_key(&row.pipeline) {
            let definition = newest(floor, &row.pipeline).await?;
            let stages = definition.map(|definition| stages(&definition)).unwrap_or_default();
            runs.insert(row.pipeline.clone(), (0, stages));
        }
    }
    let mut problems = conflicts::known(floor).await?;
    let pipelines = runs.into_iter().map(|(name, (unfinished, stages))| {
        let paused = pauses_on(&pauses, &name);
        let problem = problems.remove(&name);
        PipelineStanding { name, stages, unfinished, paused, problem }
    });
    Ok(PipelineStandings { pipelines: pipelines.collect() })
}

/// What is paused of a pipeline.
///
/// # Errors
/// When the store fails.
pub async fn on(floor: &Floor, pipeline: &str) -> Result<Vec<PauseView>> {
    Ok(pauses_on(&floor.store.pauses().await?, pipeline))
}

/// Pauses a pipeline, or a stage of it: what runs is finished, nothing more of it is claimed, whoever works. Said twice, the
/// last words stand; without words, those that were given before. `given` is the pipeline where it need not have a run yet.
///
/// # Errors
/// When there is no such pipeline or stage, or the store fails.
pub async fn pause(
    floor: &Floor,
    which: &Which,
    why: &str,
    given: Option<&Definition>,
) -> Result<Vec<PauseView>> {
    floor.require(Role::Operator)?;
    let Which { pipeline, stage } = which;
    let known = match given {
        Some(definition) => Some(definition.clone()),
        None => newest(floor, pipeline).await?,
    };
    let Some(definition) = known else { return Err(unknown(floor, pipeline).await?) };
    if let Some(stage) = stage
        && !definition.all_stages().any(|known| known.name == *stage)
    {
        return Err(Error::not_found(format!("pipeline {pipeline} has no stage {stage:?}"))
            .hint(format!("its stages are {}", stages(&definition).join(", "))));
    }
    let why = redrive_core::redact::clean(why.as_bytes(), WORDS);
    let paused = floor.store.pauses().await?.rows;
    if why.is_empty() && paused.iter().any(|row| row.pipeline == *pipeline && row.stage == *stage) {
        return on(floor, pipeline).await;
    }
    let pause = PipelinePause {
        pipeline: pipeline.clone(),
        stage: stage.clone(),
        since: floor.now(),
        actor: floor.asker.name.clone(),
        why,
    };
    admin::pause_pipeline(&*floor.store, pause).await?;
    on(floor, pipeline).await
}

/// Lets a pipeline go on that was paused as a whole, or one stage of it, and tells what is still paused. One that is not paused
/// stays as it is.
///
/// # Errors
/// When there is no such pipeline, or the store fails.
pub async fn resume(floor: &Floor, which: &Which, given: Option<&Definition>) -> Result<Vec<PauseView>> {
    floor.require(Role::Operator)?;
    let Which { pipeline, stage } = which;
    let (actor, now) = (&floor.asker.name, floor.now());
    let known = given.is_some() || newest(floor, pipeline).await?.is_some();
    let paused = on(floor, pipeline).await?;
    if !known && paused.is_empty() {
        return Err(unknown(floor, pipeline).await?);
    }
    admin::resume_pipeline(&*floor.store, pipeline, stage.as_deref(), actor, now).await?;
    on(floor, pipeline).await
}

/// The pipeline of the newest run of this name that this version can read.
async fn newest(floor: &Floor, pipeline: &str) -> Result<Option<Definition>> {
    let of_name = RunFilter { pipeline: Some(pipeline.to_owned()), ..RunFilter::default() };
    Ok(floor.store.runs(of_name, None, RUNS).await?.iter().find_map(definition_of))
}

fn stages(definition: &Definition) -> Vec<String> {
    definition.all_stages().map(|stage| stage.name.clone()).collect()
}

async fn unknown(floor: &Floor, pipeline: &str) -> Result<Error> {
    let mut names: Vec<String> = floor
        .store
        .runs(RunFilter::default(), None, RUNS)
        .await?
        .into_iter()
        .map(|row| row.spec.pipeline)
        .collect();
    names.sort_unstable();
    names.dedup();
    let known = if names.is_empty() { "there are no runs yet".to_owned() } else { names.join(", ") };
    Ok(Error::not_found(format!("no run is of a pipeline {pipeline:?}"))
        .code(Code::PipelineNotFound)
        .hint(format!("known pipelines: {known}")))
}
