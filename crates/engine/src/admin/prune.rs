//! Old runs are forgotten, some items at a time.

use std::time::Duration;

use redrive_core::id::RunId;
use redrive_core::time::{Timestamp, millis};
use redrive_store::{Operation, Prune, Pruned, Result, RunFilter, Store};
use serde::{Deserialize, Serialize};

use super::{Done, Request, close, is_open, open};
use crate::counts::{CountersOf, counts};
use crate::crash;
use crate::env::Env;
use crate::maintain::prunable;

/// Items of a page.
const PAGE: usize = 2_000;
/// Runs that are looked at in one go.
const RUNS: usize = 500;

/// Which runs to forget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    /// Those that finished longer ago than so many milliseconds.
    pub older_than_ms: u64,
    /// Those with dead items too; they are spared otherwise.
    pub with_dead: bool,
}

impl Forget {
    /// How long a run is kept after its end.
    #[must_use]
    pub fn older_than(self) -> Duration {
        Duration::from_millis(self.older_than_ms)
    }

    /// Runs that finished before this are meant by who asks at that time.
    pub(super) fn before(self, asked_at: Timestamp) -> Timestamp {
        Timestamp(asked_at.0.saturating_sub(millis(self.older_than())))
    }
}

/// Forgets runs that finished long ago, page by page; those with dead items only when told so. The same request after a crash
/// goes on with the operation, and means what is old enough by now.
///
/// # Errors
/// When the store fails; what went before is gone.
pub async fn prune(store: &dyn Store, request: Forget, actor: &str, env: &Env) -> Result<(Pruned, Done)> {
    let now = env.clock.now();
    let operation = open(store, &Request::Prune(request), actor, now).await?;
    crash::point("prune.opened");
    go_on(store, request.before(now), request, operation, env).await
}

/// Does the pages of an operation that are left. The store knows where it was: what is gone is not found again.
pub(super) async fn go_on(
    store: &dyn Store,
    finished_before: Timestamp,
    request: Forget,
    mut operation: Operation,
    env: &Env,
) -> Result<(Pruned, Done)> {
    let ahead = prunable(store, request.older_than(), request.with_dead, env).await?.items;
    let all = operation.changed + ahead;
    let page = Prune { finished_before, with_dead: request.with_dead, only: None, limit: PAGE };
    let mut total = Pruned { more: true, ..Pruned::default() };
    while total.more && is_open(store, operation.id).await? {
        operation.updated_at = env.clock.now();
        let gone = store.prune(page, Some(operation.clone())).await?;
        crash::point("prune.after_page");
        operation.changed += gone.items;
        total = Pruned {
            items: total.items + gone.items,
            dead: total.dead + gone.dead,
            tombstones: total.tombstones + gone.tombstones,
            runs: total.runs + gone.runs,
            contents: total.contents + gone.contents,
            more: gone.more,
        };
        env.progress.reached(operation.changed, Some(all));
    }
    Ok((total, close(store, operation, env.clock.now()).await?))
}

/// Forgets runs of one pipeline that finished long ago, page by page, as [`prune`] does. Where there is none, nothing is
/// written.
///
/// # Errors
/// When the store fails; what went before is gone.
pub async fn prune_of(
    store: &dyn Store,
    pipeline: &str,
    request: Forget,
    actor: &str,
    env: &Env,
) -> Result<Option<Done>> {
    let now = env.clock.now();
    if old_runs(store, pipeline, request.before(now), request.with_dead).await?.is_empty() {
        return Ok(None);
    }
    let asked = Request::PruneOf { pipeline: pipeline.to_owned(), forget: request };
    let operation = open(store, &asked, actor, now).await?;
    go_on_of(store, pipeline, request.before(now), request, operation, env).await.map(Some)
}

/// Does the pages of an operation on one pipeline that are left.
pub(super) async fn go_on_of(
    store: &dyn Store,
    pipeline: &str,
    finished_before: Timestamp,
    request: Forget,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    for run in old_runs(store, pipeline, finished_before, request.with_dead).await? {
        let page = Prune { finished_before, with_dead: request.with_dead, only: Some(run), limit: PAGE };
        let mut more = true;
        while more && is_open(store, operation.id).await? {
            operation.updated_at = env.clock.now();
            let gone = store.prune(page, Some(operation.clone())).await?;
            crash::point("prune.after_page");
            operation.changed += gone.items;
            more = gone.more;
        }
    }
    close(store, operation, env.clock.now()).await
}

/// The runs of a pipeline that are old enough, oldest first; those with dead items where they are meant, too.
async fn old_runs(
    store: &dyn Store,
    pipeline: &str,
    finished_before: Timestamp,
    with_dead: bool,
) -> Result<Vec<RunId>> {
    let filter = RunFilter { pipeline: Some(pipeline.to_owned()), ..RunFilter::default() };
    let (mut found, mut last) = (Vec::new(), None);
    loop {
        let page = store.runs(filter.clone(), last, RUNS).await?;
        let Some(oldest) = page.last() else { break };
        last = Some(oldest.id);
        let old = page.iter().filter(|row| row.finished_at.is_some_and(|at| at < finished_before));
        let old: Vec<RunId> = old.map(|row| row.id).collect();
        let counters = CountersOf::read(store, old.clone()).await?;
        found
            .extend(old.into_iter().filter(|run| with_dead || counts(counters.of(*run), |_| true).dead == 0));
    }
    found.reverse();
    Ok(found)
}
