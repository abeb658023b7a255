//! Reports: what failed, how reliable stages are, whether the laws hold, and what can be forgotten.

mod failures;
mod stats;

use redrive_core::id::RunId;
use redrive_engine::admin;
use redrive_engine::maintain::{self, Prunable};
use redrive_engine::report::{self, CheckReport};
use redrive_store::{RunRow, Scrub};
use serde::Serialize;

use crate::care::Room;
use crate::error::Result;
use crate::pipelines;
use crate::{Floor, Role};

pub use failures::{Failures, failures};
pub use redrive_engine::admin::Forget;
pub use stats::{Compared, IndexStats, OverRuns, Statistics, StatsOf, stats};

/// Vectors, and files that are gone, are forgotten this many at a time.
const PAGE: usize = 5_000;

/// Proves the laws over one run or everything the store holds, and that all of it is as it was written.
///
/// # Errors
/// When there is no such run or the store fails.
pub async fn check(floor: &Floor, run: Option<RunId>) -> Result<CheckReport> {
    let wanted = run.map_or(report::Runs::All, report::Runs::One);
    let plan = |row: &RunRow| pipelines::definition_of(row).map(|definition| definition.plan());
    Ok(report::check(&*floor.store, wanted, plan, floor.now(), &*floor.env.progress).await?)
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Runs.
    pub runs: u64,
    /// Their items.
    pub items: u64,
    /// How many of those were dead.
    pub dead: u64,
    /// Tombstones of purged items.
    pub tombstones: u64,
    /// Contents and outputs that nobody referred to any more.
    pub contents: u64,
    /// Vectors that no passage uses.
    pub vectors: u64,
    /// Names of files that are gone from an index.
    pub gone_files: u64,
    /// Bytes that were given back to the disk.
    pub given_back: u64,
    /// What was spared for its dead items.
    pub spared: Spared,
    /// Room that is free in the store's file now, where it is much.
    #[serde(skip)]
    pub room: Option<Room>,
}

/// Runs that are spared because of their dead items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Spared {
    /// The runs.
    pub runs: u64,
    /// Their dead items.
    pub dead: u64,
}

/// Says what [`prune`] would forget and what it would spare.
///
/// # Errors
/// When the store fails.
pub async fn prunable(floor: &Floor, request: Forget) -> Result<Prunable> {
    Ok(maintain::prunable(&*floor.store, request.older_than(), request.with_dead, &floor.env).await?)
}

/// Forgets runs that finished long ago, and vectors and files that nothing uses.
///
/// # Errors
/// When the store fails; what was forgotten before stays so.
pub async fn prune(floor: &Floor, request: Forget) -> Result<Pruned> {
    floor.require(Role::Admin)?;
    let (store, older_than) = (&*floor.store, request.older_than());
    let (pruned, _) = admin::prune(store, request, &floor.asker.name, &floor.env).await?;
    let left = maintain::prunable(store, older_than, false, &floor.env).await?;
    let (mut vectors, mut gone_files) = (0, 0);
    loop {
        let unused = floor.index.drop_unused_vectors(PAGE).await?;
        let gone = floor.index.drop_gone_docs(PAGE).await?;
        (vectors, gone_files) = (vectors + unused, gone_files + gone);
        if unused + gone == 0 {
            break;
        }
    }
    let scrubbed = store.scrub(Scrub::Room).await?;
    Ok(Pruned {
        runs: pruned.runs,
        items: pruned.items,
        dead: pruned.dead,
        tombstones: pruned.tombstones,
        contents: pruned.contents + scrubbed.contents,
        vectors,
        gone_files,
        given_back: scrubbed.given_back,
        spared: Spared { runs: left.spared_runs, dead: left.spared_dead },
        room: Room::left(&scrubbed),
    })
}
