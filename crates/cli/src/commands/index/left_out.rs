//! `redrive index DIR --list-left-out`: everything below a directory that is not in its index, and why.

use std::process::ExitCode;

use redrive_operate::index::{LeftOutEntry, left_out};
use redrive_pipeline::Definition;

use crate::commands::{Answer, Context};
use crate::output::json;
use crate::output::text::{count, safe};

/// Names what is left out of a directory.
pub(super) async fn list(context: &Context, definition: &Definition, root: &str) -> Answer {
    // Where there is no store yet, no index knows of files it cannot have.
    let floor = context.floor_to_read().ok();
    let report = left_out(definition, root, floor.as_ref().map(|floor| &*floor.index)).await?;
    if context.global.json {
        json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    if report.left_out.is_empty() {
        context.hint("nothing is left out");
        return Ok(ExitCode::SUCCESS);
    }
    let line = |entry: &LeftOutEntry| format!("{}: {}", safe(&entry.path), safe(&entry.why));
    context.tell(&report.left_out.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    let reasons: Vec<String> =
        report.counts.iter().map(|(reason, n)| format!("{} {}", count(*n), super::told(reason))).collect();
    context.hint(&format!("{}; a directory is one, whatever is in it", reasons.join(", ")));
    Ok(ExitCode::SUCCESS)
}
