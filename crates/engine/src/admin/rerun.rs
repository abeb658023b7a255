//! Items that have ended are done again from a stage that they have passed.

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Gone};
use redrive_core::id::{ContentHash, RunId, StageNo};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_store::{
    Applied, Change, Commit, Content, ItemFilter, ItemQuery, Operation, OutputKey, Result, RunChange, Store,
};
use serde::{Deserialize, Serialize};

use super::reconfigure::is_edited;
use super::{Done, Request, close, is_open, open};
use crate::crash;
use crate::env::Env;

/// Items of a page, whose contents are read and written with it.
const PAGE: usize = 500;

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
}

/// How many items are done again, and how many are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Rerunning {
    /// Those of which is known what the stage was given: they go again from it.
    pub from_stage: u64,
    /// Those of which it is not: they are read again and go through the stages before it.
    pub from_start: u64,
    /// Those of which it is not, and whose source cannot be read again: they stay as they are.
    pub not_kept: u64,
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

    /// The count of those to which this has to happen.
    fn of(&mut self, way: &Way) -> &mut u64 {
        match way {
            Way::From(_) => &mut self.from_stage,
            Way::Start => &mut self.from_start,
            Way::NotKept => &mut self.not_kept,
            Way::Edited => &mut self.edited,
        }
    }

    fn left_alone(self) -> u64 {
        self.not_kept + self.edited + self.moved
    }
}

/// What has to happen to an item.
enum Way {
    From(Payload),
    Start,
    NotKept,
    Edited,
}

impl Rerun {
    fn filter(&self) -> ItemFilter {
        ItemFilter { run: Some(self.run), top: true, key: self.key.clone(), ..ItemFilter::default() }
    }

    /// Whether an item has ended and passed the stage, or was filtered by it.
    fn means(&self, item: &Item) -> bool {
        !item.is_refused()
            && match item.state.kind() {
                StateKind::Succeeded => true,
                StateKind::Filtered => item.stage >= self.stage,
                StateKind::Dead => item.stage > self.stage,
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
        let is_here = |item: &Item| item.state.kind() == StateKind::Filtered && item.stage == self.stage;
        let mut inputs: Vec<Option<ContentHash>> = items.iter().map(|item| Some(item.version)).collect();
        let mut given: Vec<Option<Payload>> = vec![None; items.len()];
        for mark in &self.before {
            let asked = inputs.iter().map(|input| Some(OutputKey { config: (*mark)?, input: (*input)? }));
            let asked: Vec<Option<OutputKey>> = asked.collect();
            let mut found = store.outputs(asked.iter().flatten().copied().collect()).await?.into_iter();
            for (at, asked) in asked.iter().enumerate() {
                given[at] = asked.and_then(|_| found.next().flatten());
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

/// Says what [`rerun`] would do now.
///
/// # Errors
/// When the store fails.
pub async fn preview_rerun(store: &dyn Store, request: &Rerun) -> Result<Rerunning> {
    let mut query = ItemQuery { filter: request.filter(), after: None, limit: PAGE };
    let mut all = Rerunning::default();
    loop {
        let page = store.items(query.clone()).await?;
        let Some(last) = page.last().map(|item| item.seq) else { return Ok(all) };
        query.after = Some(last);
        let meant: Vec<&Item> = page.iter().filter(|item| request.means(item)).collect();
        for way in request.ways(store, &meant).await? {
            *all.of(&way) += 1;
        }
    }
}

/// Has items done again, page by page. The same request after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn rerun(
    store: &dyn Store,
    plan: &Plan,
    request: &Rerun,
    actor: &str,
    env: &Env,
) -> Result<(Rerunning, Done)> {
    let operation = open(store, &Request::Rerun(request.clone()), actor, env.clock.now()).await?;
    go_on(store, plan, request, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    plan: &Plan,
    request: &Rerun,
    mut operation: Operation,
    env: &Env,
) -> Result<(Rerunning, Done)> {
    let mut query = ItemQuery { filter: request.filter(), after: operation.after, limit: PAGE };
    let mut rerun = Pages { store, plan, request, env, all: Rerunning::default(), reads: false };
    loop {
        let page = store.items(query.clone()).await?;
        let Some(last) = page.last().map(|item| item.seq) else { break };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        operation.after = Some(last);
        let before = rerun.all;
        rerun.page(&page, &mut operation).await?;
        operation.changed += rerun.all.sent() - before.sent();
        operation.skipped += rerun.all.left_alone() - before.left_alone();
        env.progress.reached(operation.changed + operation.skipped, None);
    }
    Ok((rerun.all, close(store, operation, env.clock.now()).await?))
}

/// What the pages of one operation have in common.
struct Pages<'a> {
    store: &'a dyn Store,
    plan: &'a Plan,
    request: &'a Rerun,
    env: &'a Env,
    all: Rerunning,
    /// Whether the source is to be read again.
    reads: bool,
}

impl Pages<'_> {
    async fn page(&mut self, page: &[Item], operation: &mut Operation) -> Result<()> {
        let now = self.env.clock.now();
        let run = self.request.run;
        let (mut starts, mut changes) = (Vec::new(), Vec::new());
        let meant: Vec<&Item> = page.iter().filter(|item| self.request.means(item)).collect();
        let ways = self.request.ways(self.store, &meant).await?;
        for (item, way) in meant.into_iter().zip(ways) {
            let event = match way {
                Way::From(payload) => Event::Rerun { stage: self.request.stage, payload },
                Way::Start => Event::Superseded(Gone::Rerun),
                Way::NotKept | Way::Edited => {
                    *self.all.of(&way) += 1;
                    continue;
                }
            };
            let start = matches!(event, Event::Superseded(_));
            if start && !std::mem::replace(&mut self.reads, true) {
                // A crash from here on finds a source that is to be read from its beginning.
                let last = self.store.run(run).await?.map_or(0, |row| row.reading);
                self.store.begin_reading(run, last, None).await?;
                crash::point("rerun.reading_begun");
            }
            let at = Moment { now, draw: self.env.dice.draw() };
            if let Ok(transition) = decide(item, event, self.plan, at) {
                starts.push(start);
                changes.push(Change { forgets: self.request.anew.clone(), ..Change::from(transition) });
            }
        }
        operation.updated_at = now;
        crash::point("rerun.before_page");
        let goes_on = (!changes.is_empty()).then(|| (run, RunChange::goes_on()));
        let commit = Commit {
            changes,
            unless_cancelled: Some(run),
            run: goes_on,
            operation: Some(operation.clone()),
            now,
            ..Commit::default()
        };
        let applied = self.store.commit(commit).await?;
        crash::point("rerun.after_page");
        for (start, applied) in starts.into_iter().zip(applied) {
            let count = match (applied, start) {
                (Applied::Stale, _) => &mut self.all.moved,
                (Applied::Done, true) => &mut self.all.from_start,
                (Applied::Done, false) => &mut self.all.from_stage,
            };
            *count += 1;
        }
        Ok(())
    }
}
