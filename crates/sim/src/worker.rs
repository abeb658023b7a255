//! A simulated worker's process: it works on the run whenever there is something to do, as a daemon would.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::{Ending, Stop};
use redrive_store::{Retired, Store};

use crate::hub::Hub;
use crate::mailbox::Orders;
use crate::met::Met;
use crate::scenario::Pace;
use crate::script::Script;
use crate::shift::Shift;
use crate::slip::Slip;
use crate::store::FaultyStore;

/// Everything a worker's process has.
#[derive(Clone)]
pub struct Worker {
    /// The run's shared part.
    pub hub: Arc<Hub>,
    /// The store as this process sees it.
    pub store: FaultyStore,
    /// Its clock and dice.
    pub env: Env,
    /// The pipeline.
    pub recipe: Arc<Recipe>,
    /// What handlers answer.
    pub script: Arc<Script>,
    /// The run.
    pub run: RunId,
    /// Speed.
    pub pace: Pace,
    /// Whether the source is read in this process.
    pub admitting: Arc<AtomicBool>,
    /// A mistake that it makes.
    pub slip: Option<Slip>,
    /// What it is told from outside.
    pub orders: Arc<Orders>,
}

impl Worker {
    /// Lives until it is told to stop.
    pub async fn live(self) {
        // A process that comes up on the same machine knows that its predecessor is gone.
        if let Some(before) = self.orders.predecessor()
            && self.hub.rng.permille(500)
            && self.store.retire(before, Retired::Lost).await.is_ok()
        {
            self.hub.meet(Met::RetiredLost);
        }
        loop {
            if self.has_work().await {
                match Shift::work(&self).await {
                    Ok(Ending::Stopped) if self.orders.stop() != Stop::No => return,
                    Ok(_) => {}
                    Err(_) => self.hub.meet(Met::GaveUp),
                }
            } else if self.orders.stop() != Stop::No {
                return;
            }
            self.hub.sleep(self.pace.tick).await;
        }
    }

    /// The same worker for a run that was paused before, for so many milliseconds.
    pub(crate) fn after_pauses(&self, paused_ms: i64) -> Self {
        let Recipe { plan, stages, gates, order, share, budget, thresholds } = &*self.recipe;
        let recipe = Recipe {
            plan: plan.clone().with_grace(Duration::from_millis(paused_ms.unsigned_abs())),
            stages: stages.clone(),
            gates: gates.clone(),
            order: *order,
            share: *share,
            budget: budget.clone(),
            thresholds: *thresholds,
        };
        Self { recipe: Arc::new(recipe), ..self.clone() }
    }

    async fn has_work(&self) -> bool {
        let Ok(Some(row)) = self.store.run(self.run).await else { return false };
        let live = redrive_engine::report::live_items(&self.store, self.run).await;
        row.control == Control::Go && (row.finished_at.is_none() || live.is_ok_and(|live| live > 0))
    }
}
