//! A simulated worker's sign of life, as `engine/worker/heartbeat.rs` gives it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use redrive_core::id::WorkerId;
use redrive_store::{NewWorker, Store};

use crate::hub::{Hub, TaskId};
use crate::met::Met;
use crate::worker::Worker;

/// A registered worker whose lease is being renewed until this is dropped.
pub struct Heartbeat {
    hub: Arc<Hub>,
    worker: Arc<AtomicI64>,
    task: TaskId,
}

impl Heartbeat {
    /// Registers a worker and begins to renew its lease.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn begin(of: &Worker) -> redrive_store::Result<Self> {
        let first = register(of).await?;
        let worker = Arc::new(AtomicI64::new(first.0));
        let task = of.hub.spawn(Box::pin(beat(of.clone(), worker.clone())));
        Ok(Self { hub: of.hub.clone(), worker, task })
    }

    /// The worker as it is registered now.
    #[must_use]
    pub fn worker(&self) -> WorkerId {
        WorkerId(self.worker.load(Ordering::SeqCst))
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.hub.kill(self.task);
    }
}

async fn register(of: &Worker) -> redrive_store::Result<WorkerId> {
    let new = NewWorker { name: of.store.actor().name.clone(), identity: String::new(), runs: vec![of.run] };
    let now = of.env.clock.now();
    let lease = Duration::from_millis(of.pace.lease.unsigned_abs());
    let worker = of.store.register(new, now.after(lease), now).await?;
    of.orders.works_as(worker);
    Ok(worker)
}

async fn beat(of: Worker, worker: Arc<AtomicI64>) {
    let lease = Duration::from_millis(of.pace.lease.unsigned_abs());
    loop {
        of.hub.sleep(of.pace.lease / 3).await;
        let id = WorkerId(worker.load(Ordering::SeqCst));
        let now = of.env.clock.now();
        if let Ok(false) = of.store.renew(id, now.after(lease), now).await
            && let Ok(fresh) = register(&of).await
        {
            of.hub.meet(Met::Reregistered);
            worker.store(fresh.0, Ordering::SeqCst);
        }
    }
}
