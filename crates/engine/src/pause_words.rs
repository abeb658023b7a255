//! What is said of a pipeline or a stage that somebody paused.

/// What is paused, in words.
pub(crate) fn what(pipeline: &str, stage: Option<&str>) -> String {
    match stage {
        Some(stage) => format!("stage {stage} of pipeline {pipeline}"),
        None => format!("pipeline {pipeline}"),
    }
}

/// That something is paused, by whom and why.
pub(crate) fn said(pipeline: &str, stage: Option<&str>, by: &str, why: &str) -> String {
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    let why = if why.is_empty() { String::new() } else { format!(": {why}") };
    format!("{} is paused{by}{why}", what(pipeline, stage))
}

/// The command that lets something go on.
pub(crate) fn resumes(pipeline: &str, stage: Option<&str>) -> String {
    let stage = stage.map(|stage| format!(" --stage {stage}")).unwrap_or_default();
    format!("redrive pipelines resume {pipeline}{stage}")
}

/// What the reason of a run has that is paused because it has as many dead items as it may have.
const FULL: &str = "and max_dead is";

/// That a run has as many dead items as it may have.
pub(crate) fn full(dead: u64, most: u64) -> String {
    format!("{dead} items are dead, {FULL} {most}: send some back or purge them, then resume the run")
}

/// Whether the reason of a run says so.
pub(crate) fn is_full(reason: &str) -> bool {
    reason.contains(FULL)
}
