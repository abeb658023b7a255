//! Which dead items are sent back: asked by a preview and by the redrive itself, so that both mean the same ones.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::decide::{MAX_CHILDREN, Moment, decide};
use redrive_core::event::{Event, Transition};
use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{ItemFilter, ItemQuery, OutputKey, Result, Store};

use super::{Pace, Redrive};
use crate::env::Env;

/// Dead items of one run, in the order of submission.
pub(super) struct Page<'a> {
    pub(super) store: &'a dyn Store,
    pub(super) run: RunId,
    pub(super) items: Vec<Item>,
    pub(super) env: &'a Env,
}

/// What a page comes to.
#[derive(Default)]
pub(super) struct Selected {
    /// What has to be written, ancestors that wait for their children again included.
    pub(super) changes: Vec<Transition>,
    /// The items that are sent back, as they are before.
    pub(super) redriven: Vec<Item>,
    /// How many cannot be.
    pub(super) skipped: u64,
}

impl Page<'_> {
    /// Selects at most so many of the page; `sent` were sent back before, at this pace.
    pub(super) async fn select(
        &self,
        plan: Option<&Plan>,
        request: &Redrive,
        (pace, sent): (Pace, u64),
        at_most: u64,
    ) -> Result<Selected> {
        let row = self.store.run(self.run).await?;
        let goes_on = row.is_some_and(|row| row.control != Control::Cancelled);
        let (Some(plan), true) = (plan, goes_on) else {
            return Ok(Selected { skipped: self.items.len() as u64, ..Selected::default() });
        };
        let now = self.env.clock.now();
        let mut selected = Selected::default();
        let (mut parents, mut redriven) = (BTreeSet::new(), Vec::new());
        for item in self.with_dead_children(plan).await? {
            let n = redriven.len() as u64;
            if n >= at_most {
                break;
            }
            let (due, policy) = (pace.due(sent + n, request.rate), request.retry.clone());
            let event = Event::Redriven { due, payload: None, policy };
            // What its source refused, for one, can be sent back with other content only.
            let transition = decide(&item, event, plan, self.moment(now)).ok();
            let above = match &transition {
                Some(_) => self.reopen(&item, plan, &parents, now).await?,
                None => None,
            };
            let (Some(transition), Some(ancestors)) = (transition, above) else {
                selected.skipped += 1;
                continue;
            };
            parents.extend(ancestors.iter().map(|ancestor| ancestor.after.seq));
            selected.changes.extend(ancestors);
            selected.changes.push(transition);
            redriven.push(item);
        }
        // A parent that a child of it reopens waits for the child; it is not sent back by itself as well.
        selected.changes.retain(|change| {
            change.after.state.kind() != StateKind::Waiting || !parents.contains(&change.after.seq)
        });
        redriven.retain(|item: &Item| !parents.contains(&item.seq));
        selected.redriven = redriven;
        Ok(selected)
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

    pub(super) fn moment(&self, now: Timestamp) -> Moment {
        Moment { now, draw: self.env.dice.draw() }
    }

    /// What has to happen above an item that lives again; `None` when it cannot live again below a parent that is gone.
    pub(super) async fn reopen(
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
                let Some(kept) = kept.into_iter().next().flatten() else { return Ok(None) };
                transition.payload = Some(kept.payload);
            }
            reopened.push(transition);
            child = parent;
        }
        Ok(Some(reopened))
    }
}
