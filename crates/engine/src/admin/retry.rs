//! Waiting items are told when to go: now, or at a time.

use std::collections::BTreeSet;

use redrive_core::decide::{Moment, decide};
use redrive_core::event::Event;
use redrive_core::id::RunId;
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::status::Control;
use redrive_core::time::Timestamp;
use redrive_store::{Applied, Change, Commit, ItemFilter, ItemQuery, Operation, Result, Store};
use serde::{Deserialize, Serialize};

use super::{Done, PAGE, Plans, Request, by_run, close, is_open, open};
use crate::crash;
use crate::env::Env;
use crate::last_words::with_words;

/// Which waiting items go when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retry {
    /// Which of them.
    pub filter: ItemFilter,
    /// When; `None`: now.
    pub due: Option<Timestamp>,
}

impl Retry {
    fn filter(&self) -> ItemFilter {
        ItemFilter { state: Some(StateKind::Waiting), group: None, text: None, ..self.filter.clone() }
    }

    /// Those of a run's items that are meant. What the last failure of one that waits said is in its attempt alone.
    async fn meant(&self, store: &dyn Store, items: Vec<Item>, plan: Option<&Plan>) -> Result<Vec<Item>> {
        if self.filter.group.is_none() && self.filter.text.is_none() {
            return Ok(items);
        }
        let stage = |item: &Item| {
            plan.and_then(|plan| plan.stage(item.stage)).map_or(String::new(), |stage| stage.name.clone())
        };
        let meant = with_words(store, items, stage, &self.filter).await?;
        Ok(meant.into_iter().map(|(item, _)| item).collect())
    }

    /// What follows for an item; `None` when it stays as it is: it is due then already, or not worth a try any more.
    fn change(&self, item: &Item, plan: &Plan, env: &Env, now: Timestamp) -> Option<Change> {
        let event = Event::Rescheduled { due: self.due.unwrap_or(now) };
        decide(item, event, plan, Moment { now, draw: env.dice.draw() }).ok().map(Change::from)
    }
}

/// What [`retry`] would do now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RetryPreview {
    /// Items that would be told to go.
    pub items: u64,
    /// Items that would be left alone.
    pub skipped: u64,
    /// The runs of those that would go.
    pub runs: BTreeSet<RunId>,
}

/// Says how many items [`retry`] would tell to go, and how many it would leave alone.
///
/// # Errors
/// When the store fails.
pub async fn preview_retry(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Retry,
    env: &Env,
) -> Result<RetryPreview> {
    let mut query = ItemQuery { filter: request.filter(), after: None, limit: PAGE };
    let mut found = RetryPreview::default();
    loop {
        let page = store.items(query.clone()).await?;
        let Some(last) = page.last().map(|item| item.seq) else { return Ok(found) };
        query.after = Some(last);
        let now = env.clock.now();
        for (run, items) in by_run(page) {
            let plan = plans.plan(run).await?;
            let items = request.meant(store, items, plan.as_ref()).await?;
            let goes = |item: &&Item| {
                plan.as_ref().is_some_and(|plan| request.change(item, plan, env, now).is_some())
            };
            let going = items.iter().filter(goes).count() as u64;
            found.items += going;
            found.skipped += items.len() as u64 - going;
            found.runs.extend((going > 0).then_some(run));
        }
    }
}

/// Tells waiting items when to go, page by page, and says whose they are. The same request after a crash goes on where it
/// was.
///
/// # Errors
/// When the store fails; the pages before stay done.
pub async fn retry(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Retry,
    actor: &str,
    env: &Env,
) -> Result<(Done, BTreeSet<RunId>)> {
    let operation = open(store, &Request::Retry(request.clone()), actor, env.clock.now()).await?;
    go_on(store, plans, request, operation, env).await
}

/// Does the pages of an operation that are left.
pub(super) async fn go_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &Retry,
    mut operation: Operation,
    env: &Env,
) -> Result<(Done, BTreeSet<RunId>)> {
    let mut query = ItemQuery { filter: request.filter(), after: operation.after, limit: PAGE };
    let mut of = BTreeSet::new();
    loop {
        let page = store.items(query.clone()).await?;
        let Some(last) = page.last().map(|item| item.seq) else { break };
        if !is_open(store, operation.id).await? {
            break;
        }
        query.after = Some(last);
        let now = env.clock.now();
        operation.updated_at = now;
        let mut runs = by_run(page).into_iter().peekable();
        while let Some((run, items)) = runs.next() {
            // A page is done when its last run is: what was told to go before a crash is due already when it is told again.
            if runs.peek().is_none() {
                operation.after = Some(last);
            }
            let goes_on = store.run(run).await?.is_some_and(|row| row.control != Control::Cancelled);
            let plan = plans.plan(run).await?.filter(|_| goes_on);
            let items = request.meant(store, items, plan.as_ref()).await?;
            let changes: Vec<Change> = match &plan {
                Some(plan) => items.iter().filter_map(|item| request.change(item, plan, env, now)).collect(),
                None => Vec::new(),
            };
            crash::point("retry.before_page");
            let commit = Commit {
                changes,
                unless_cancelled: Some(run),
                operation: Some(operation.clone()),
                now,
                ..Commit::default()
            };
            let applied = store.commit(commit).await?;
            crash::point("retry.after_page");
            let done = applied.iter().filter(|applied| **applied == Applied::Done).count() as u64;
            operation.changed += done;
            // What was due already goes with them.
            of.extend((!items.is_empty()).then_some(run));
            operation.skipped += items.len() as u64 - done;
            env.progress.reached(operation.changed + operation.skipped, None);
        }
    }
    Ok((close(store, operation, env.clock.now()).await?, of))
}
