//! The policy that dead items go under for one redrive, in place of their stage's own.

use redrive_core::policy::OwnPolicy;
use redrive_pipeline::Problem;
use serde_json::Value;

use crate::error::{Error, Result};

/// Reads what was typed: a preset's name, or a table as TOML or JSON. Whether it is a policy, `own_policy` says.
///
/// # Errors
/// When it is neither.
pub fn said_policy(text: &str) -> Result<Value> {
    redrive_pipeline::said_policy(text).map_err(|problems| wrong(&problems))
}

/// Makes the policy that was asked for.
///
/// # Errors
/// When a pipeline file would not take it either.
fn own_policy(said: &Value) -> Result<OwnPolicy> {
    let policy = redrive_pipeline::own_policy(said).map_err(|problems| wrong(&problems))?;
    Ok(OwnPolicy::new(said.clone(), policy))
}

/// The policy, where one was asked for.
pub(crate) fn own_policy_if_any(said: Option<&Value>) -> Result<Option<OwnPolicy>> {
    said.map(own_policy).transpose()
}

fn wrong(problems: &[Problem]) -> Error {
    let told: Vec<String> = problems.iter().map(|it| format!("{}: {}", it.key, it.message)).collect();
    let error = Error::wrong(format!("no policy (--retry, `retry`): {}", told.join("; ")));
    let hint = problems.iter().find_map(|problem| problem.hint.clone());
    error.hint(hint.unwrap_or_else(|| {
        "it takes what `retry` takes in a pipeline file, or a preset's name: `redrive policy list` shows them".to_owned()
    }))
}
