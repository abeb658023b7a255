//! Everything below a directory that is not in its index, and why.

use std::collections::BTreeMap;
use std::path::Path;

use redrive_ingest::path::RelPath;
use redrive_ingest::walk::{Skipped, Step, walk};
use redrive_pipeline::Definition;
use redrive_store::Index;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::sources::walk_of;

/// Documents that are read at a time.
const PAGE: usize = 500;
/// The reason of files whose content cannot be indexed as it is.
pub const REFUSED: &str = "refused";

/// What is left out of a directory's index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The directory.
    pub root: String,
    /// How many files and directories, by reason; a directory is one, whatever is in it.
    pub counts: BTreeMap<&'static str, u64>,
    /// Each of them.
    pub left_out: Vec<LeftOutEntry>,
}

/// A file or directory that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOutEntry {
    /// Its path below the root.
    pub path: String,
    /// The reason, by its name.
    pub reason: &'static str,
    /// The reason, in words.
    pub why: String,
}

/// Names what is left out of a directory: by the walk, and by the index where there is one.
///
/// # Errors
/// When the directory cannot be read or the store fails.
pub async fn left_out(definition: &Definition, root: &str, index: Option<&dyn Index>) -> Result<LeftOut> {
    let options =
        walk_of(definition).ok_or_else(|| Error::internal("the pipeline of an index has no directory"))?;
    let steps = walk(Path::new(root), &options).map_err(|error| Error::wrong(error.to_string()))?;
    let mut left_out: Vec<LeftOutEntry> = steps
        .filter_map(|step| match step {
            Step::Found(_) => None,
            Step::Skipped(Skipped { rel, why }) => Some(LeftOutEntry {
                path: rel.as_ref().map_or_else(|| ".".to_owned(), RelPath::to_string),
                reason: why.name(),
                why: why.to_string(),
            }),
        })
        .collect();
    if let Some(index) = index {
        left_out.extend(refused(index, root).await?);
    }
    let mut counts = BTreeMap::new();
    for entry in &left_out {
        *counts.entry(entry.reason).or_default() += 1;
    }
    Ok(LeftOut { root: root.to_owned(), counts, left_out })
}

/// The files that an index knows it cannot have as they are.
async fn refused(index: &dyn Index, root: &str) -> Result<Vec<LeftOutEntry>> {
    let mut refused = Vec::new();
    for collection in index.collections().await?.into_iter().filter(|one| one.spec.root == root) {
        let mut after = 0;
        loop {
            let page = index.docs_after(collection.no, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.no;
            refused.extend(page.into_iter().filter_map(|doc| {
                let (_, why) = doc.refused?;
                Some(LeftOutEntry { path: doc.path.to_string(), reason: REFUSED, why })
            }));
        }
    }
    Ok(refused)
}
