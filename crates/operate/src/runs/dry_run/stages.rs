//! What every stage would have to do.

use std::num::NonZeroU32;

use redrive_engine::report::RunReport;
use redrive_pipeline::Definition;
use serde::Serialize;

use super::again::GoingAgain;
use super::{Lines, Would};

/// A stage, and what it would have to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageAhead {
    /// Its name.
    pub name: String,
    /// What it does.
    pub kind: String,
    /// The gate its calls pass.
    pub gate: Option<String>,
    /// Most items in one call.
    pub batch: u64,
    /// Most items that would come to it, if none is filtered or dies before; `null` where that depends on what another stage
    /// makes of them.
    pub items: Option<u64>,
    /// Calls for these where nothing has to be tried again.
    pub calls: Option<u64>,
    /// How many failures are an item's end, by the stage's policy; being turned away is none, crashes are counted apart, and
    /// the policy may have other figures for some failures. `null`: no number of them.
    pub max_attempts: Option<u32>,
}

/// What every stage would have to do.
pub(super) fn stages(
    definition: &Definition,
    standing: Option<&RunReport>,
    read: &Lines,
    again: &GoingAgain,
    would: Would,
) -> Vec<StageAhead> {
    let fresh = (read.new + read.changed + read.back).saturating_sub(read.refused);
    let mut items = fresh + again.from_start;
    let mut ahead = Vec::new();
    for (at, stage) in definition.all_stages().enumerate() {
        let top = definition.stages.iter().any(|top| top.name == stage.name);
        if top && would != Would::Nothing {
            let stay = left_at(standing, &stage.name).saturating_sub(again.leaving(at));
            items += stay + again.from(&stage.name);
        }
        // A stage before it may make any number of children of an item.
        let items = top.then_some(items).filter(|_| would != Would::Nothing);
        let batch = u64::from(stage.batch.max(1));
        ahead.push(StageAhead {
            name: stage.name.clone(),
            kind: stage.kind.name().to_owned(),
            gate: stage.gate_name(),
            batch,
            items,
            calls: items.map(|items| items.div_ceil(batch)),
            max_attempts: stage.retry.max_attempts().map(NonZeroU32::get),
        });
    }
    ahead
}

/// Unfinished items of the run that are at a stage.
fn left_at(standing: Option<&RunReport>, stage: &str) -> u64 {
    let at = standing.and_then(|report| report.stages.iter().find(|at| at.name == *stage));
    at.map_or(0, |at| at.counts.waiting + at.counts.running)
}
