//! What is wrong with a pipeline file, and where.

use std::fmt;

use redrive_core::redact;
use serde::Serialize;

/// Longest key that is shown, in bytes.
const KEY_MAX: usize = 500;

/// One thing that is wrong, or probably not meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The key, as a dotted path: `stage.llm_call.retry.max_attempts`; empty where the text is no TOML.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it, where that is known.
    pub hint: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Problem {}

/// Collects what is found while a file is read.
pub(crate) struct Report<'t> {
    file: &'t str,
    /// Where each line starts.
    lines: Vec<usize>,
    /// The name of the pipeline, where it is known.
    pub(crate) pipeline: Option<String>,
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl<'t> Report<'t> {
    pub(crate) fn new(file: &'t str, text: &str) -> Self {
        let starts = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).collect();
        Self { file, lines, pipeline: None, problems: vec![], warnings: vec![] }
    }

    pub(crate) fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).max(1)
    }

    pub(crate) fn problem(&mut self, at: usize, key: &str, message: impl Into<String>, hint: Option<String>) {
        let problem = self.make(at, key, message.into(), hint);
        self.problems.push(problem);
    }

    pub(crate) fn warn(&mut self, at: usize, key: &str, message: impl Into<String>) {
        let warning = self.make(at, key, message.into(), None);
        self.warnings.push(warning);
    }

    fn make(&self, at: usize, key: &str, message: String, hint: Option<String>) -> Problem {
        // Quoted keys may hold anything, terminal escapes included.
        let key = redact::clean(key.as_bytes(), KEY_MAX).replace(['\n', '\t'], " ");
        Problem { file: self.file.to_owned(), line: self.line(at), key, message, hint }
    }
}
