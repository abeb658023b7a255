//! A run over items that are given with it, and no others.

use std::collections::BTreeMap;

use redrive_core::id::{ContentHash, ItemId, RunId};
use redrive_engine::admit;
use redrive_pipeline::{Definition, SourceKind, title};
use redrive_store::{BegunRun, NewRun};
use serde::Serialize;

use super::answer::{Fate, Handed, HandedIn, Sum};
use super::given::{Given, Sighted};
use super::inbox::{HandIn, Inbox, prepare, ready};
use super::run::note;
use crate::error::{Error, Result};
use crate::index::makes_index;
use crate::pipelines::Pipeline;
use crate::runs::{Begin, refuse_second};
use crate::{Floor, Role};

/// A run, and what became of the items that it was begun with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunOfItems {
    /// The run.
    pub run: RunId,
    /// Whether it, or one of the standing runs that took the items, is new.
    #[serde(skip)]
    pub created: bool,
    /// What became of the items.
    #[serde(flatten)]
    pub handed: HandedIn,
}

/// Begins a run over these items: it is closed at once, and finished once they have ended. The same items for the same
/// pipeline are the same run, so that whoever got no answer asks again; `new` begins another. A pipeline with an inbox has its
/// standing run take them, which stays open.
///
/// # Errors
/// When there are none, another run or a priority is asked of a pipeline with an inbox, a stage cannot be built, the pipeline makes an index, or the store fails. A run that was begun
/// before that stays, and takes nothing more.
pub async fn run_of_items(
    floor: &Floor,
    pipeline: Pipeline,
    items: Vec<Given>,
    request: Begin,
) -> Result<RunOfItems> {
    floor.require(Role::Operator)?;
    if pipeline.definition.source.kind == SourceKind::Inbox {
        refuse_second(&request)?;
        refuse_priority(&request)?;
    }
    let Begin { category, priority, keep_passed, new: another } = request;
    if let Some(category) = &category {
        title(category).map_err(Error::wrong)?;
    }
    if items.is_empty() {
        return Err(Error::wrong("a run over given items needs at least one"));
    }
    let definition = pipeline.definition.clone();
    let hand_in = HandIn { category: category.or(definition.category.clone()), priority, keep_passed };
    if definition.source.kind == SourceKind::Inbox {
        let prepared = prepare(&*floor.wiring, pipeline, hand_in)?;
        let handed = Inbox::open(floor, prepared).items(items).await?;
        let run = handed.runs.first().map(|run| run.run);
        let run = run.ok_or_else(|| Error::wrong("none of the items can be used").hint(refusals(&handed)))?;
        let created = handed.runs.iter().any(|run| run.created);
        return Ok(RunOfItems { run, created, handed });
    }
    if makes_index(&definition) {
        return Err(Error::wrong("the pipeline makes an index of files, not of given items"));
    }
    let new = NewRun {
        pipeline: definition.name.clone(),
        source: NewRun::items(identity(&pipeline.text, hand_in.category.as_deref(), &items)),
        category: hand_in.category.clone(),
        priority: priority.unwrap_or(definition.priority),
        definition: pipeline.text.clone(),
        folder: pipeline.folder.display().to_string(),
    };
    let items: Vec<Given> = items.into_iter().map(|given| Given { category: None, ..given }).collect();
    let prepared = ready(&*floor.wiring, pipeline, hand_in)?;
    let BegunRun { row, created } = match another {
        true => BegunRun { row: floor.store.create_run(new, floor.now()).await?, created: true },
        false => floor.store.begin_run(new, true, floor.now()).await?,
    };
    if !created && !row.is_open() {
        return Ok(RunOfItems { run: row.id, created, handed: known(&definition, row.id, &items) });
    }
    note(floor, &row, created).await?;
    let handed = Inbox::of_run(floor, prepared, row.id).items(items).await;
    admit::close(&*floor.store, row.id, floor.now()).await?;
    Ok(RunOfItems { run: row.id, created, handed: handed? })
}

/// The standing run that takes the items is there, as a rule, and keeps the priority that it was begun with.
fn refuse_priority(request: &Begin) -> Result<()> {
    match request.priority {
        None => Ok(()),
        Some(_) => Err(Error::wrong(
            "items for a pipeline with an inbox go to its standing run, which has a priority",
        )
        .hint("leave `priority` out; the pipeline's file names the one that its runs begin with")),
    }
}

/// What tells a run over these items from another.
fn identity(pipeline: &str, category: Option<&str>, items: &[Given]) -> ContentHash {
    let mut parts: Vec<&[u8]> = vec![pipeline.as_bytes(), category.unwrap_or_default().as_bytes()];
    for Given { key, payload, .. } in items {
        parts.push(key.as_deref().unwrap_or_default().as_bytes());
        parts.push(payload.as_bytes());
    }
    ContentHash::of(&parts)
}

/// A run that was closed has all of its items: it was closed after the last of them.
fn known(definition: &Definition, run: RunId, items: &[Given]) -> HandedIn {
    let mut sum = Sum::default();
    for (line, given) in (1..).zip(items) {
        let Sighted { key, item, .. } = given.sighted(line, definition.source.key.as_deref());
        let refused =
            Handed { line, key, id: None, run: None, category: None, outcome: Fate::Refused, reason: None };
        sum.list(match item {
            Err(why) => Handed { reason: Some(why), ..refused },
            Ok(item) => Handed {
                key: Some(item.key.to_string()),
                id: Some(ItemId::derive(run, None, &item.key, item.version())),
                run: Some(run),
                outcome: Fate::Known,
                ..refused
            },
        });
    }
    sum.told(&definition.name, &BTreeMap::new())
}

fn refusals(handed: &HandedIn) -> String {
    let first = handed.items.iter().find_map(|item| item.reason.as_ref().map(|why| (item.line, why)));
    first.map_or_else(String::new, |(line, why)| format!("item {line} {why}"))
}
