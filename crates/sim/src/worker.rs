//! A simulated worker's process: it works on the run whenever there is something to do, as a daemon would.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::status::Control;
use redrive_engine::env::Env;
use redrive_engine::recipe::Recipe;
use redrive_engine::worker::{Ending, Pulse, Roster, RosterSettings, Settings, Stop, Workplace, work};
use redrive_store::{Error, Store};

use crate::driver::SimDriver;
use crate::host::SimHost;
use crate::hub::Hub;
use crate::mailbox::Orders;
use crate::met::Met;
use crate::scenario::Pace;
use crate::script::Script;
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
    /// It keeps a roster of runs, instead of working on the one it is given.
    pub roster: bool,
}

impl Worker {
    /// Lives until it is told to stop.
    pub async fn live(self) {
        if self.roster {
            while self.serve().await.is_err() {
                self.hub.meet(Met::GaveUp);
                self.hub.sleep(self.pace.tick).await;
            }
            return;
        }
        loop {
            if self.has_work().await {
                match self.work().await {
                    Ok(Ending::Stopped) if self.orders.stop() != Stop::No => return,
                    Ok(Ending::Waiting { .. }) => self.hub.meet(Met::WaitsNoLonger),
                    Ok(_) => {}
                    Err(_) => self.hub.meet(Met::GaveUp),
                }
            } else if self.orders.stop() != Stop::No {
                return;
            }
            self.hub.sleep(self.pace.tick).await;
        }
    }

    async fn work(&self) -> Result<Ending, Error> {
        let row = self.store.run(self.run).await?.ok_or_else(|| Error::NotFound("the run".to_owned()))?;
        let (store, env): (Arc<dyn Store>, Env) = (Arc::new(self.store.clone()), self.env.clone());
        let settings = self.settings();
        let pulse =
            Pulse::begin(store.clone(), env.clone(), settings.name.clone(), vec![self.run], settings.lease)
                .await?;
        let driver = SimDriver::new(self.clone(), pulse);
        work(Workplace { store, recipe: self.recipe.clone(), env, settings, mates: None }, driver, row).await
    }

    fn settings(&self) -> Settings {
        Settings {
            name: self.store.actor().name.clone(),
            lease: span(self.pace.lease),
            tick: span(self.pace.tick),
            patience: span(self.pace.patience),
            full_disk: span(self.pace.patience * 4),
            max_wait: self.pace.max_wait.map(span),
            answers_within: None,
            page: 5,
            looks_again: false,
        }
    }

    /// Works on all runs there are, as `redrive work` does.
    async fn serve(&self) -> Result<(), Error> {
        let (store, env): (Arc<dyn Store>, Env) = (Arc::new(self.store.clone()), self.env.clone());
        let settings = Settings { max_wait: Some(span(self.pace.tick * 2)), ..self.settings() };
        let (name, lease) = (settings.name.clone(), settings.lease);
        let pulse = Pulse::begin(store.clone(), env.clone(), name, Vec::new(), lease).await?;
        let Settings { tick, patience, full_disk, .. } = settings;
        let few = RosterSettings {
            open: 3,
            looks: 2,
            tick,
            glance: tick,
            patience,
            full_disk,
            ..RosterSettings::default()
        };
        let roster = Roster::new(store, env, &pulse.worker().to_string(), few);
        roster.work(&mut SimHost::new(self.clone(), settings, pulse)).await
    }

    async fn has_work(&self) -> bool {
        let Ok(Some(row)) = self.store.run(self.run).await else { return false };
        let live = redrive_engine::report::live_items(&self.store, self.run).await;
        row.control == Control::Go && (row.finished_at.is_none() || live.is_ok_and(|live| live > 0))
    }
}

fn span(ms: i64) -> Duration {
    Duration::from_millis(ms.unsigned_abs())
}
