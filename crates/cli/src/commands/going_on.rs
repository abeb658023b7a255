//! An edited pipeline file is taken over by a run that is there.

use redrive_core::id::StageNo;
use redrive_engine::admin::{self, Again};
use redrive_operate::Error;
use redrive_pipeline::{Definition, StageDef};
use redrive_store::{RunChange, RunRow, Store};

use super::Context;
use crate::output::note;
use crate::output::text::count;
use crate::wiring::{self, Named};

/// What of a pipeline is other than when a run last went by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changed {
    /// Nothing that changes what a stage does.
    Nothing,
    /// It has other stages, or in another order.
    Stages,
    /// A stage does something else; this is the first.
    Stage {
        /// Its number.
        stage: StageNo,
        /// Its name.
        name: String,
    },
    /// A stage does something else that only children run through.
    Nested {
        /// Its name.
        name: String,
    },
}

/// Compares a pipeline with the one that a run last went by.
pub fn compare(row: &RunRow, definition: &Definition) -> Changed {
    let Some(before) = wiring::definition_of(row) else { return Changed::Nothing };
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

/// Takes over an edited pipeline file, as long as the items of the run can find their stages in it. Items that have passed a
/// stage which does something else now go again.
pub async fn take_over(
    context: &Context,
    store: &dyn Store,
    row: RunRow,
    definition: &Definition,
    text: &str,
    keep_passed: bool,
) -> Result<RunRow, Error> {
    if row.spec.definition == text {
        return Ok(row);
    }
    match compare(&row, definition) {
        Changed::Nothing => {}
        Changed::Stages => {
            return Err(Error::wrong(format!(
                "run {} is under way with other stages than this file has",
                row.id
            ))
            .hint("finish it with the old stages, `redrive cancel` it, or start another run with --new"));
        }
        Changed::Stage { name, .. } | Changed::Nested { name } if keep_passed => {
            told(
                context,
                &format!("stage {name} is configured otherwise; what has passed it stays as it is"),
            );
        }
        Changed::Nested { name } => {
            let stays = "children that have passed it stay as they are (--new does everything anew)";
            told(context, &format!("stage {name} is configured otherwise; {stays}"));
        }
        Changed::Stage { stage, name } => {
            let plan = wiring::plan(definition);
            let can_reread = !keep_passed && !Named::of(&row).is_read_once();
            let again = admin::reconfigure(store, row.id, &plan, stage, can_reread, &context.env).await?;
            let before = definition.stages.iter().take_while(|before| before.name != name);
            let kept = before.clone().any(|before| before.reuse);
            let mut text = words(&name, again, before.count() == 0, kept);
            if keep_passed {
                text.push_str("; what has passed it stays as it is");
            }
            told(context, &text);
        }
    }
    let change = RunChange { definition: Some(text.to_owned()), ..RunChange::default() };
    Ok(store.change_run(row.id, change).await?)
}

/// What a changed stage brings about. `kept` says whether a stage before it keeps its outputs.
fn words(name: &str, again: Again, first: bool, kept: bool) -> String {
    let Again { from_stage, from_start, edited } = again;
    let mut parts = Vec::new();
    if from_stage > 0 || (first && from_start > 0) {
        let all = from_stage + if first { from_start } else { 0 };
        parts.push(format!("{} again from it", go(all)));
    }
    if from_start > 0 && !first {
        let cost = match kept {
            true => "; kept outputs are reused there",
            false => ", which work again",
        };
        parts.push(format!(
            "{} that passed it go again through the stages before it, too{cost}",
            items(from_start)
        ));
    }
    if edited > 0 {
        parts.push(format!(
            "{} with content that was imported stay{} as it is",
            items(edited),
            if edited == 1 { "s" } else { "" }
        ));
    }
    if parts.is_empty() {
        parts.push("no item has got so far".to_owned());
    }
    let way_out = if from_stage + from_start > 0 { " (--keep-passed leaves them alone)" } else { "" };
    format!("stage {name} is configured otherwise: {}{way_out}", parts.join("; "))
}

fn go(n: u64) -> String {
    format!("{} go{}", items(n), if n == 1 { "es" } else { "" })
}

fn items(n: u64) -> String {
    format!("{} item{}", count(n), if n == 1 { "" } else { "s" })
}

fn told(context: &Context, text: &str) {
    if !context.global.quiet {
        note(text);
    }
}
