//! What policies and gates cannot do that they seem to promise.
//!
//! Warnings are data and no failure: a policy that is odd may be meant. The lease is not held
//! against a timeout: a worker renews it as long as it lives, however long a call takes.

use std::time::Duration;

use redrive_core::gate::Passing;
use redrive_core::policy::{self, LintContext, Policy, presets};
use redrive_pipeline::{Definition, Problem, StageDef, StageKind};
use serde::Serialize;

use super::forecast;
use super::subject::{Named, Subject, named, wrong};
use crate::Wiring;
use crate::error::Result;
use crate::lines::Lines;
use crate::pipelines::{with_paths, wrong_expressions};

/// What a pipeline file has unless it says otherwise; presets are looked at within it.
const USUAL: LintContext = LintContext {
    timeout: Some(Duration::from_secs(60)),
    lease: None,
    deadline: Some(Duration::from_secs(24 * 3_600)),
    budget: None,
    waits_given: false,
};

/// What was looked at, and what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LintReport {
    /// Whether nothing is.
    pub clean: bool,
    /// The presets and files that were looked at.
    pub checked: Vec<String>,
    /// What is odd.
    pub warnings: Vec<Warning>,
    /// What is as it was written, and yet easily overlooked.
    pub notes: Vec<Warning>,
}

/// One thing that is odd.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// The preset or the file.
    pub source: String,
    /// The line, in a file.
    pub line: Option<usize>,
    /// The key.
    pub key: String,
    /// What is odd about it.
    pub message: String,
}

/// Looks at presets and pipeline files by their names, or at every preset. Files that are wrong are reported all together.
///
/// # Errors
/// When a name is neither, or with every problem in the files.
pub fn lint(wiring: &dyn Wiring, words: &[String]) -> Result<LintReport> {
    let all = presets().iter().map(|preset| preset.name.to_owned());
    let checked = if words.is_empty() { all.collect() } else { words.to_vec() };
    let (mut warnings, mut notes) = (Vec::new(), Vec::new());
    let mut problems = Vec::new();
    for word in &checked {
        match named(word)? {
            Named::Preset(subject) => {
                warnings.extend(of_preset(&subject));
                notes.extend(ended(&subject.policy, USUAL.deadline, " that a file has by default").map(
                    |message| Warning {
                        source: subject.name.clone(),
                        line: None,
                        key: "max_attempts".to_owned(),
                        message,
                    },
                ));
            }
            Named::File(definition, text) => {
                problems.extend(wrong_expressions(wiring, &definition, &text, word));
                notes.extend(ended_stages(word, &definition, &text));
                let mut found = of_gates(word, &definition, &text);
                found.extend(definition.warnings.into_iter().map(of_file));
                found.sort_by_key(|found| found.line);
                warnings.extend(found);
            }
            Named::Wrong(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(wrong(problems));
    }
    Ok(LintReport { clean: warnings.is_empty(), checked, warnings, notes })
}

fn of_preset(subject: &Subject) -> Vec<Warning> {
    let found = policy::lint(&subject.policy, &USUAL).into_iter();
    found
        .map(|warning| Warning {
            source: subject.name.clone(),
            line: None,
            key: warning.key,
            message: warning.message,
        })
        .collect()
}

/// Where a deadline is the end of a policy that has none.
fn ended(policy: &Policy, deadline: Option<Duration>, whose: &str) -> Option<String> {
    let deadline = [deadline, policy.deadline()].into_iter().flatten().min();
    let cut = forecast::cut(policy, deadline).filter(|_| policy.max_attempts().is_none())?;
    Some(format!(
        "endless, and yet ended by the deadline of {}{whose}: an item that fails every time is dead (expired) after {} attempts",
        spelled(deadline.unwrap_or_default()),
        cut.attempts
    ))
}

/// The same for the stages of a file, each with the line its policy, or else the stage, is on.
fn ended_stages(file: &str, definition: &Definition, text: &str) -> Vec<Warning> {
    let mut stages = Vec::new();
    with_paths(&definition.stages, "", &mut stages);
    let lines = Lines::of(text);
    let note = |(path, stage): &(String, &StageDef)| {
        let message = ended(&stage.retry, definition.deadline, "")?;
        let below = |key: &str| lines.line(&format!("stage.{path}.{key}"));
        let line = below("retry.max_attempts").or_else(|| below("retry.preset")).or_else(|| below("retry"));
        let line = line.or_else(|| below("name"));
        Some(Warning {
            source: file.to_owned(),
            line,
            key: format!("stage.{path}.retry.max_attempts"),
            message,
        })
    };
    let mut found: Vec<Warning> = stages.iter().filter_map(note).collect();
    found.sort_by_key(|found| found.line);
    found
}

/// A span as it is written in a file.
fn spelled(span: Duration) -> String {
    match span.as_secs() {
        s if s > 0 && s.is_multiple_of(3_600) => format!("{} h", s / 3_600),
        s if s > 0 && s.is_multiple_of(60) => format!("{} min", s / 60),
        _ => format!("{} s", span.as_secs_f64()),
    }
}

/// The file's own warnings: they know the stage's timeout, the deadline, the failure budget and the line.
fn of_file(warning: Problem) -> Warning {
    Warning { source: warning.file, line: Some(warning.line), key: warning.key, message: warning.message }
}

/// Where gates and the stages that pass them contradict each other. What comes from defaults alone is not worth a warning:
/// one is told for a key that is written.
fn of_gates(file: &str, definition: &Definition, text: &str) -> Vec<Warning> {
    let mut stages = Vec::new();
    with_paths(&definition.stages, "", &mut stages);
    let lines = Lines::of(text);
    let mut names: Vec<String> = stages.iter().filter_map(|(_, stage)| stage.gate_name()).collect();
    names.sort();
    names.dedup();
    let consecutive = definition.budget.as_ref().and_then(|budget| budget.consecutive);
    let of_gate = |name: String| {
        let passing: Vec<Passing<'_>> = stages
            .iter()
            .filter(|(_, stage)| stage.gate_name().as_ref() == Some(&name))
            .map(|(path, stage)| passing(path, stage))
            .collect();
        let spec = definition.gates.get(&name).cloned().unwrap_or_default();
        spec.lint(&name, &passing, definition.deadline, consecutive)
    };
    let found = names.into_iter().flat_map(of_gate).filter_map(|warning| {
        let line = lines.line(&warning.key)?;
        Some(Warning {
            source: file.to_owned(),
            line: Some(line),
            key: warning.key,
            message: warning.message,
        })
    });
    found.collect()
}

fn passing<'a>(path: &'a str, stage: &'a StageDef) -> Passing<'a> {
    let (max_tokens, max_item_tokens) = match &stage.kind {
        StageKind::Chat { model, max_tokens, .. } => (*max_tokens, model.max_item_tokens),
        StageKind::Embed { model, .. } => (None, model.max_item_tokens),
        StageKind::Http { .. }
        | StageKind::Command { .. }
        | StageKind::External { .. }
        | StageKind::Event { .. }
        | StageKind::EmbedBuiltin { .. }
        | StageKind::Parse { .. }
        | StageKind::Mail { .. }
        | StageKind::Upsert
        | StageKind::Publish
        | StageKind::Filter { .. }
        | StageKind::Pass => (None, None),
    };
    Passing {
        stage: path,
        concurrency: stage.concurrency,
        batch: stage.batch,
        batch_tokens: stage.batch_tokens,
        max_tokens,
        max_item_tokens,
        policy: &stage.retry,
    }
}
