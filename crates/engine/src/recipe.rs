//! A pipeline that can be run: its plan, and a handler for every stage.

use std::num::NonZeroU32;
use std::sync::Arc;

use redrive_core::bisect::{is_worth_splitting, may_be_one_item, narrowed};
use redrive_core::budget::BudgetSpec;
use redrive_core::draw::Draw;
use redrive_core::failure::{Class, Failure, Kind};
use redrive_core::gate::GateSpec;
use redrive_core::id::StageNo;
use redrive_core::item::Item;
use redrive_core::order::Order;
use redrive_core::plan::Plan;
use redrive_core::policy::Next;
use redrive_core::status::Thresholds;

use crate::handler::Handler;

/// An item that was turned away so often in batches is called by itself.
const STUCK: u32 = 6;

/// A pipeline with everything that is needed to run it.
pub struct Recipe {
    /// What decisions look at.
    pub plan: Plan,
    /// What does the work, one for each stage of the plan.
    pub stages: Vec<StageWork>,
    /// The gates, each shared by the stages that name it.
    pub gates: Vec<GateWork>,
    /// Who goes first.
    pub order: Order,
    /// Share reserved for the lane that goes second.
    pub share: f64,
    /// How much failure is too much; `None`: none is.
    pub budget: Option<BudgetSpec>,
    /// Most dead items before nothing more is begun; `None`: any number.
    pub max_dead: Option<u64>,
    /// From which share of success on a run counts as what.
    pub thresholds: Thresholds,
}

/// One dependency's gate, as the pipeline describes it.
#[derive(Debug, Clone)]
pub struct GateWork {
    /// Its name: gates of one name are one gate, over all runs and processes on a store.
    pub name: Arc<str>,
    /// Its limits.
    pub spec: GateSpec,
}

/// How one stage does its work.
#[derive(Clone)]
pub struct StageWork {
    /// The handler.
    pub handler: Arc<dyn Handler>,
    /// Most items in one call.
    pub batch: usize,
    /// Most tokens in one call, as the handler estimates them.
    pub batch_tokens: Option<u64>,
    /// Most calls at a time.
    pub concurrency: usize,
    /// The gate its calls pass, by its place in [`Recipe::gates`].
    pub gate: Option<usize>,
    /// Keeps outputs under this mark of what the stage does, and uses a kept one instead of calling.
    pub reuse: Option<i64>,
}

impl StageWork {
    /// Most calls at a time at present: as many as were asked for, or as the handler has room for.
    #[must_use]
    pub fn at_once(&self) -> usize {
        self.handler.room().map_or(self.concurrency, |room| self.concurrency.min(room.calls))
    }

    /// Most items of the next call, and whether that is for the handler to say: calls under way may then be larger.
    #[must_use]
    pub fn call_size(&self) -> (usize, bool) {
        let batch = self.batch.max(1);
        let said = self.handler.room().and_then(|room| room.items);
        said.map_or((batch, false), |items| (items.clamp(1, batch), true))
    }

    /// Whether there is no room for a call, and will be none in this process.
    #[must_use]
    pub fn never_has_room(&self) -> bool {
        self.handler.room().is_some_and(|room| room.never)
    }

    /// Most items that are called for at a time.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.at_once().saturating_mul(self.batch)
    }
}

impl Recipe {
    /// Ends whatever its handlers keep running: nobody calls them any more.
    pub async fn close(&self) {
        for work in &self.stages {
            work.handler.close().await;
        }
    }

    /// How a stage does its work.
    #[must_use]
    pub fn work(&self, stage: StageNo) -> Option<&StageWork> {
        self.stages.get(stage.index())
    }
}

impl Recipe {
    /// The largest batch that an item may be part of, where batches hold so many.
    pub(crate) fn most_beside(&self, item: &Item, batch: usize) -> usize {
        // An answer is asked for by itself.
        if item.handed.is_some() {
            return 1;
        }
        let Some(last) = item.last.as_ref().filter(|_| batch > 1) else { return batch };
        if self.runs_alone(item) {
            return 1;
        }
        let again = Failure::new(last.class, last.kind, "");
        let Some(stage) = self.plan.stage(item.stage).filter(|_| last.shared && may_be_one_item(&again))
        else {
            return batch;
        };
        let most = stage.policy_of(item).most_failures_like(&self.reclassified(item, &again));
        narrowed(batch, item.failures, most.map(NonZeroU32::get))
    }

    /// Whether an item has to be called by itself: its next failure would be its last, and so far only batches that it
    /// was part of have failed, so that it need not be the culprit; or it made a whole call fail by itself, or killed its
    /// process, and would again; or it was refused, and others tell why.
    fn runs_alone(&self, item: &Item) -> bool {
        item.last.as_ref().is_some_and(|last| {
            let killer = last.class == Class::Crash && last.kind != Kind::Worker;
            let again = Failure::new(last.class, last.kind, "");
            // Refused as if the key were not good: whether it is to blame can only be told of it alone.
            let refused = last.kind == Kind::Access;
            // One of a batch that is turned away again and again may be what it is turned away for.
            let stuck = last.class == Class::RateLimited && item.throttles >= STUCK;
            // It alone made a whole call fail: in the next batch it would again, and that would be taken apart again.
            let guilty = last.kind != Kind::Handler && is_worth_splitting(&again);
            refused || stuck || if last.shared { self.would_end(item, &again) } else { killer || guilty }
        })
    }

    /// The failure as the item's policy takes it.
    pub(crate) fn reclassified(&self, item: &Item, failure: &Failure) -> Failure {
        match self.plan.stage(item.stage) {
            Some(stage) => stage.policy_of(item).reclassify(failure.clone()),
            None => failure.clone(),
        }
    }

    /// Whether such a failure would be the item's end.
    pub(crate) fn would_end(&self, item: &Item, failure: &Failure) -> bool {
        let Some(policy) = self.plan.policy_of(item) else { return false };
        let failure = self.reclassified(item, failure);
        let next = match failure.class {
            Class::RateLimited | Class::Quota => return false,
            Class::Final | Class::Oversized => return true,
            Class::Crash => policy.after_crash(item.crashes.saturating_add(1), failure.kind, Draw::MIDDLE),
            Class::Retryable | Class::Timeout => {
                policy.after_failure(item.failures.saturating_add(1), &failure, Draw::MIDDLE)
            }
        };
        next == Next::GiveUp
    }
}

impl std::fmt::Debug for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recipe").field("plan", &self.plan).finish_non_exhaustive()
    }
}
