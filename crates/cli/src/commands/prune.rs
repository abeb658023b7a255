//! `redrive prune`.

use std::process::ExitCode;
use std::time::Duration;

use redrive_engine::maintain;

use super::{Answer, Context};
use crate::output::text::count;
use crate::output::{json, lines};
use crate::wiring::{self, Stores};

/// Vectors are removed this many at a time.
const PAGE: usize = 5_000;

/// Forgets runs that finished long ago, and vectors that nothing uses.
pub async fn prune(context: &Context, older_than: Duration, yes: bool) -> Answer {
    let Stores { store, index } = wiring::existing_store(&context.global.store)?;
    let span = humantime::format_duration(older_than);
    context
        .confirm(&format!("Forget every run that finished more than {span} ago, with all its items?"), yes)?;
    let pruned = maintain::prune(&*store, older_than, &context.env).await?;
    let mut vectors = 0;
    loop {
        let gone = index.drop_unused_vectors(PAGE).await?;
        vectors += gone;
        if gone == 0 {
            break;
        }
    }
    if context.global.json {
        json(
            &serde_json::json!({ "runs": pruned.runs, "items": pruned.items, "contents": pruned.contents, "vectors": vectors }),
        )?;
    } else {
        let unused = match vectors {
            0 => String::new(),
            n => format!(", and {} vectors that no passage uses", count(n)),
        };
        lines(&format!("forgot {} runs with {} items{unused}", count(pruned.runs), count(pruned.items)))?;
    }
    Ok(ExitCode::SUCCESS)
}
