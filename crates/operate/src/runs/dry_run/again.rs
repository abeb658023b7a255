//! Which items of a run would go again because a stage was edited.

use std::collections::BTreeMap;

use redrive_core::id::StageNo;
use redrive_core::item::{Item, StateKind};
use redrive_engine::admin::{self, Way};
use redrive_engine::admit::Foresight;
use redrive_pipeline::Definition;
use redrive_store::RunRow;

use crate::Floor;
use crate::error::Result;
use crate::runs::edit::Edit;
use crate::sources::SourceName;

/// Items that go again, by where they begin.
#[derive(Debug, Default)]
pub(super) struct GoingAgain {
    /// The stage that was edited.
    stage: Option<String>,
    /// Items that go again from it.
    from_stage: u64,
    /// Items that are read again, and go from the first stage on. What the source does not have any more does not, and what it
    /// has otherwise is counted as changed.
    pub(super) from_start: u64,
    /// Unfinished items that leave where they are for it, by stage.
    leaving: BTreeMap<StageNo, u64>,
}

impl GoingAgain {
    /// Finds them.
    pub(super) async fn find(
        floor: &Floor,
        row: Option<&RunRow>,
        definition: &Definition,
        edit: Option<&Edit>,
        foresight: &Foresight,
    ) -> Result<Self> {
        let (Some(row), Some(Edit::Again { stage, .. })) = (row, edit) else { return Ok(Self::default()) };
        let mut again = Self { stage: Some(stage.clone()), ..Self::default() };
        let Some(no) = definition.all_stages().position(|other| other.name == *stage) else {
            return Ok(again);
        };
        let no = StageNo(u16::try_from(no).unwrap_or(u16::MAX));
        let can_reread = SourceName::of(row).can_be_read_again();
        let mut see = |item: &Item, way: Way| match way {
            Way::Edited => {}
            Way::FromStage => {
                again.leaves(item);
                again.from_stage += 1;
            }
            Way::FromStart => {
                again.leaves(item);
                again.from_start += u64::from(foresight.has_seen_as_it_is(item));
            }
        };
        admin::see_again(&*floor.store, row.id, no, can_reread, &mut see).await?;
        Ok(again)
    }

    fn leaves(&mut self, item: &Item) {
        if matches!(item.state.kind(), StateKind::Waiting | StateKind::Running) {
            *self.leaving.entry(item.stage).or_default() += 1;
        }
    }

    /// Items that go again from this stage on.
    pub(super) fn from(&self, stage: &str) -> u64 {
        if self.stage.as_deref() == Some(stage) { self.from_stage } else { 0 }
    }

    /// Unfinished items at the stage with this place that do not stay there.
    pub(super) fn leaving(&self, at: usize) -> u64 {
        self.leaving.iter().find(|(stage, _)| stage.index() == at).map_or(0, |(_, n)| *n)
    }
}
