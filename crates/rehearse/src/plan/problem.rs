//! What is wrong with a plan.

use std::fmt;

/// A plan that cannot be used, with everything that is wrong with it.
#[derive(Debug, Clone, thiserror::Error)]
pub struct PlanError {
    /// The problems, at least one.
    pub problems: Vec<Problem>,
}

impl PlanError {
    pub(crate) fn of(file: &str, key: &str, text: impl Into<String>) -> Self {
        let problem = Problem { file: file.to_owned(), line: None, key: key.to_owned(), text: text.into() };
        Self { problems: vec![problem] }
    }

    /// From the TOML reader, which knows the place but not always the key.
    pub(crate) fn read(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let start = error.span().map(|span| span.start.min(text.len()));
        let line = start.map(|start| text.as_bytes()[..start].iter().filter(|b| **b == b'\n').count() + 1);
        let key = start.map_or_else(String::new, |start| key_at(text, start));
        let message = error.message().trim().to_owned();
        Self { problems: vec![Problem { file: file.to_owned(), line, key, text: message }] }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\n" };
            write!(f, "{gap}{problem}")?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or the name of a built-in plan.
    pub file: String,
    /// The line, where it is known.
    pub line: Option<usize>,
    /// The key, such as `fault[2].rate`; empty when it is the whole file.
    pub key: String,
    /// What is wrong.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.text)
    }
}

/// The key at a place: the word that begins there, or the one that the value there belongs to.
fn key_at(text: &str, start: usize) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-' || c == '.';
    let Some((before, here)) = text.split_at_checked(start) else { return String::new() };
    if let Some(owner) = before.trim_end().strip_suffix('=') {
        let owner = owner.trim_end();
        let from = owner.rfind(|c| !word(c)).map_or(0, |at| at + 1);
        return owner[from..].to_owned();
    }
    here.trim_start_matches('[').chars().take_while(|c| word(*c)).collect()
}
