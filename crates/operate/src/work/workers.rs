//! Who works on the runs of a store.

use redrive_core::id::{RunId, WorkerId};
use serde::Serialize;

use crate::Floor;
use crate::error::Result;

/// The workers of a store that have not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerList {
    /// Each of them.
    pub items: Vec<WorkerView>,
    /// Always `null`: there is one page.
    pub next: Option<String>,
}

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkerView {
    /// Its number.
    pub id: WorkerId,
    /// Its name.
    pub name: String,
    /// The runs it works on.
    pub runs: Vec<RunId>,
    /// Whether it has given a sign of life within its lease.
    pub alive: bool,
    /// Until when what it holds is held.
    pub lease_until: String,
    /// When it came up.
    pub started_at: String,
}

/// Lists the workers of a store.
///
/// # Errors
/// When the store fails.
pub async fn workers(floor: &Floor) -> Result<WorkerList> {
    let now = floor.now();
    let view = |row: redrive_store::WorkerRow| WorkerView {
        id: row.id,
        name: row.spec.name,
        runs: row.spec.runs,
        alive: row.lease_until >= now,
        lease_until: row.lease_until.to_string(),
        started_at: row.started_at.to_string(),
    };
    let items = floor.store.workers().await?.into_iter().map(view).collect();
    Ok(WorkerList { items, next: None })
}
