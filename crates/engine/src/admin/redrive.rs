//! Dead items are sent back, from the stage that failed them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Commit, ItemFilter, ItemQuery, Operation, OutputKey, Result, RunChange, Store};
use serde::{Deserialize, Serialize};

use super::{Done, PAGE, Plans, Request, close, dead, is_open, open};
use crate::crash;
use crate::env::Env;

/// What to send back, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    let operation = open(store, &Request::Redrive(request.clone()), actor, env.clock.now()).await?;
    go_on(store, plans, request, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    plans: Plans<'_>,
    request: &Redrive,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    let mut query = ItemQuery { filter: dead(&request.filter), after: operation.after, limit: PAGE };
    // One that was broken off goes on, and then looks once more at what died behind it meanwhile.
    let mut again = operation.after.is_some();
    loop {
        let left = request.limit.map_or(u64::MAX, |limit| limit.saturating_sub(operation.changed));
        query.limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
        let page = if query.limit == 0 { Vec::new() } else { store.items(query.clone()).await? };
        let Some(last) = page.last().map(|item| item.seq) else {
            if query.limit > 0 && std::mem::take(&mut again) {
                query.after = None;
                continue;
            }
            break;
        };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        let mut by_run: BTreeMap<RunId, Vec<Item>> = BTreeMap::new();
        for item in page {
            by_run.entry(item.run).or_default().push(item);
        }
        for (run, items) in by_run {
            let plan = plans(run);
            let seqs: Vec<ItemSeq> = items.iter().map(|item| item.seq).collect();
            let page = Page { store, run, items, request, env };
            if page.redrive(plan.as_ref(), &mut operation).await? {
                continue;
            }
            // One of them changed meanwhile, so nothing of the page was written: each for itself then.
            for seq in seqs {
                let items: Vec<Item> = store.item(seq).await?.into_iter().collect();
                let alone = Page { store, run, items, request, env };
                operation.skipped += u64::from(!alone.redrive(plan.as_ref(), &mut operation).await?);
            }
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
    /// Sends the page back, whole or not at all; `false` when something in it had changed.
    async fn redrive(self, plan: Option<&Plan>, operation: &mut Operation) -> Result<bool> {
        let row = self.store.run(self.run).await?;
        let goes_on = row.is_some_and(|row| row.control != Control::Cancelled);
        let (Some(plan), true) = (plan, goes_on) else {
            operation.skipped += self.items.len() as u64;
            return Ok(true);
        };
        let now = self.env.clock.now();
        let mut changes: Vec<Transition> = Vec::new();
        let mut parents = BTreeSet::new();
        let mut redriven = 0;
        for item in &self.with_dead_children(plan).await? {
            let due = self.request.due(operation.changed + redriven, now);
            let event = Event::Redriven { due, payload: None };
            let Ok(transition) = decide(item, event, plan, self.moment(now)) else { continue };
            let Some(ancestors) = self.reopen(item, plan, &parents, now).await? else { continue };
            parents.extend(ancestors.iter().map(|ancestor| ancestor.after.seq));
            changes.extend(ancestors);
            changes.push(transition);
            redriven += 1;
        }
        // A parent that a child of it reopens waits for the child; it is not sent back by itself as well.
        changes.retain(|change| {
            change.after.state.kind() != StateKind::Waiting || !parents.contains(&change.after.seq)
        });
        let after = self.items.last().map(|item| item.seq).max(operation.after);
        let progress = Operation {
            skipped: operation.skipped + (self.items.len() as u64).saturating_sub(redriven),
            changed: operation.changed + redriven,
            updated_at: now,
            after,
            ..operation.clone()
        };
        if !self.commit(changes, &progress, now).await? {
            return Ok(false);
        }
        *operation = progress;
        Ok(true)
    }

    /// The items, those that died of their children replaced by the children: they live again when the children do.
    async fn with_dead_children(&self, plan: &Plan) -> Result<Vec<Item>> {
        let mut leaves: BTreeMap<ItemSeq, Item> = BTreeMap::new();
        let mut left: Vec<Item> = self.items.clone();
        while let Some(item) = left.pop() {
            // One that died further on died by itself.
            if plan.stage(item.stage).is_none_or(|stage| stage.first_child.is_none()) {
                leaves.insert(item.seq, item);
                continue;
            }
            let filter = ItemFilter {
                run: Some(item.run),
                state: Some(StateKind::Dead),
                parent: Some(item.seq),
                ..ItemFilter::default()
            };
            let children = self.store.items(ItemQuery { filter, after: None, limit: MAX_CHILDREN }).await?;
            if children.is_empty() {
                leaves.insert(item.seq, item);
            } else {
                left.extend(children);
            }
        }
        Ok(leaves.into_values().collect())
    }

    async fn commit(&self, changes: Vec<Transition>, progress: &Operation, now: Timestamp) -> Result<bool> {
        let changes = changes.into_iter().map(Into::into).collect();
        crash::point("redrive.before_page");
        let commit = Commit {
            changes,
            all_or_nothing: true,
            unless_cancelled: Some(self.run),
            run: Some((self.run, RunChange { finished_at: Some(None), ..RunChange::default() })),
            operation: Some(progress.clone()),
            now,
        };
        let applied = self.store.commit(commit).await?;
        crash::point("redrive.after_page");
        Ok(!applied.contains(&Applied::Stale))
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
            let Ok(mut transition) = decide(&parent, event, plan, self.moment(now)) else { return Ok(None) };
            if transition.after.stage != parent.stage {
                // The stages after the join run again, on what they were given the first time.
                let kept = self.store.outputs(vec![OutputKey::expansion(parent.id, stage)]).await?;
                let Some(content) = kept.into_iter().next().flatten() else { return Ok(None) };
                transition.payload = Some(content);
            }
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
    let applied = store
        .commit(Commit {
            changes,
            all_or_nothing: true,
            unless_cancelled: Some(item.run),
            run,
            operation: None,
            now,
        })
        .await?;
    Ok(applied.iter().all(|applied| *applied == Applied::Done))
}
