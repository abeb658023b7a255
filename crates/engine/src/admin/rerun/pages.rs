//! The pages of a rerun. What a stage was given is looked for in the store; of the others, the source is read from its
//! beginning for those that it still has as they were, and nothing of it is admitted.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::{ItemId, ItemSeq, StageNo};
use redrive_core::item::{Item, Payload};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Change, Commit, Error, ItemQuery, Operation, Result, RunChange, Store};

use super::{Rerun, Rerunning, Way};
use crate::admin::set::unchanged;
use crate::admin::{Plans, is_open, plan_of};
use crate::crash;
use crate::env::Env;
use crate::source::read_apart;

/// Items of a page, whose contents are read and written with it.
const PAGE: usize = 500;
/// Most items that one reading of the source looks for.
const WANTED: usize = 50_000;

/// What the pages of one rerun have in common.
pub(in crate::admin) struct Pages<'a> {
    store: &'a dyn Store,
    plans: &'a dyn Plans,
    plan: Plan,
    request: &'a Rerun,
    env: &'a Env,
    /// How far it is; `None` when it only says what it would do.
    pub(in crate::admin) operation: Option<Operation>,
    /// Items that were changed, and left alone, by those who did pages of it before.
    before: (u64, u64),
    /// Whether somebody has done pages of it before.
    resumed: bool,
    /// What became of those that were looked at.
    pub(super) told: Rerunning,
    /// Those that are to be looked for in the source.
    wanted: BTreeMap<ItemId, Item>,
    /// Whether the items are those that were frozen with the operation.
    set: bool,
    /// Those that would be sent, where it only says what it would do, up to so many.
    pub(super) seen: Vec<Item>,
    most: usize,
}

impl<'a> Pages<'a> {
    pub(in crate::admin) async fn new(
        store: &'a dyn Store,
        plans: &'a dyn Plans,
        request: &'a Rerun,
        operation: Option<Operation>,
        env: &'a Env,
    ) -> Result<Self> {
        let plan = plan_of(plans, request.run).await?;
        let before = operation.as_ref().map(|row| (row.changed, row.skipped)).unwrap_or_default();
        let resumed = operation.as_ref().is_some_and(|row| row.changed > 0 || row.after.is_some());
        let (told, wanted) = (Rerunning::default(), BTreeMap::new());
        let (set, seen, most) = (false, Vec::new(), 0);
        Ok(Self {
            store,
            plans,
            plan,
            request,
            env,
            operation,
            before,
            resumed,
            told,
            wanted,
            set,
            seen,
            most,
        })
    }

    /// The same for the items that were frozen with the operation, and no others.
    pub(in crate::admin) fn of_set(self) -> Self {
        Self { set: true, ..self }
    }

    /// The same, and remembers so many of the items that it would send.
    pub(super) fn seen_up_to(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Does all pages that are left.
    pub(in crate::admin) async fn all(&mut self) -> Result<()> {
        // Of a set, those that were sent before say so themselves.
        let mut after = self.operation.as_ref().filter(|_| !self.set).and_then(|row| row.after);
        loop {
            let page = self.next_page(after).await?;
            if !self.is_wanted().await? {
                return Ok(());
            }
            let Some((page, last)) = page else { return self.read_source(after).await };
            after = Some(last);
            self.page(&page).await?;
            if self.wanted.len() >= WANTED {
                self.read_source(after).await?;
            }
        }
    }

    /// The items that come next, and where they end.
    async fn next_page(&self, after: Option<ItemSeq>) -> Result<Option<(Vec<Item>, ItemSeq)>> {
        let Some(operation) = self.operation.as_ref().filter(|_| self.set) else {
            let query = ItemQuery { filter: self.request.filter(), after, limit: PAGE };
            let page = self.store.items(query).await?;
            let last = page.last().map(|item| item.seq);
            return Ok(last.map(|last| (page, last)));
        };
        let members = self.store.members(operation.id, after, PAGE).await?;
        let Some(last) = members.last().map(|member| member.item) else { return Ok(None) };
        let Rerun { run, key, .. } = self.request;
        let mut page = unchanged(self.store, &members).await?;
        page.retain(|item| item.run == *run && key.as_ref().is_none_or(|key| **key == *item.key));
        Ok(Some((page, last)))
    }

    /// Whether nobody has stopped it.
    async fn is_wanted(&self) -> Result<bool> {
        match &self.operation {
            Some(row) => is_open(self.store, row.id).await,
            None => Ok(true),
        }
    }

    /// Whether an item is to be done again, and was not by this very operation.
    fn means(&self, item: &Item) -> bool {
        let begun = self.operation.as_ref().filter(|_| self.resumed && !self.set).map(|row| row.created_at);
        self.request.means(item) && begun.is_none_or(|begun| item.updated_at < begun)
    }

    /// Sends those of a page of which is known what the stage was given, and notes those that the source has to give.
    async fn page(&mut self, page: &[Item]) -> Result<()> {
        let meant: Vec<&Item> = page.iter().filter(|item| self.means(item)).collect();
        let ways = self.request.ways(self.store, &meant).await?;
        let mut sent = Vec::new();
        for (item, way) in meant.into_iter().zip(ways) {
            match way {
                Way::From(payload) => sent.push((item.clone(), payload)),
                Way::Start => drop(self.wanted.insert(item.id, item.clone())),
                Way::NotKept => self.told.not_kept += 1,
                Way::Edited => self.told.edited += 1,
            }
        }
        // What is looked for in the source is not done with yet.
        let done = if self.wanted.is_empty() { page.last().map(|item| item.seq) } else { None };
        self.send(&sent, From::Stage, done).await
    }

    /// Sends those that the source has as they were. `last` is the item that all pages so far ended with.
    async fn read_source(&mut self, last: Option<ItemSeq>) -> Result<()> {
        if self.wanted.is_empty() {
            return Ok(());
        }
        let Some(mut source) = self.plans.source(self.request.run).await? else {
            self.told.not_kept += std::mem::take(&mut self.wanted).len() as u64;
            return self.send(&[], From::Start, last).await;
        };
        loop {
            let (given_back, read) = read_apart(source).await.map_err(unread)?;
            source = given_back;
            let piece = read.map_err(unread)?;
            let found = piece.items.into_iter().filter(|line| line.refused.is_none()).filter_map(|line| {
                let id = ItemId::derive(self.request.run, None, &line.key, line.version());
                self.wanted.remove(&id).map(|item| (item, line.payload))
            });
            let found: Vec<(Item, Payload)> = found.collect();
            for page in found.chunks(PAGE) {
                self.send(page, From::Start, None).await?;
            }
            if piece.done || self.wanted.is_empty() || !self.is_wanted().await? {
                break;
            }
        }
        self.told.gone += std::mem::take(&mut self.wanted).len() as u64;
        self.send(&[], From::Start, last).await
    }

    /// Has items go again with what a stage is given, and keeps how far that is: everything up to `done`.
    async fn send(&mut self, items: &[(Item, Payload)], from: From, done: Option<ItemSeq>) -> Result<()> {
        let now = self.env.clock.now();
        let stage = match from {
            From::Stage => self.request.stage,
            From::Start => StageNo(0),
        };
        let decided = items.iter().filter_map(|(item, payload)| {
            let at = Moment { now, draw: self.env.dice.draw() };
            decide(item, Event::Rerun { stage, payload: payload.clone() }, &self.plan, at).ok()
        });
        let changes: Vec<Change> = decided
            .map(|transition| Change { forgets: self.request.anew.clone(), ..Change::from(transition) })
            .collect();
        self.told.moved += (items.len() - changes.len()) as u64;
        let room = self.most.saturating_sub(self.seen.len());
        if room > 0 {
            let going: BTreeSet<ItemSeq> = changes.iter().map(|change| change.transition.after.seq).collect();
            let seen = items.iter().map(|(item, _)| item).filter(|item| going.contains(&item.seq));
            self.seen.extend(seen.take(room).cloned());
        }
        let applied = self.commit(changes, done, now).await?;
        for applied in applied {
            *match (applied, from) {
                (Applied::Stale, _) => &mut self.told.moved,
                (Applied::Done, From::Stage) => &mut self.told.from_stage,
                (Applied::Done, From::Start) => &mut self.told.from_start,
            } += 1;
        }
        self.count(0);
        Ok(())
    }

    /// Writes changes with how far the operation is; one that only says what it would do takes them for written.
    async fn commit(
        &mut self,
        changes: Vec<Change>,
        done: Option<ItemSeq>,
        now: Timestamp,
    ) -> Result<Vec<Applied>> {
        self.count(changes.len() as u64);
        let Some(row) = &mut self.operation else { return Ok(vec![Applied::Done; changes.len()]) };
        (row.updated_at, row.after) = (now, done.or(row.after));
        let run = self.request.run;
        crash::point("rerun.before_page");
        let goes_on = (!changes.is_empty()).then(|| (run, RunChange::goes_on()));
        let commit = Commit {
            changes,
            unless_cancelled: Some(run),
            run: goes_on,
            operation: Some(row.clone()),
            now,
            ..Commit::default()
        };
        let applied = self.store.commit(commit).await?;
        crash::point("rerun.after_page");
        Ok(applied)
    }

    /// Counts what was done, and what is being written, for whoever asks how far it is.
    fn count(&mut self, written: u64) {
        let Some(row) = &mut self.operation else { return };
        row.changed = self.before.0 + self.told.sent() + written;
        row.skipped = self.before.1 + self.told.left_alone();
        self.env.progress.reached(row.changed + row.skipped, None);
    }
}

/// Where items go again from.
#[derive(Debug, Clone, Copy)]
enum From {
    /// The stage that was named.
    Stage,
    /// The first one, with what the source has.
    Start,
}

fn unread(error: crate::source::SourceError) -> Error {
    Error::Internal(error.to_string())
}
