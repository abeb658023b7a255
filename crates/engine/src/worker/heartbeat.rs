//! Renews a worker's lease: one row, however many items it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::id::{RunId, WorkerId};
use redrive_store::{NewWorker, Result, Store};

use crate::crash;
use crate::env::Env;
use crate::maintain::take_over;
use crate::patience::Patience;

/// A registered worker. Its lease lasts as long as [`Pulse::beat`] goes on.
#[derive(Clone)]
pub struct Pulse {
    store: Arc<dyn Store>,
    env: Env,
    new: NewWorker,
    lease: Duration,
    worker: Arc<AtomicI64>,
}

impl Pulse {
    /// Retires the workers whose process is gone, and registers another one, for these runs.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(
        store: Arc<dyn Store>,
        env: Env,
        name: String,
        runs: Vec<RunId>,
        lease: Duration,
    ) -> Result<Self> {
        take_over(&*store, &env).await?;
        let new = NewWorker { name, identity: env.processes.identity(), runs };
        let pulse = Self { store, env, new, lease, worker: Arc::default() };
        pulse.register().await?;
        Ok(pulse)
    }

    /// The same, and bears with a store that does not answer for so long.
    ///
    /// # Errors
    /// When the store fails and stays so.
    pub async fn begin_patiently(
        store: Arc<dyn Store>,
        env: Env,
        name: String,
        lease: Duration,
        limit: Duration,
    ) -> Result<Self> {
        let mut patience = Patience::default();
        loop {
            match Self::begin(store.clone(), env.clone(), name.clone(), Vec::new(), lease).await {
                Ok(pulse) => return Ok(pulse),
                Err(error) => patience.bear(error, limit, &env).await?,
            }
        }
    }

    /// The worker as it is registered now. It changes when the lease was taken away.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        WorkerId(self.worker.load(Ordering::SeqCst))
    }

    async fn register(&self) -> Result<()> {
        let now = self.env.clock.now();
        let fresh = self.store.register(self.new.clone(), now.after(self.lease), now).await?;
        self.worker.store(fresh.0, Ordering::SeqCst);
        Ok(())
    }

    /// Renews the lease again and again, until it is dropped.
    pub async fn beat(self) {
        loop {
            self.env.clock.sleep(self.lease / 3).await;
            let (id, now) = (self.worker(), self.env.clock.now());
            match self.store.renew(id, now.after(self.lease), now).await {
                Ok(true) => crash::point("heartbeat.after_renew"),
                // Somebody took this worker for dead. What it holds is no longer its own; it begins anew under a new number.
                Ok(false) => {
                    if let Err(error) = self.register().await {
                        tracing::warn!(%error, "could not register again");
                    }
                }
                Err(error) => tracing::warn!(%error, worker = %id, "could not renew the lease"),
            }
        }
    }
}
