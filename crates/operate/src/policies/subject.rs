//! Which policy is meant: a preset's name, or the stages of a pipeline file.

use std::path::Path;
use std::time::Duration;

use redrive_core::budget::BudgetSpec;
use redrive_core::gate::GateSpec;
use redrive_core::policy::{Policy, preset, presets};
use redrive_pipeline::{Definition, Problem, StageDef};

use crate::error::{Error, Result};
use crate::pipelines::read_text;

/// A policy and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The preset's name, or the file's.
    pub name: String,
    /// The stage, in a file.
    pub stage: Option<String>,
    /// What it is for, where that is known.
    pub summary: Option<&'static str>,
    /// The policy.
    pub policy: Policy,
    /// How long an item is tried, by the pipeline or the policy. A preset alone has none: it comes with the pipeline.
    pub deadline: Option<Duration>,
    /// The gate its calls pass, where that is known.
    pub gate: Option<AtGate>,
    /// How much failure a run bears; none where that is switched off. A preset alone has what a file has by default.
    pub budget: Option<BudgetSpec>,
}

/// A stage at its gate.
#[derive(Debug, Clone, PartialEq)]
pub struct AtGate {
    /// The gate's name.
    pub name: String,
    /// Its limits.
    pub spec: GateSpec,
    /// Most items of one call.
    pub batch: u32,
    /// Most tokens of one call.
    pub batch_tokens: Option<u64>,
    /// Most calls at once.
    pub concurrency: Option<u32>,
    /// The greatest age of an item.
    pub deadline: Option<Duration>,
}

impl AtGate {
    fn of(definition: &Definition, stage: &StageDef) -> Option<Self> {
        let name = stage.gate_name()?;
        Some(Self {
            spec: definition.gates.get(&name).cloned().unwrap_or_default(),
            name,
            batch: stage.batch,
            batch_tokens: stage.batch_tokens,
            concurrency: Some(stage.concurrency),
            deadline: definition.deadline,
        })
    }
}

impl Subject {
    /// What it is called in headings.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.stage {
            Some(stage) => format!("{}, stage {stage}", self.name),
            None => self.name.clone(),
        }
    }
}

/// What a word names.
pub(super) enum Named {
    /// A preset; it wins over a file of the same name.
    Preset(Box<Subject>),
    /// A pipeline file that was read, and its text.
    File(Box<Definition>, String),
    /// A pipeline file that is wrong.
    Wrong(Vec<Problem>),
}

/// Finds what a word names.
pub(super) fn named(word: &str) -> Result<Named> {
    if let Some(known) = preset(word) {
        return Ok(Named::Preset(Box::new(Subject {
            name: known.name.to_owned(),
            stage: None,
            summary: Some(known.summary),
            policy: known.policy.clone(),
            deadline: known.policy.deadline(),
            gate: None,
            budget: Some(BudgetSpec::default()),
        })));
    }
    let path = Path::new(word);
    if !path.exists() {
        let known = presets().iter().map(|known| known.name).collect::<Vec<_>>().join(", ");
        let message = format!("{word:?} is neither a preset nor a file");
        return Err(Error::wrong(message).hint(format!("presets are {known}")));
    }
    let text = read_text(path)?;
    Ok(match redrive_pipeline::parse(&text, word) {
        Ok(definition) => Named::File(Box::new(definition), text),
        Err(problems) => Named::Wrong(problems),
    })
}

/// The policies that a word and, in a file, a stage name.
pub(super) fn find(word: &str, stage: Option<&str>) -> Result<Vec<Subject>> {
    match (named(word)?, stage) {
        (Named::Preset(subject), None) => Ok(vec![*subject]),
        (Named::Preset(_), Some(_)) => {
            let message = format!("{word} is a preset; --stage chooses among those of a pipeline file");
            Err(Error::wrong(message))
        }
        (Named::Wrong(problems), _) => Err(wrong(problems)),
        (Named::File(definition, _), stage) => of_file(word, &definition, stage),
    }
}

fn of_file(file: &str, definition: &Definition, stage: Option<&str>) -> Result<Vec<Subject>> {
    let wanted = |name: &str| stage.is_none_or(|stage| stage == name);
    let found: Vec<Subject> = definition
        .all_stages()
        .filter(|stage| wanted(&stage.name))
        .map(|stage| Subject {
            name: file.to_owned(),
            stage: Some(stage.name.clone()),
            summary: None,
            policy: stage.retry.clone(),
            // The policy's own counts from the first failure, which here is the beginning.
            deadline: [definition.deadline, stage.retry.deadline()].into_iter().flatten().min(),
            gate: AtGate::of(definition, stage),
            budget: definition.budget.clone(),
        })
        .collect();
    if found.is_empty() {
        let stage = stage.unwrap_or_default();
        let known = definition.all_stages().map(|stage| stage.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(
            Error::wrong(format!("{file} has no stage {stage:?}")).hint(format!("its stages are {known}"))
        );
    }
    Ok(found)
}

/// Everything that is wrong in pipeline files, summed up.
pub(super) fn wrong(problems: Vec<Problem>) -> Error {
    let mut files: Vec<&str> = problems.iter().map(|problem| problem.file.as_str()).collect();
    files.dedup();
    let (n, s) = (problems.len(), if problems.len() == 1 { "" } else { "s" });
    Error::wrong(format!("{n} problem{s} in {}", files.join(", "))).with_problems(problems)
}
