//! Who is there to work: everything that tells whether somebody does asks here.

use redrive_core::id::{RunId, WorkerId};
use redrive_store::{Result, Store, WorkerRow};

use crate::env::Env;

/// Workers whose lease is not over and whose process is not known to be gone.
#[derive(Debug, Clone, Default)]
pub struct Crew(Vec<WorkerRow>);

impl Crew {
    /// Reads who is there now.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn read(store: &dyn Store, env: &Env) -> Result<Self> {
        let now = env.clock.now();
        let mut workers = store.workers().await?;
        workers.retain(|worker| worker.lease_until >= now && !env.processes.is_gone(&worker.spec.identity));
        Ok(Self(workers))
    }

    /// Somebody who is there.
    #[must_use]
    pub fn first(&self) -> Option<&WorkerRow> {
        self.0.first()
    }

    /// Whether a worker is there.
    #[must_use]
    pub fn has(&self, worker: WorkerId) -> bool {
        self.0.iter().any(|row| row.id == worker)
    }

    /// Whether somebody works on a run.
    #[must_use]
    pub fn works_on(&self, run: RunId) -> bool {
        self.0.iter().any(|row| row.spec.runs.contains(&run))
    }

    /// Whether somebody works on a run, or has nothing to do and will look whether it has: `redrive work` takes any run.
    #[must_use]
    pub fn may_take(&self, run: RunId) -> bool {
        self.works_on(run) || self.0.iter().any(|row| row.spec.runs.is_empty())
    }
}
