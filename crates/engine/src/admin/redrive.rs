//! Dead items are sent back, from the stage that failed them.

use std::collections::{BTreeMap, BTreeSet};

use redrive_core::decide::decide;
use redrive_core::event::{Event, Transition};
use redrive_core::id::{ItemId, ItemSeq, RunId, StageNo};
use redrive_core::item::{Item, Payload, StateKind};
use redrive_core::plan::Plan;
use redrive_core::policy::OwnPolicy;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Commit, ItemFilter, ItemQuery, Operation, Result, RunChange, Store};
use serde::{Deserialize, Serialize};

use super::selection::{Page, Selected};
use super::{Done, PAGE, Pace, Plans, Request, by_run, close, count_dead, dead, is_open, next_page, open};
use crate::env::Env;
use crate::{crash, trace};

/// Most items that are sent back in one transaction: a page of which one item changed meanwhile is done one by one.
const LARGE: usize = 2_000;

/// What to send back, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Redrive {
    /// Which dead items.
    pub filter: ItemFilter,
    /// At most so many are sent back.
    pub limit: Option<u64>,
    /// So many a second are due; `None`: all at once. All are sent back at once in either case: what is to be stopped on its way
    /// is a [`SetRedrive`](super::SetRedrive).
    pub rate: Option<f64>,
    /// Those that were sent back first: the others are only when all of these have passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub canary: Vec<ItemSeq>,
    /// Whether these go first, and others only when they have passed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_first: bool,
    /// The policy that they go under at the stage that failed them, in place of the stage's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<OwnPolicy>,
}

/// How those that were sent back first went.
pub(super) enum Canary {
    /// All of them passed, or none was asked for.
    Passed,
    /// Some have not ended.
    UnderWay,
    /// One of them did not pass, or is not there any more.
    Failed,
}

/// Looks how those went that were sent back first.
pub(super) async fn canary(store: &dyn Store, request: &Redrive) -> Result<Canary> {
    let mut found = Canary::Passed;
    for seq in &request.canary {
        match store.item(*seq).await?.map(|item| item.state.kind()) {
            Some(StateKind::Succeeded | StateKind::Filtered) => {}
            Some(StateKind::Waiting | StateKind::Running | StateKind::Joining) => found = Canary::UnderWay,
            Some(StateKind::Dead | StateKind::Superseded | StateKind::Cancelled) | None => {
                return Ok(Canary::Failed);
            }
        }
    }
    Ok(found)
}

impl Redrive {
    /// All that a filter means, at once and as ever.
    #[must_use]
    pub fn of(filter: ItemFilter) -> Self {
        Self { filter, limit: None, rate: None, canary: Vec::new(), goes_first: false, retry: None }
    }

    /// How many more may be sent back after so many.
    fn left(&self, sent: u64) -> u64 {
        self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(sent))
    }
}

/// What a [`redrive`] would do now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Preview {
    /// The items that would be sent back, in the order in which they would be.
    pub items: Vec<ItemId>,
    /// Items that would be left alone: only their source can mend them, or their run does not go on.
    pub skipped: u64,
    /// How many would begin at which stage of which run.
    #[serde(skip)]
    pub begin: BTreeMap<(RunId, StageNo), u64>,
}

/// Says exactly which items [`redrive`] would send back, and changes nothing.
///
/// # Errors
/// When the store fails.
pub async fn preview(store: &dyn Store, plans: &dyn Plans, request: &Redrive, env: &Env) -> Result<Preview> {
    let (mut items, mut begin) = (Vec::new(), BTreeMap::new());
    let take = |page: Selected| {
        // Ancestors wait for their children again, and are not called.
        for sent in page.changes.iter().filter(|sent| sent.after.state.kind() == StateKind::Waiting) {
            *begin.entry((sent.after.run, sent.after.stage)).or_default() += 1;
        }
        items.extend(page.redriven.into_iter().map(|item| item.id));
    };
    let skipped = foresee(store, plans, request, env, take).await?;
    Ok(Preview { items, skipped, begin })
}

/// Hands over the items that [`redrive`] would send back, page by page, and returns how many it would leave alone.
pub(super) async fn foresee(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Redrive,
    env: &Env,
    mut take: impl FnMut(Selected) + Send,
) -> Result<u64> {
    let (mut sent, mut skipped) = (0, 0);
    // What an earlier page would have brought back to life would not be listed any more.
    let mut alive: BTreeSet<ItemSeq> = BTreeSet::new();
    let mut query = ItemQuery { filter: dead(&request.filter), after: None, limit: PAGE };
    loop {
        query.limit = page_size(PAGE, request.left(sent));
        let page = if query.limit == 0 { Vec::new() } else { store.items(query.clone()).await? };
        let Some(last) = page.last().map(|item| item.seq) else { return Ok(skipped) };
        query.after = Some(last);
        for (run, mut items) in by_run(page) {
            items.retain(|item| !alive.contains(&item.seq));
            let plan = plans.plan(run).await?;
            let page = Page { store, run, items, env };
            let pace = (Pace::all(env), sent);
            let selected = page.select(plan.as_ref(), request, pace, request.left(sent)).await?;
            alive.extend(selected.changes.iter().map(|change| change.after.seq));
            sent += selected.redriven.len() as u64;
            skipped += selected.skipped;
            take(selected);
        }
    }
}

/// So many of a page as may still be sent back.
fn page_size(page: usize, left: u64) -> usize {
    usize::try_from(left).unwrap_or(page).min(page)
}

/// Sends dead items back, page by page. The same request after a crash goes on where it was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn redrive(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Redrive,
    actor: &str,
    env: &Env,
) -> Result<Done> {
    let operation = open(store, &Request::Redrive(request.clone()), actor, env.clock.now()).await?;
    go_on(store, plans, request, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Redrive,
    mut operation: Operation,
    env: &Env,
) -> Result<Done> {
    let left = count_dead(store, &request.filter).await?.min(request.left(operation.changed));
    let all = operation.changed + operation.skipped + left;
    let mut query = ItemQuery { filter: dead(&request.filter), after: operation.after, limit: PAGE };
    // One that was broken off goes on, and then looks once more at what died behind it meanwhile.
    let mut again = operation.after.is_some();
    let mut size = PAGE;
    // What a rate counts began with the operation, whoever goes on with it.
    let pace =
        Pace { from: operation.created_at, before: 0 }.kept(operation.changed, request.rate, env.clock.now());
    loop {
        query.limit = page_size(size, request.left(operation.changed));
        let page = if query.limit == 0 { Vec::new() } else { store.items(query.clone()).await? };
        let Some(last) = page.last().map(|item| item.seq) else {
            if query.limit > 0 && std::mem::take(&mut again) {
                query.after = None;
                continue;
            }
            break;
        };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        for (run, items) in by_run(page) {
            let plan = plans.plan(run).await?;
            let seqs: Vec<ItemSeq> = items.iter().map(|item| item.seq).collect();
            let page = Page { store, run, items, env };
            if send_back(&page, plan.as_ref(), request, pace, &mut operation).await? {
                continue;
            }
            // One of them changed meanwhile, so nothing of the page was written: each for itself then.
            for seq in seqs {
                let items: Vec<Item> = store.item(seq).await?.into_iter().collect();
                let alone = Page { store, run, items, env };
                let sent = send_back(&alone, plan.as_ref(), request, pace, &mut operation).await?;
                operation.skipped += u64::from(!sent);
            }
        }
        operation.after = Some(last);
        size = next_page(size).min(LARGE);
        env.progress.reached(operation.changed + operation.skipped, Some(all));
    }
    close(store, operation, env.clock.now()).await
}

/// Sends a page back, whole or not at all; `false` when something in it had changed.
pub(super) async fn send_back(
    page: &Page<'_>,
    plan: Option<&Plan>,
    request: &Redrive,
    pace: Pace,
    operation: &mut Operation,
) -> Result<bool> {
    let left = request.left(operation.changed);
    let pace = (pace, operation.changed);
    let Selected { changes, redriven, skipped } = page.select(plan, request, pace, left).await?;
    let now = page.env.clock.now();
    let progress = Operation {
        skipped: operation.skipped + skipped,
        changed: operation.changed + redriven.len() as u64,
        updated_at: now,
        after: page.items.last().map(|item| item.seq).max(operation.after),
        ..operation.clone()
    };
    if changes.is_empty() {
        *operation = progress;
        return Ok(true);
    }
    if !commit(page, plan, changes, &progress, now).await? {
        return Ok(false);
    }
    *operation = progress;
    Ok(true)
}

async fn commit(
    page: &Page<'_>,
    plan: Option<&Plan>,
    changes: Vec<Transition>,
    progress: &Operation,
    now: Timestamp,
) -> Result<bool> {
    crash::point("redrive.before_page");
    // Of a parent that goes back to joining, an attempt may end by this.
    let spans = plan.map(|plan| trace::prepare(&page.env.traced, plan, &changes));
    let commit = Commit {
        changes: changes.into_iter().map(Into::into).collect(),
        all_or_nothing: true,
        unless_cancelled: Some(page.run),
        run: Some((page.run, RunChange::goes_on())),
        operation: Some(progress.clone()),
        now,
    };
    let applied = page.store.commit(commit).await?;
    crash::point("redrive.after_page");
    spans.into_iter().for_each(|spans| spans.committed(&applied));
    Ok(!applied.contains(&Applied::Stale))
}

/// Sends one dead item back with new content, as a part of an operation whose progress is kept in the same transaction. `false`
/// when it is not dead or cannot live again.
pub(super) async fn send_edited(
    store: &dyn Store,
    plan: &Plan,
    item: &Item,
    payload: Payload,
    operation: Operation,
    env: &Env,
) -> Result<bool> {
    let now = env.clock.now();
    let page = Page { store, run: item.run, items: Vec::new(), env };
    let event = Event::Redriven { due: now, payload: Some(payload), policy: None };
    let Ok(transition) = decide(item, event, plan, page.moment(now)) else { return Ok(false) };
    let Some(mut changes) = page.reopen(item, plan, &BTreeSet::new(), now).await? else { return Ok(false) };
    changes.push(transition);
    let run = Some((item.run, RunChange::goes_on()));
    let spans = trace::prepare(&env.traced, plan, &changes);
    let changes = changes.into_iter().map(Into::into).collect();
    let applied = store
        .commit(Commit {
            changes,
            all_or_nothing: true,
            unless_cancelled: Some(item.run),
            run,
            operation: Some(operation),
            now,
        })
        .await?;
    spans.committed(&applied);
    Ok(applied.iter().all(|applied| *applied == Applied::Done))
}
