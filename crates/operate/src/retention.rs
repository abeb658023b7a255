//! What has ended is kept as long as its pipeline says, and then forgotten by the operations that people ask for.
//!
//! Only what has ended is touched: finished runs, dead items, items that succeeded. Items that go leave tombstones, which
//! every report counts.

use std::time::Duration;

use redrive_core::item::StateKind;
use redrive_core::time::{Timestamp, millis};
use redrive_engine::admin::{self, Forget};
use redrive_pipeline::RetentionDef;
use redrive_store::{Applied, ItemFilter, ItemQuery, Memo, RunFilter, Scrub};

use crate::catalog::Catalog;
use crate::error::Result;
use crate::runs::Runs;
use crate::{Asker, Floor};

/// How often a pipeline is looked at.
pub const EVERY: Duration = Duration::from_secs(3_600);
/// In whose name things are forgotten.
const NAME: &str = "retention";
/// Memos of when a pipeline was looked at last are called so.
const MEMO: &str = "retention/";

/// What was forgotten of a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forgot {
    /// The pipeline.
    pub pipeline: String,
    /// Items of runs that went whole.
    pub pruned: u64,
    /// Items that left a tombstone.
    pub purged: u64,
}

/// Forgets what pipelines keep no longer, of those that nobody has looked at for an hour.
///
/// # Errors
/// When the store fails. What was begun is carried on as any operation that was broken off.
pub async fn look(floor: &Floor, catalog: &Catalog) -> Result<Vec<Forgot>> {
    let floor = Floor { asker: Asker::admin(NAME), ..floor.clone() };
    let mut forgot = Vec::new();
    for pipeline in catalog.in_force() {
        let (name, retention) = (&pipeline.definition.name, pipeline.definition.retention);
        if retention == RetentionDef::default() || !its_turn(&floor, name).await? {
            continue;
        }
        let forgotten = forget(&floor, name, retention).await?;
        forgot.extend(Some(forgotten).filter(|forgot| forgot.pruned + forgot.purged > 0));
    }
    Ok(forgot)
}

/// Whether nobody has looked at a pipeline for long; of several that ask at once, one is told so.
async fn its_turn(floor: &Floor, pipeline: &str) -> Result<bool> {
    let name = format!("{MEMO}{pipeline}");
    let known = floor.store.memos(name.clone()).await?.into_iter().find(|memo| memo.name == name);
    let now = floor.now();
    let recent = |memo: &Memo| now.0.saturating_sub(memo.updated_at.0).saturating_abs() < millis(EVERY);
    if known.as_ref().is_some_and(recent) {
        return Ok(false);
    }
    let rev = known.map_or(0, |memo| memo.rev);
    let memo = Memo { name, rev, state: "looked".to_owned(), updated_at: now };
    Ok(floor.store.save_memo(memo).await? == Applied::Done)
}

async fn forget(floor: &Floor, pipeline: &str, retention: RetentionDef) -> Result<Forgot> {
    let RetentionDef { runs, runs_with_dead, dead, succeeded } = retention;
    let (store, env, actor) = (&*floor.store, &floor.env, &floor.asker.name);
    let mut forgot = Forgot { pipeline: pipeline.to_owned(), pruned: 0, purged: 0 };
    for (keep, with_dead) in [(runs, false), (runs_with_dead, true)] {
        let Some(keep) = keep else { continue };
        let older_than_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        let done = admin::prune_of(store, pipeline, Forget { older_than_ms, with_dead }, actor, env).await?;
        forgot.pruned += done.map_or(0, |done| done.changed);
    }
    let kept = [(dead, StateKind::Dead), (succeeded, StateKind::Succeeded), (succeeded, StateKind::Filtered)];
    if dead.is_none() && succeeded.is_none() {
        return Ok(forgot);
    }
    let filter = RunFilter { pipeline: Some(pipeline.to_owned()), ..RunFilter::default() };
    for row in Runs::of(store).all(filter).await? {
        for (keep, state) in kept {
            let Some(keep) = keep else { continue };
            let until = Some(Timestamp(floor.now().0.saturating_sub(millis(keep))));
            // What came from an item goes with it.
            let top = state != StateKind::Dead;
            let old =
                ItemFilter { run: Some(row.id), state: Some(state), top, until, ..ItemFilter::default() };
            let one = ItemQuery { filter: old.clone(), after: None, limit: 1 };
            if !store.items(one).await?.is_empty() {
                forgot.purged += admin::purge(store, &old, actor, env).await?.changed;
            }
        }
    }
    if forgot.purged > 0 {
        store.scrub(Scrub::Leftovers).await?;
    }
    Ok(forgot)
}
