//! `redrive index DIR --list-left-out`: everything below a directory that is not in its index, and why.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use redrive_ingest::path::RelPath;
use redrive_ingest::walk::{Skipped, Step, walk};
use redrive_operate::Error;
use redrive_pipeline::Definition;
use serde::Serialize;

use crate::commands::{Answer, Context};
use crate::output::text::{count, safe};
use crate::output::{json, lines};
use crate::wiring;

/// Documents that are read at a time.
const PAGE: usize = 500;
/// The reason of files whose content cannot be indexed as it is.
const REFUSED: &str = "refused";

#[derive(Serialize)]
struct Entry {
    path: String,
    reason: &'static str,
    why: String,
}

#[derive(Serialize)]
struct Report<'a> {
    root: &'a str,
    counts: BTreeMap<&'static str, u64>,
    left_out: Vec<Entry>,
}

/// Names what is left out of a directory.
pub(super) async fn list(context: &Context, definition: &Definition, root: &str) -> Answer {
    let options = wiring::walk_of(definition)
        .ok_or_else(|| Error::internal("the pipeline of an index has no directory"))?;
    let steps = walk(Path::new(root), &options).map_err(|error| Error::wrong(error.to_string()))?;
    let mut left_out: Vec<Entry> = steps
        .filter_map(|step| match step {
            Step::Found(_) => None,
            Step::Skipped(Skipped { rel, why }) => Some(Entry {
                path: rel.as_ref().map_or_else(|| ".".to_owned(), RelPath::to_string),
                reason: why.name(),
                why: why.to_string(),
            }),
        })
        .collect();
    left_out.extend(refused(context, root).await?);
    let mut counts = BTreeMap::new();
    for entry in &left_out {
        *counts.entry(entry.reason).or_default() += 1;
    }
    if context.global.json {
        json(&Report { root, counts, left_out })?;
        return Ok(ExitCode::SUCCESS);
    }
    if left_out.is_empty() {
        context.hint("nothing is left out");
        return Ok(ExitCode::SUCCESS);
    }
    let line = |entry: &Entry| format!("{}: {}", safe(&entry.path), safe(&entry.why));
    lines(&left_out.iter().map(line).collect::<Vec<_>>().join("\n"))?;
    let reasons: Vec<String> =
        counts.iter().map(|(reason, n)| format!("{} {}", count(*n), super::told(reason))).collect();
    context.hint(&format!("{}; a directory is one, whatever is in it", reasons.join(", ")));
    Ok(ExitCode::SUCCESS)
}

/// The files that an index knows it cannot have as they are; none where there is no store yet.
async fn refused(context: &Context, root: &str) -> Result<Vec<Entry>, Error> {
    let Ok(stores) = wiring::store_to_read(&context.global.store) else { return Ok(Vec::new()) };
    let mut refused = Vec::new();
    for collection in stores.index.collections().await? {
        if collection.spec.root != root {
            continue;
        }
        let mut after = 0;
        loop {
            let page = stores.index.docs_after(collection.no, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.no;
            refused.extend(page.into_iter().filter_map(|doc| {
                let (_, why) = doc.refused?;
                Some(Entry { path: doc.path.to_string(), reason: REFUSED, why })
            }));
        }
    }
    Ok(refused)
}
