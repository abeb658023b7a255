//! `redrive policy lint`.
//!
//! Warnings are data, on standard output, and no failure: a policy that is odd may be meant. The lease is not held
//! against a timeout: a worker renews it as long as it lives, however long a call takes.

use std::process::ExitCode;
use std::time::Duration;

use redrive_core::policy::{LintContext, lint, presets};
use redrive_pipeline::Problem;
use serde::Serialize;

use super::subject::{Named, Subject, named, wrong};
use crate::args::Global;
use crate::exit::Failure;
use crate::output;

/// What a pipeline file has unless it says otherwise; presets are looked at within it.
const USUAL: LintContext = LintContext {
    timeout: Some(Duration::from_secs(60)),
    lease: None,
    deadline: Some(Duration::from_secs(24 * 3_600)),
    budget: None,
};

#[derive(Serialize)]
struct Report<'a> {
    clean: bool,
    checked: &'a [String],
    warnings: Vec<Found>,
}

#[derive(Serialize)]
struct Found {
    /// The preset or the file.
    source: String,
    /// The line, in a file.
    line: Option<usize>,
    key: String,
    message: String,
}

/// Looks at each of them, or at every preset. Files that are wrong are reported all together.
pub fn run(global: &Global, words: &[String]) -> Result<ExitCode, Failure> {
    let all = presets().iter().map(|preset| preset.name.to_owned());
    let words = if words.is_empty() { all.collect() } else { words.to_vec() };
    let mut warnings = Vec::new();
    let mut problems = Vec::new();
    for word in &words {
        match named(word)? {
            Named::Preset(subject) => warnings.extend(of_preset(&subject)),
            Named::File(definition) => warnings.extend(definition.warnings.into_iter().map(of_file)),
            Named::Wrong(found) => problems.extend(found),
        }
    }
    if !problems.is_empty() {
        return Err(wrong(&problems));
    }
    if global.json {
        output::json(&Report { clean: warnings.is_empty(), checked: &words, warnings })?;
        return Ok(ExitCode::SUCCESS);
    }
    for Found { source, line, key, message } in &warnings {
        let place = line.map_or_else(|| source.clone(), |line| format!("{source}:{line}"));
        output::lines(&output::text::safe(&format!("{place}: {key}: {message}")))?;
    }
    if !global.quiet {
        output::note(&format!(
            "checked {}, {}",
            counted(words.len(), "source"),
            counted(warnings.len(), "warning")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

fn of_preset(subject: &Subject) -> Vec<Found> {
    let found = lint(&subject.policy, &USUAL).into_iter();
    found
        .map(|warning| Found {
            source: subject.name.clone(),
            line: None,
            key: warning.key,
            message: warning.message,
        })
        .collect()
}

/// The file's own warnings: they know the stage's timeout, the deadline, the failure budget and the line.
fn of_file(warning: Problem) -> Found {
    Found { source: warning.file, line: Some(warning.line), key: warning.key, message: warning.message }
}

fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
