//! What operators do: send back, remove, take out, let go on.
//!
//! An operation on many items is durable: it is kept with how far it is, in the same transaction as the items it
//! changed, so that it can be gone on with after a crash, and tells afterwards who asked for what.

mod act;
mod answer;
mod cancel;
mod frozen;
mod gates;
mod idle;
mod import;
mod kill;
mod outcome;
mod pace;
mod pause;
mod pipelines;
mod prune;
mod purge;
mod reconfigure;
mod redrive;
mod request;
mod rerun;
mod resume;
mod retry;
mod selection;
mod set;

pub use act::{Act, write_down};
pub use answer::{AnswerRules, Answered, answer};
pub use cancel::cancel;
pub use frozen::{Foreseen, Seen, preview_items, redrive_seen};
pub use gates::{change_gate, resume_gates};
pub use idle::left_alone;
pub use import::Import;
pub use kill::{kill, live_descendants};
pub use outcome::{Outcome, Tally, outcomes, tally};
pub use pace::Pace;
pub use pause::pause;
pub use pipelines::{pause_pipeline, resume_pipeline};
pub use prune::{Forget, prune, prune_of};
pub use purge::purge;
pub use reconfigure::{Again, Reconfigure, Way, reconfigure, see_again, would_go_again};
pub use redrive::{Preview, Redrive, preview, redrive};
pub use request::Request;
pub use rerun::{Foreseen as ForeseenRerun, Rerun, Rerunning, preview_rerun, preview_rerun_items, rerun};
pub use resume::resume;
pub use retry::{Retry, RetryPreview, preview_retry, retry};
pub use set::{SetPurge, SetRedrive, SetRerun, freeze, late, start_frozen};

use std::collections::BTreeMap;

use async_trait::async_trait;
use redrive_core::id::{OperationId, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Error, ItemFilter, Operation, OperationState, Result, Store};
use serde::Serialize;

use crate::env::Env;
use crate::source::Source;
use redrive::Canary;

/// Items changed in one transaction.
const PAGE: usize = 500;
/// Most items changed in one transaction where each stands for itself: pages grow up to this. It saves waits for the disk,
/// and writes of pages of the file that items far apart share; nobody who writes meanwhile waits long.
const MANY: usize = 5_000;

/// How many items the next page has.
fn next_page(page: usize) -> usize {
    (page * 2).min(MANY)
}

/// Gives the plans of runs, and their sources.
#[async_trait]
pub trait Plans: Send + Sync {
    /// The plan of a run, where its pipeline can still be read.
    async fn plan(&self, run: RunId) -> Result<Option<Plan>>;

    /// The source of a run from its beginning, where it can be read again.
    async fn source(&self, _run: RunId) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }
}

#[async_trait]
impl<F: Fn(RunId) -> Option<Plan> + Send + Sync> Plans for F {
    async fn plan(&self, run: RunId) -> Result<Option<Plan>> {
        Ok(self(run))
    }
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Done {
    /// The operation.
    pub operation: OperationId,
    /// Items changed.
    pub changed: u64,
    /// Items that were left alone: they had changed meanwhile, or their run does not go on.
    pub skipped: u64,
}

/// Counts the dead items a filter means.
///
/// # Errors
/// When the store fails.
pub async fn count_dead(store: &dyn Store, filter: &ItemFilter) -> Result<u64> {
    let groups = store.groups(dead(filter), usize::MAX).await?;
    Ok(groups.iter().map(|group| group.items).sum())
}

/// A page of items by their runs.
fn by_run(page: Vec<Item>) -> BTreeMap<RunId, Vec<Item>> {
    let mut by_run: BTreeMap<RunId, Vec<Item>> = BTreeMap::new();
    for item in page {
        by_run.entry(item.run).or_default().push(item);
    }
    by_run
}

fn dead(filter: &ItemFilter) -> ItemFilter {
    ItemFilter { state: Some(StateKind::Dead), ..filter.clone() }
}

/// Opens an operation, or goes on with one that was broken off.
async fn open(store: &dyn Store, request: &Request, actor: &str, now: Timestamp) -> Result<Operation> {
    let mut after = None;
    loop {
        let page = store.open_operations(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        // One that cannot be read is a newer version's, and not what is asked here.
        let same = |operation: &Operation| Request::of(operation).is_ok_and(|asked| asked == *request);
        if let Some(broken_off) = page.into_iter().find(same) {
            return Ok(broken_off);
        }
    }
    let mut operation = Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: OperationState::Open,
        actor: actor.to_owned(),
        request: request.written()?,
        after: None,
        changed: 0,
        skipped: 0,
        created_at: now,
        updated_at: now,
    };
    operation.id = store.save_operation(operation.clone()).await?;
    Ok(operation)
}

/// Writes down that an operation is to be done, and does nothing of it yet but to keep a run that is taken out from going
/// on: [`go_on`] does the rest, in this process or in another. One that asks the same and is open is that operation.
///
/// # Errors
/// When the store fails.
pub async fn begin(store: &dyn Store, request: &Request, actor: &str, env: &Env) -> Result<Operation> {
    if let Request::Cancel { run } = request {
        cancel::halt(store, *run, actor, env).await?;
    }
    open(store, request, actor, env.clock.now()).await
}

/// Goes on with an operation that was broken off, from what is kept of it alone. `None` when it has nothing left to do, or
/// cannot go on yet: those that were sent first have not ended.
///
/// # Errors
/// When the store fails; [`Error::Unreadable`] when a newer version began it, [`Error::NotFound`] when there is no such
/// operation, or when it cancels a run whose pipeline cannot be read.
pub async fn go_on(
    store: &dyn Store,
    operation: OperationId,
    plans: &dyn Plans,
    env: &Env,
) -> Result<Option<Done>> {
    let missing = || Error::NotFound(format!("operation {operation}"));
    let row = store.operation(operation).await?.ok_or_else(missing)?;
    if row.state != OperationState::Open {
        return Ok(None);
    }
    let done = match Request::of(&row)? {
        Request::Redrive(request) => match redrive::canary(store, &request).await? {
            Canary::Passed => redrive::go_on(store, plans, &request, row, env).await?,
            Canary::UnderWay => return Ok(None),
            Canary::Failed => {
                stop_operation(store, operation, env.clock.now()).await?;
                return Ok(None);
            }
        },
        Request::RedriveSeen { items } => frozen::go_on(store, plans, &items, row, env).await?,
        Request::RedriveSet(request) => return set::redrive_on(store, plans, &request, row, env).await,
        Request::RerunSet(request) => set::rerun_on(store, plans, &request, row, env).await?,
        Request::PurgeSet(request) => return set::purge_on(store, &request, row, env).await,
        Request::Purge { filter } => purge::go_on(store, &filter, row, env).await?,
        Request::Retry(request) => retry::go_on(store, plans, &request, row, env).await?.0,
        Request::Rerun(request) => rerun::go_on(store, plans, &request, row, env).await?.1,
        Request::Cancel { run } => {
            let plan = plan_of(plans, run).await?;
            cancel::go_on(store, run, &plan, row, env).await?
        }
        Request::Prune(request) => {
            let asked_at = row.created_at;
            prune::go_on(store, request.before(asked_at), request, row, env).await?.1
        }
        Request::PruneOf { pipeline, forget } => {
            let before = forget.before(row.created_at);
            prune::go_on_of(store, &pipeline, before, forget, row, env).await?
        }
        // What these ask for was done before they were written down.
        Request::Import { .. } | Request::Pause { .. } | Request::Resume { .. } | Request::Act(_) => {
            close(store, row, env.clock.now()).await?
        }
    };
    Ok(Some(done))
}

async fn plan_of(plans: &dyn Plans, run: RunId) -> Result<Plan> {
    plans.plan(run).await?.ok_or_else(|| Error::NotFound(format!("a readable pipeline of run {run}")))
}

/// Whether an operation goes on: nobody has stopped it meanwhile, and no other process has finished it.
async fn is_open(store: &dyn Store, operation: OperationId) -> Result<bool> {
    let known = store.operation(operation).await?;
    Ok(known.is_none_or(|known| known.state == OperationState::Open))
}

/// Stops an operation after the page it is at, or one that is frozen from being started. `false` when it is neither.
///
/// # Errors
/// When the store fails.
pub async fn stop_operation(store: &dyn Store, operation: OperationId, now: Timestamp) -> Result<bool> {
    let known = store.operation(operation).await?;
    let can_go = |known: &Operation| matches!(known.state, OperationState::Open | OperationState::Frozen);
    let Some(open) = known.filter(can_go) else { return Ok(false) };
    store.save_operation(Operation { state: OperationState::Cancelled, updated_at: now, ..open }).await?;
    Ok(true)
}

/// Writes down that an operation is done. One that was stopped meanwhile stays so, and is told what was done until then; one that
/// another process finished first is what that wrote.
async fn close(store: &dyn Store, mut operation: Operation, now: Timestamp) -> Result<Done> {
    let known = store.operation(operation.id).await?;
    if let Some(Operation { id, changed, skipped, .. }) =
        known.filter(|known| known.state == OperationState::Done)
    {
        return Ok(Done { operation: id, changed, skipped });
    }
    operation.state = OperationState::Done;
    operation.updated_at = now;
    let done = Done { operation: operation.id, changed: operation.changed, skipped: operation.skipped };
    store.save_operation(operation).await?;
    Ok(done)
}
