//! An edited pipeline is taken over by a run that is there.

use std::time::Duration;

use redrive_core::id::StageNo;
use redrive_engine::{admin, crash};
use redrive_pipeline::{Definition, StageDef};
use redrive_store::{RunChange, RunRow};
use serde::Serialize;

use crate::Floor;
use crate::error::{Error, Result};
use crate::pipelines::{self, Pipeline};
use crate::sources::SourceName;

/// How long whoever edited a pipeline has for sending items again before somebody else does it, too.
const SOMEBODY_ELSE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(100);

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
    let Pipeline { text, definition, folder, .. } = pipeline;
    let folder = folder.display().to_string();
    if row.spec.definition == *text && row.spec.folder == folder {
        return finish_edit(floor, row, definition).await;
    }
    refuse_other_stages(&row, definition)?;
    let changed = RunChange { definition: Some(text.clone()), folder: Some(folder), ..RunChange::default() };
    let edit = match compare(&row, definition) {
        Changed::Nothing | Changed::Stages => None,
        Changed::Stage { name, .. } | Changed::Nested { name } if keep_passed => {
            Some(Edit::Kept { stage: name })
        }
        Changed::Nested { name } => Some(Edit::ChildrenKept { stage: name }),
        Changed::Stage { stage, .. } => {
            // From here on nobody claims anything by the old pipeline, and whoever comes next knows what is left to do.
            let learn = Some((unfinished(row.edition + 1), u64::from(stage.0)));
            let row = floor.store.change_run(row.id, RunChange { learn, ..changed }).await?;
            crash::point("edit.taken_over");
            return finish_edit(floor, row, definition).await;
        }
    };
    Ok((floor.store.change_run(row.id, changed).await?, edit))
}

/// Says what an edited pipeline would bring about in a run, and changes nothing.
pub(super) async fn foresee(
    floor: &Floor,
    row: &RunRow,
    definition: &Definition,
    keep_passed: bool,
) -> Result<Option<Edit>> {
    Ok(match compare(row, definition) {
        Changed::Nothing | Changed::Stages => None,
        Changed::Stage { name, .. } | Changed::Nested { name } if keep_passed => {
            Some(Edit::Kept { stage: name })
        }
        Changed::Nested { name } => Some(Edit::ChildrenKept { stage: name }),
        Changed::Stage { stage, name } => {
            let can_reread = SourceName::of(row).can_be_read_again();
            let again = admin::would_go_again(&*floor.store, row.id, stage, can_reread).await?;
            Some(told(definition, name, again))
        }
    })
}

/// Refuses a pipeline whose stages the items of a run cannot find.
pub(crate) fn refuse_other_stages(row: &RunRow, definition: &Definition) -> Result<()> {
    if compare(row, definition) != Changed::Stages {
        return Ok(());
    }
    let way_out = match row.is_open() {
        true => format!("`redrive close {}`: what is handed in then goes to a new run", row.id),
        false => format!(
            "finish it with the old stages, or `redrive cancel {}` ends it, or `redrive run FILE --new` starts another run",
            row.id
        ),
    };
    Err(Error::refused(format!("run {} is under way with other stages than this file has", row.id))
        .hint(way_out))
}

/// The stage from which items have yet to be sent again, by the edition that a run has now; `None` when all were.
fn left_to_send(row: &RunRow) -> Option<u64> {
    let stage = row.learnt.get(&unfinished(row.edition)).copied();
    stage.filter(|_| !row.learnt.contains_key(&finished(row.edition)))
}

/// Whether an edited pipeline has yet to send items of a run again.
pub(crate) fn edit_is_under_way(row: &RunRow) -> bool {
    left_to_send(row).is_some()
}

/// Waits until whoever edited the pipeline of a run has sent the items again that it asks for, and does it where nothing
/// comes of that. Until then nobody may work on the run: what went by the new pipeline would be sent again, too.
pub(crate) async fn edited_to_the_end(floor: &Floor, mut row: RunRow) -> Result<RunRow> {
    let begun = floor.now();
    while left_to_send(&row).is_some() && floor.now().since(begun) < SOMEBODY_ELSE {
        floor.env.clock.sleep(LOOK).await;
        row = floor.store.run(row.id).await?.unwrap_or(row);
    }
    if left_to_send(&row).is_none() {
        return Ok(row);
    }
    let definition = pipelines::parse(&row.spec.definition, &format!("the pipeline of {}", row.id))?;
    Ok(finish_edit(floor, row, &definition).await?.0)
}

/// The fact that items go again from a stage with this edition of a pipeline.
fn unfinished(edition: u32) -> String {
    format!("edition {edition}: from stage")
}

/// The fact that they do.
fn finished(edition: u32) -> String {
    format!("edition {edition}: done")
}

/// Sends the items again that an edited pipeline asks for, unless that is done, or somebody else is done with it meanwhile.
async fn finish_edit(floor: &Floor, row: RunRow, definition: &Definition) -> Result<(RunRow, Option<Edit>)> {
    let stage = left_to_send(&row).and_then(|stage| u16::try_from(stage).ok());
    let name = |stage: u16| Some((stage, definition.all_stages().nth(stage.into())?.name.clone()));
    let Some((stage, name)) = stage.and_then(name) else { return Ok((row, None)) };
    let edit = go_again(floor, &row, definition, StageNo(stage), name).await?;
    let learn = Some((finished(row.edition), 1));
    // How far its source is read has changed with it.
    let row = floor.store.change_run(row.id, RunChange { learn, ..RunChange::default() }).await?;
    Ok((row, Some(edit)))
}

async fn go_again(
    floor: &Floor,
    row: &RunRow,
    definition: &Definition,
    no: StageNo,
    stage: String,
) -> Result<Edit> {
    let (edition, done) = (row.edition, finished(row.edition));
    let is_done = move |row: &RunRow| row.edition != edition || row.learnt.contains_key(&done);
    let can_reread = SourceName::of(row).can_be_read_again();
    let plan = definition.plan();
    let asked = admin::Reconfigure { run: row.id, stage: no, can_reread, is_done: &is_done };
    let again = admin::reconfigure(&*floor.store, asked, &plan, &floor.env).await?;
    Ok(told(definition, stage, again))
}

fn told(definition: &Definition, stage: String, again: admin::Again) -> Edit {
    let mut before = definition.stages.iter().take_while(|before| before.name != stage).peekable();
    Edit::Again {
        first: before.peek().is_none(),
        reuses: before.any(|before| before.reuse),
        stage,
        from_stage: again.from_stage,
        from_start: again.from_start,
        edited: again.edited,
    }
}
