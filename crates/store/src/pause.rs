//! Pipelines and stages that somebody paused.

use redrive_core::time::Timestamp;
use serde::Serialize;

use crate::run::Operation;

/// A pipeline, or one stage of it, that somebody paused: nothing of it is claimed, in any run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PipelinePause {
    /// The pipeline.
    pub pipeline: String,
    /// The stage; `None`: all of them.
    pub stage: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Who said so last.
    pub actor: String,
    /// Why.
    pub why: String,
}

/// Everything that is paused, as it is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pauses {
    /// The number of the last change, from 0. Whoever claims says which one it knows.
    pub rev: i64,
    /// What is paused, by pipeline and stage; a whole pipeline goes before its stages.
    pub rows: Vec<PipelinePause>,
}

impl Pauses {
    /// What is paused of a pipeline.
    pub fn on<'a>(&'a self, pipeline: &'a str) -> impl Iterator<Item = &'a PipelinePause> {
        self.rows.iter().filter(move |row| row.pipeline == pipeline)
    }

    /// What keeps a stage of a pipeline from being worked on.
    #[must_use]
    pub fn stops(&self, pipeline: &str, stage: &str) -> Option<&PipelinePause> {
        self.rows
            .iter()
            .filter(|row| row.pipeline == pipeline)
            .find(|row| row.stage.as_deref().is_none_or(|paused| paused == stage))
    }

    /// The pipelines that are paused as a whole.
    pub fn pipelines(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter(|row| row.stage.is_none()).map(|row| row.pipeline.as_str())
    }
}

/// Pauses something, or lets it go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseChange {
    /// What is asked.
    pub ask: PauseAsk,
    /// Who asked for what and when, for the record.
    pub by: Operation,
}

/// What is asked of a pipeline or a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseAsk {
    /// To be paused. What is paused already stays so since then, with the words that were said last.
    Pause(PipelinePause),
    /// To go on.
    Resume {
        /// The pipeline.
        pipeline: String,
        /// The stage; `None`: the pipeline as a whole, whatever of its stages is paused by itself.
        stage: Option<String>,
    },
}
