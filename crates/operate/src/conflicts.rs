//! Files of the folder that their own standing run cannot take over, because it has other stages: whoever hands items in is refused, and
//! messages of a queue wait. Daemons find that out, and keep it in the store for those who have no folder.

use std::collections::BTreeMap;

use redrive_core::id::RunId;
use redrive_pipeline::SourceKind;
use redrive_store::{Memo, NewRun, RunFilter, RunRow};
use serde::{Deserialize, Serialize};

use crate::Floor;
use crate::catalog::{Catalog, Reloaded};
use crate::error::{Error, Result};
use crate::memo;
use crate::pipelines::Pipeline;
use crate::runs::refuse_other_stages;

/// How the names of these memos begin.
const MEMO: &str = "conflict/";
/// Most standing runs of a pipeline that are looked at: it has one for each category.
const RUNS: usize = 100;

/// What is kept of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The run that cannot take the file over; `None`: all of them can.
    run: Option<RunId>,
    /// What is told of it.
    why: String,
}

/// Compares the pipelines in force with their standing runs, and tells what has changed since the look before.
///
/// # Errors
/// When the store fails.
pub async fn look(floor: &Floor, catalog: &Catalog) -> Result<Vec<Reloaded>> {
    let mut told = Vec::new();
    for pipeline in catalog.in_force() {
        if pipeline.definition.source.kind != SourceKind::Inbox {
            continue;
        }
        let found = conflict(floor, &pipeline).await?;
        let (run, problem) = found.unzip();
        if let Some(changed) = catalog.set_conflict(&pipeline, problem) {
            let why = changed.problem.as_ref().map(|problem| problem.message.clone()).unwrap_or_default();
            keep(floor, &pipeline.definition.name, Kept { run, why }).await?;
            told.extend((changed.problem.is_some() || changed.was_wrong).then_some(changed));
        }
    }
    Ok(told)
}

/// The standing run that cannot take a pipeline over, and why.
async fn conflict(floor: &Floor, pipeline: &Pipeline) -> Result<Option<(RunId, Error)>> {
    let name = Some(pipeline.definition.name.clone());
    let filter = RunFilter { pipeline: name, unfinished: true, unread: true, ..RunFilter::default() };
    let rows = floor.store.runs(filter, None, RUNS).await?;
    let standing = |row: &&RunRow| row.is_open() && !NewRun::is_of_items(&row.spec.source);
    let refused = |row: &RunRow| Some((row.id, refuse_other_stages(row, &pipeline.definition).err()?));
    Ok(rows.iter().filter(standing).find_map(refused))
}

/// Keeps what was found. Where another daemon was faster, that one has seen it as well.
async fn keep(floor: &Floor, pipeline: &str, kept: Kept) -> Result<()> {
    let name = format!("{MEMO}{pipeline}");
    let before = floor.store.memos(name.clone()).await?.into_iter().find(|memo| memo.name == name);
    let known = before.as_ref().map(memo::read::<Kept>).transpose()?;
    if known.as_ref().map_or(kept.run.is_none(), |known| *known == kept) {
        return Ok(());
    }
    let rev = before.map_or(0, |memo| memo.rev);
    let memo = Memo { name, rev, state: memo::written(&kept)?, updated_at: floor.now() };
    floor.store.save_memo(memo).await?;
    Ok(())
}

/// What daemons found, by pipeline, as far as its run still takes items.
///
/// # Errors
/// When the store fails.
pub(crate) async fn known(floor: &Floor) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    for memo in floor.store.memos(MEMO.to_owned()).await? {
        let Kept { run: Some(run), why } = memo::read(&memo)? else { continue };
        let is_open = floor.store.run(run).await?.is_some_and(|row| row.is_open());
        if let Some(pipeline) = memo.name.strip_prefix(MEMO).filter(|_| is_open) {
            found.insert(pipeline.to_owned(), why);
        }
    }
    Ok(found)
}
