//! `redrive prune`.

use std::process::ExitCode;
use std::time::Duration;

use redrive_engine::maintain;

use super::{Answer, Context};
use crate::output::text::count;
use crate::output::{json, lines};

/// Forgets runs that finished long ago.
pub async fn prune(context: &Context, older_than: Duration, yes: bool) -> Answer {
    let store = context.store()?;
    let span = humantime::format_duration(older_than);
    context
        .confirm(&format!("Forget every run that finished more than {span} ago, with all its items?"), yes)?;
    let pruned = maintain::prune(&*store, older_than, &context.env).await?;
    if context.global.json {
        json(
            &serde_json::json!({ "runs": pruned.runs, "items": pruned.items, "contents": pruned.contents }),
        )?;
    } else {
        lines(&format!("forgot {} runs with {} items", count(pruned.runs), count(pruned.items)))?;
    }
    Ok(ExitCode::SUCCESS)
}
