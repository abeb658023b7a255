//! An edited pipeline is taken over by a run that is there.

use redrive_core::id::StageNo;
use redrive_engine::admin;
use redrive_pipeline::{Definition, StageDef};
use redrive_store::{RunChange, RunRow};
use serde::Serialize;

use crate::Floor;
use crate::error::{Error, Result};
use crate::pipelines::{self, Pipeline};
use crate::sources::SourceName;

/// What of a pipeline is other than when a run last went by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Changed {
    /// Nothing that changes what a stage does.
    Nothing,
    /// It has other stages, or in another order.
    Stages,
    /// A stage does something else; this is the first.
    Stage { stage: StageNo, name: String },
    /// A stage does something else that only children run through.
    Nested { name: String },
}

/// What an edited pipeline brings about in a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Edit {
    /// What has passed the stage stays as it is, as was asked.
    Kept {
        /// The stage that is configured otherwise.
        stage: String,
    },
    /// Children that have passed the stage stay as they are: only a new run can make them anew.
    ChildrenKept {
        /// The stage that is configured otherwise.
        stage: String,
    },
    /// Items that have passed the stage, or ended at it, go again.
    Again {
        /// The stage that is configured otherwise.
        stage: String,
        /// Whether no stage comes before it.
        first: bool,
        /// Whether a stage before it keeps its outputs, which are then reused.
        reuses: bool,
        /// Items that go again from it.
        from_stage: u64,
        /// Items that passed it and go again from the beginning.
        from_start: u64,
        /// Items with content that was imported, which stay as they are.
        edited: u64,
    },
}

/// Compares a pipeline with the one that a run last went by.
pub(super) fn compare(row: &RunRow, definition: &Definition) -> Changed {
    let Some(before) = pipelines::definition_of(row) else { return Changed::Nothing };
    let shape = |definition: &Definition| -> Vec<(String, usize)> {
        definition.all_stages().map(|stage| (stage.name.clone(), stage.children.len())).collect()
    };
    if shape(&before) != shape(definition) {
        return Changed::Stages;
    }
    let differs = |(now, before): (&StageDef, &StageDef)| now.config_hash() != before.config_hash();
    let pairs = || definition.all_stages().zip(before.all_stages());
    let top = |name: &str| definition.stages.iter().any(|stage| stage.name == name);
    // Children keep what they have: only a new run can make them anew.
    if let Some((nested, _)) = pairs().find(|pair| differs(*pair) && !top(&pair.0.name)) {
        return Changed::Nested { name: nested.name.clone() };
    }
    let first = pairs().enumerate().find(|(_, pair)| differs(*pair));
    first.map_or(Changed::Nothing, |(no, (stage, _))| Changed::Stage {
        stage: StageNo(u16::try_from(no).unwrap_or(u16::MAX)),
        name: stage.name.clone(),
    })
}

/// Takes over an edited pipeline, as long as the items of the run can find their stages in it. Items that have passed a
/// stage which does something else now go again, unless `keep_passed` says otherwise.
pub(super) async fn take_over(
    floor: &Floor,
    row: RunRow,
    pipeline: &Pipeline,
    keep_passed: bool,
) -> Result<(RunRow, Option<Edit>)> {
    let Pipeline { text, definition, .. } = pipeline;
    if row.spec.definition == *text {
        return Ok((row, None));
    }
    let edit = match compare(&row, definition) {
        Changed::Nothing => None,
        Changed::Stages => {
            return Err(Error::refused(format!(
                "run {} is under way with other stages than this file has",
                row.id
            ))
            .hint("finish it with the old stages, `redrive cancel` it, or start another run with --new"));
        }
        Changed::Stage { name, .. } | Changed::Nested { name } if keep_passed => {
            Some(Edit::Kept { stage: name })
        }
        Changed::Nested { name } => Some(Edit::ChildrenKept { stage: name }),
        Changed::Stage { stage, name } => Some(go_again(floor, &row, definition, stage, name).await?),
    };
    let change = RunChange { definition: Some(text.clone()), ..RunChange::default() };
    Ok((floor.store.change_run(row.id, change).await?, edit))
}

async fn go_again(
    floor: &Floor,
    row: &RunRow,
    definition: &Definition,
    no: StageNo,
    stage: String,
) -> Result<Edit> {
    let can_reread = !SourceName::of(row).is_read_once();
    let plan = definition.plan();
    let again = admin::reconfigure(&*floor.store, row.id, &plan, no, can_reread, &floor.env).await?;
    let mut before = definition.stages.iter().take_while(|before| before.name != stage).peekable();
    Ok(Edit::Again {
        first: before.peek().is_none(),
        reuses: before.any(|before| before.reuse),
        stage,
        from_stage: again.from_stage,
        from_start: again.from_start,
        edited: again.edited,
    })
}
