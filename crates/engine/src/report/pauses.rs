//! What somebody paused, as it is told.

use redrive_store::{Pauses, PipelinePause};
use serde::Serialize;

use crate::pause_words::{resumes, said};

/// A pipeline, or a stage of it, that somebody paused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseView {
    /// The pipeline.
    pub pipeline: String,
    /// The stage; `null`: all of them.
    pub stage: Option<String>,
    /// Since when.
    pub since: String,
    /// Who said so.
    pub actor: String,
    /// Why.
    pub why: String,
    /// The command that lets it go on.
    pub resume: String,
}

impl From<&PipelinePause> for PauseView {
    fn from(pause: &PipelinePause) -> Self {
        let PipelinePause { pipeline, stage, since, actor, why } = pause;
        Self {
            pipeline: pipeline.clone(),
            stage: stage.clone(),
            since: since.to_string(),
            actor: actor.clone(),
            why: why.clone(),
            resume: resumes(pipeline, stage.as_deref()),
        }
    }
}

impl PauseView {
    /// What is paused, by whom and why, without the time.
    #[must_use]
    pub fn said(&self) -> String {
        said(&self.pipeline, self.stage.as_deref(), &self.actor, &self.why)
    }
}

/// What is paused of a pipeline.
pub fn pauses_on(pauses: &Pauses, pipeline: &str) -> Vec<PauseView> {
    pauses.on(pipeline).map(PauseView::from).collect()
}
