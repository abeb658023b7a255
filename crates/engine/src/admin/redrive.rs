//! Dead items are sent back, from the stage that failed them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{
    Applied, Commit, ItemFilter, ItemQuery, Operation, OperationKind, Result, RunChange, Store,
};
use serde::Serialize;

use super::{Done, PAGE, Plans, close, dead, is_open, open};
use crate::crash;
use crate::env::Env;

/// What to send back, and how.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Redrive {
    /// Which dead items.
    pub filter: ItemFilter,
    /// At most so many.
    pub limit: Option<u64>,
    /// So many a second; `None`: all at once.
    pub rate: Option<f64>,
}

impl Redrive {
    /// When the n-th item is due.
    fn due(&self, n: u64, now: Timestamp) -> Timestamp {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
        let seconds = self.rate.filter(|rate| *rate > 0.0).map_or(0.0, |rate| n as f64 / rate);
        now.after(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
    }
}

/// Sends dead items back, page by page. The same request after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn redrive(
    store: &dyn Store,
    plans: Plans<'_>,
    request: &Redrive,
    actor: &str,
    env: &Env,
) -> Result<Done> {
    let words = serde_json::to_string(request).unwrap_or_default();
    let begun = env.clock.now();
    let mut operation = open(store, OperationKind::Redrive, actor, words, begun).await?;
    let mut query = ItemQuery { filter: dead(&request.filter), after: operation.after, limit: PAGE };
    loop {
        let left = request.limit.map_or(u64::MAX, |limit| limit.saturating_sub(operation.changed));
        query.limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = if query.limit == 0 { Vec::new() } else { store.items(query.clone()).await? };
        let Some(last) = page.last().map(|item| item.seq) else { break };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        let mut by_run: BTreeMap<RunId, Vec<Item>> = BTreeMap::new();
        for item in page {
            by_run.entry(item.run).or_default().push(item);
        }
        for (run, items) in by_run {
            let page = Page { store, run, items, request, env };
            page.redrive(plans(run), &mut operation).await?;
        }
        operation.after = Some(last);
    }
    close(store, operation, env.clock.now()).await
}

/// One page of one run.
struct Page<'a> {
    store: &'a dyn Store,
    run: RunId,
    items: Vec<Item>,
    request: &'a Redrive,
    env: &'a Env,
}

impl Page<'_> {
    async fn redrive(self, plan: Option<Plan>, operation: &mut Operation) -> Result<()> {
        let row = self.store.run(self.run).await?;
        let goes_on = row.is_some_and(|row| row.control != Control::Cancelled);
        let (Some(plan), true) = (plan, goes_on) else {
            operation.skipped += self.items.len() as u64;
            return Ok(());
        };
        let now = self.env.clock.now();
        let mut changes: Vec<Transition> = Vec::new();
        let mut parents = BTreeSet::new();
        let mut redriven = 0;
        for item in &self.items {
            let due = self.request.due(operation.changed + redriven, now);
            let event = Event::Redriven { due, payload: None };
            let Ok(transition) = decide(item, event, &plan, self.moment(now)) else { continue };
            let Some(ancestors) = self.reopen(item, &plan, &parents, now).await? else { continue };
            parents.extend(ancestors.iter().map(|ancestor| ancestor.after.seq));
            changes.extend(ancestors);
            changes.push(transition);
            redriven += 1;
        }
        // A parent that a child of it reopens waits for the child; it is not sent back by itself as well.
        changes.retain(|change| {
            change.after.state.kind() != StateKind::Waiting || !parents.contains(&change.after.seq)
        });
        operation.skipped += self.items.len() as u64 - redriven;
        operation.changed += redriven;
        operation.updated_at = now;
        operation.after = self.items.last().map(|item| item.seq).max(operation.after);
        self.commit(changes, redriven, operation, now).await
    }

    async fn commit(
        &self,
        changes: Vec<Transition>,
        n: u64,
        operation: &mut Operation,
        now: Timestamp,
    ) -> Result<()> {
        let run = Some((self.run, RunChange { finished_at: Some(None), ..RunChange::default() }));
        let changes = changes.into_iter().map(Into::into).collect();
        crash::point("redrive.before_page");
        let commit = Commit { changes, all_or_nothing: true, run, operation: Some(operation.clone()), now };
        let applied = self.store.commit(commit).await?;
        crash::point("redrive.after_page");
        if applied.contains(&Applied::Stale) {
            // Somebody else changed one of them; nothing of the page was written. They are told apart by hand or later.
            operation.changed -= n;
            operation.skipped += n;
        }
        Ok(())
    }

    fn moment(&self, now: Timestamp) -> Moment {
        Moment { now, draw: self.env.dice.draw() }
    }

    /// What has to happen above an item that lives again; `None` when it cannot live again below a parent that is gone.
    async fn reopen(
        &self,
        item: &Item,
        plan: &Plan,
        already: &BTreeSet<ItemSeq>,
        now: Timestamp,
    ) -> Result<Option<Vec<Transition>>> {
        let mut reopened = Vec::new();
        let mut child = item.clone();
        while let Some(parent) = child.parent.filter(|parent| !already.contains(parent)) {
            let (Some(parent), Some(stage)) =
                (self.store.item(parent).await?, plan.stage(child.stage).and_then(|stage| stage.owner))
            else {
                return Ok(None);
            };
            let event = Event::ChildReopened { stage };
            let Ok(transition) = decide(&parent, event, plan, self.moment(now)) else { return Ok(None) };
            reopened.push(transition);
            child = parent;
        }
        Ok(Some(reopened))
    }
}

/// Sends one dead item back with new content. `false` when it is not dead or cannot live again.
///
/// # Errors
/// When the store fails.
pub async fn redrive_edited(
    store: &dyn Store,
    plan: &Plan,
    item: &Item,
    payload: Payload,
    env: &Env,
) -> Result<bool> {
    let now = env.clock.now();
    let request = Redrive { filter: ItemFilter::default(), limit: None, rate: None };
    let page = Page { store, run: item.run, items: Vec::new(), request: &request, env };
    let event = Event::Redriven { due: now, payload: Some(payload) };
    let Ok(transition) = decide(item, event, plan, page.moment(now)) else { return Ok(false) };
    let Some(mut changes) = page.reopen(item, plan, &BTreeSet::new(), now).await? else { return Ok(false) };
    changes.push(transition);
    let run = Some((item.run, RunChange { finished_at: Some(None), ..RunChange::default() }));
    let changes = changes.into_iter().map(Into::into).collect();
    let applied = store.commit(Commit { changes, all_or_nothing: true, run, operation: None, now }).await?;
    Ok(applied.iter().all(|applied| *applied == Applied::Done))
}
