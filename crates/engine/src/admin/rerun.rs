//! Items that have ended are done again from a stage that they have passed.

mod pages;

use redrive_core::id::{ContentHash, RunId, StageNo};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_store::{Content, ItemFilter, Operation, OutputKey, Result, Store};
use serde::{Deserialize, Serialize};

use super::reconfigure::is_edited;
use super::{Done, Plans, Request, close, open};
use crate::env::Env;
pub(super) use pages::Pages;

/// What is to be done again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rerun {
    /// The run.
    pub run: RunId,
    /// Only the item with this key; `None`: all of them.
    pub key: Option<String>,
    /// The stage they go again from.
    pub stage: StageNo,
    /// The stages before it, in order, each with the mark its outputs are kept by.
    pub before: Vec<Option<i64>>,
    /// The marks that outputs of the stage and of those behind it are kept by: they are made anew.
    pub anew: Vec<i64>,
    /// Whether the source can be read again.
    pub can_reread: bool,
    /// Only dead items that this means, those included that died at the stage; `None`: all that have ended and passed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<ItemFilter>,
}

/// How many items are done again, and how many are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Rerunning {
    /// Those of which is known what the stage was given: they go again from it.
    pub from_stage: u64,
    /// Those of which it is not: their source has them as they were, and they go through the stages before it, too.
    pub from_start: u64,
    /// Those of which it is not, and whose source cannot be read again: they stay as they are.
    pub not_kept: u64,
    /// Those of which it is not, and that their source does not have any more as they were: they stay as they are.
    pub gone: u64,
    /// Those with content that somebody gave them in place of their source's: they stay as they are.
    pub edited: u64,
    /// Those that something happened to meanwhile.
    pub moved: u64,
}

impl Rerunning {
    /// Items that are done again.
    #[must_use]
    pub fn sent(self) -> u64 {
        self.from_stage + self.from_start
    }

    /// Items that stay as they are.
    #[must_use]
    pub fn left_alone(self) -> u64 {
        self.not_kept + self.gone + self.edited + self.moved
    }
}

/// What has to happen to an item.
enum Way {
    /// It goes again from the stage, with this.
    From(Payload),
    /// It goes again from the first stage, with what its source has.
    Start,
    /// Nobody knows what it was.
    NotKept,
    /// Its source never had what it was.
    Edited,
}

impl Rerun {
    fn filter(&self) -> ItemFilter {
        let top =
            ItemFilter { run: Some(self.run), top: true, key: self.key.clone(), ..ItemFilter::default() };
        match &self.dead {
            None => top,
            Some(dead) => {
                ItemFilter { state: Some(StateKind::Dead), run: top.run, top: true, ..dead.clone() }
            }
        }
    }

    /// Whether an item has ended and passed the stage, or was filtered by it.
    fn means(&self, item: &Item) -> bool {
        !item.is_refused()
            && match item.state.kind() {
                StateKind::Succeeded => self.dead.is_none(),
                StateKind::Filtered => self.dead.is_none() && item.stage >= self.stage,
                StateKind::Dead => {
                    item.stage > self.stage || (self.dead.is_some() && item.stage == self.stage)
                }
                StateKind::Waiting
                | StateKind::Running
                | StateKind::Joining
                | StateKind::Superseded
                | StateKind::Cancelled => false,
            }
    }

    /// What has to happen to each of these items.
    async fn ways(&self, store: &dyn Store, items: &[&Item]) -> Result<Vec<Way>> {
        let given = self.given(store, items).await?;
        let mut ways = Vec::with_capacity(items.len());
        for (item, given) in items.iter().zip(given) {
            ways.push(match given {
                Some(payload) => Way::From(payload),
                None if is_edited(store, item).await? => Way::Edited,
                None if self.can_reread => Way::Start,
                None => Way::NotKept,
            });
        }
        Ok(ways)
    }

    /// What the stage was given of each item, where that is still known: kept outputs are followed from what an item was
    /// submitted with, and what nobody has changed is there as it was.
    async fn given(&self, store: &dyn Store, items: &[&Item]) -> Result<Vec<Option<Payload>>> {
        let ended_there = [StateKind::Filtered, StateKind::Dead];
        let is_here = |item: &Item| item.stage == self.stage && ended_there.contains(&item.state.kind());
        let mut inputs: Vec<Option<ContentHash>> = items.iter().map(|item| Some(item.version)).collect();
        let mut given: Vec<Option<Payload>> = vec![None; items.len()];
        for mark in &self.before {
            let asked = inputs.iter().map(|input| Some(OutputKey { config: (*mark)?, input: (*input)? }));
            let asked: Vec<Option<OutputKey>> = asked.collect();
            let mut found = store.outputs(asked.iter().flatten().copied().collect()).await?.into_iter();
            for (at, asked) in asked.iter().enumerate() {
                given[at] = asked.and_then(|_| found.next().flatten()).map(|kept| kept.payload);
                inputs[at] = given[at].as_ref().map(|payload| ContentHash::of(&[payload]));
            }
        }
        for (at, item) in items.iter().enumerate() {
            if is_here(item) || self.before.is_empty() {
                let present = store.payload(item.seq).await?.and_then(Content::whole);
                given[at] =
                    present.filter(|payload| is_here(item) || ContentHash::of(&[payload]) == item.version);
            }
        }
        Ok(given)
    }
}

/// Says what [`rerun`] would do now: it does the same and writes nothing.
///
/// # Errors
/// When the store or the source fails.
pub async fn preview_rerun(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Rerun,
    env: &Env,
) -> Result<Rerunning> {
    let mut pages = Pages::new(store, plans, request, None, env).await?;
    pages.all().await?;
    Ok(pages.told)
}

/// What a [`rerun`] would do now, and to which items.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Foreseen {
    /// How many.
    pub told: Rerunning,
    /// Those that would be done again.
    pub items: Vec<Item>,
}

/// Reads the items that [`rerun`] would have done again, and changes nothing. All of them are held at once, and more than `most` are
/// not looked for.
///
/// # Errors
/// When the store or the source fails.
pub async fn preview_rerun_items(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Rerun,
    most: usize,
    env: &Env,
) -> Result<Foreseen> {
    let mut pages = Pages::new(store, plans, request, None, env).await?.seen_up_to(most);
    pages.all().await?;
    Ok(Foreseen { told: pages.told, items: pages.seen })
}

/// Has items done again, page by page. Each keeps what it came to until it goes again. The same request after a crash goes on
/// where it was.
///
/// # Errors
/// When the store or the source fails; the pages before stay done.
pub async fn rerun(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Rerun,
    actor: &str,
    env: &Env,
) -> Result<(Rerunning, Done)> {
    let operation = open(store, &Request::Rerun(request.clone()), actor, env.clock.now()).await?;
    go_on(store, plans, request, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Rerun,
    operation: Operation,
    env: &Env,
) -> Result<(Rerunning, Done)> {
    let mut pages = Pages::new(store, plans, request, Some(operation.clone()), env).await?;
    pages.all().await?;
    let operation = pages.operation.take().unwrap_or(operation);
    Ok((pages.told, close(store, operation, env.clock.now()).await?))
}
