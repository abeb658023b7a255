//! Renews a worker's lease: one row, however many items it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::id::{RunId, WorkerId};
use redrive_store::{NewWorker, Store};

use crate::crash;
use crate::env::Env;
use crate::identity::identity;

/// A registered worker whose lease is being renewed until it is dropped.
pub(super) struct Heartbeat {
    worker: Arc<AtomicI64>,
    task: tokio::task::JoinHandle<()>,
}

impl Heartbeat {
    /// Registers a worker and begins to renew its lease.
    pub(super) async fn begin(
        store: Arc<dyn Store>,
        env: Env,
        name: String,
        run: RunId,
        lease: Duration,
    ) -> redrive_store::Result<Self> {
        let new = NewWorker { name, identity: identity(), runs: vec![run] };
        let first = register(&*store, &env, &new, lease).await?;
        let worker = Arc::new(AtomicI64::new(first.0));
        let task = tokio::spawn(beat(store, env, new, lease, worker.clone()));
        Ok(Self { worker, task })
    }

    /// The worker as it is registered now. It changes when the lease was taken away.
    pub(super) fn worker(&self) -> WorkerId {
        WorkerId(self.worker.load(Ordering::SeqCst))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn register(
    store: &dyn Store,
    env: &Env,
    new: &NewWorker,
    lease: Duration,
) -> redrive_store::Result<WorkerId> {
    let now = env.clock.now();
    store.register(new.clone(), now.after(lease), now).await
}

async fn beat(store: Arc<dyn Store>, env: Env, new: NewWorker, lease: Duration, worker: Arc<AtomicI64>) {
    loop {
        env.clock.sleep(lease / 3).await;
        let id = WorkerId(worker.load(Ordering::SeqCst));
        let now = env.clock.now();
        match store.renew(id, now.after(lease), now).await {
            Ok(true) => crash::point("heartbeat.after_renew"),
            // Somebody took this worker for dead. What it holds is no longer its own; it begins anew under a new number.
            Ok(false) => match register(&*store, &env, &new, lease).await {
                Ok(fresh) => worker.store(fresh.0, Ordering::SeqCst),
                Err(error) => tracing::warn!(%error, "could not register again"),
            },
            Err(error) => tracing::warn!(%error, worker = %id, "could not renew the lease"),
        }
    }
}
