//! How the indexes of a store stand.

use redrive_core::id::RunId;
use redrive_core::status::{Counts, RunStatus};
use redrive_store::index::IndexSize;
use serde::Serialize;

use super::PIPELINE;
use crate::Floor;
use crate::error::Result;
use crate::runs::{self, List};

/// Runs that are looked at for the last pass of an index.
const LOOKED_AT: usize = 200;

/// How every index stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IndexStatus {
    /// Each of them.
    pub indexes: Vec<OneIndex>,
}

/// How one index stands.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OneIndex {
    /// The directory.
    pub root: String,
    /// The model of its vectors.
    pub model: String,
    /// How much is in it.
    pub size: IndexSize,
    /// The newest run that made it or brought it up to date; `null` where none of the last ones did.
    pub last_pass: Option<LastPass>,
}

/// The newest run of an index.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LastPass {
    /// The run.
    pub run: RunId,
    /// How it stands.
    pub status: RunStatus,
    /// Its files by state.
    pub counts: Counts,
    /// When it finished; `null` while it has not.
    pub finished_at: Option<String>,
}

/// Says how every index stands.
///
/// # Errors
/// When the store fails.
pub async fn status(floor: &Floor) -> Result<IndexStatus> {
    let request = List { pipeline: Some(PIPELINE.to_owned()), limit: LOOKED_AT, ..List::default() };
    let passes = runs::list(floor, &request).await?.runs;
    let mut indexes = Vec::new();
    for collection in floor.index.collections().await? {
        let size = floor.index.size(collection.no).await?;
        let (root, model) = (collection.spec.root, collection.spec.model);
        let last_pass = passes.iter().find(|run| run.source == root).map(|run| LastPass {
            run: run.run,
            status: run.status,
            counts: run.counts,
            finished_at: run.finished_at.clone(),
        });
        indexes.push(OneIndex { root, model, size, last_pass });
    }
    Ok(IndexStatus { indexes })
}
