//! Operations on a set of dead items that was frozen: exactly those, as far as they are still as they were seen.
//!
//! The items are in the store, beside the operation, so that any process can go on with it and tell afterwards what became of
//! each. What died later is none of the set.

use std::collections::BTreeMap;

use redrive_core::id::{ItemSeq, OperationId, Rev, RunId};
use redrive_core::item::{Item, StateKind};
use redrive_core::plan::Plan;
use redrive_core::time::Timestamp;
use redrive_store::{Error, Freeze, ItemFilter, ItemRev, Member, Operation, OperationState, Result, Store};
use serde::{Deserialize, Serialize};

use super::outcome::{self, Tally};
use super::purge::purge_page;
use super::redrive::send_back;
use super::selection::Page;
use super::{Done, MANY, PAGE, Pace, Plans, Redrive, Request, by_run, close, count_dead, dead, is_open};
use crate::env::Env;

/// Items that may be under way at first, while it is watched how many of them fail again.
const WAVE: u64 = 100;
/// Fewer ends than this say nothing about a share.
const TELLING: u64 = 10;

/// How a frozen set of dead items is sent back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SetRedrive {
    /// What the set was chosen by: it tells which dead items have come too late for it.
    pub filters: Vec<ItemFilter>,
    /// So many a second; `None`: all at once.
    pub rate: Option<f64>,
    /// So many are sent back first, and the others only when all of these have passed.
    pub canary: Option<u64>,
    /// Nothing more is sent back when more than this share of those that ended has failed again.
    pub stop_at: Option<f64>,
    /// Why it was stopped, where nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// The pace at which it goes, from its first page on: whoever sends the next one keeps to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// How a frozen set of dead items is removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetPurge {
    /// What the set was chosen by.
    pub filters: Vec<ItemFilter>,
    /// How long it can be undone after it was started, in milliseconds.
    pub undo_ms: i64,
    /// Nothing is removed before; `None` until it is started.
    pub at: Option<Timestamp>,
}

/// Writes an operation down with its items. `start` has it done from now on; otherwise it waits for [`start_frozen`]. `None` when
/// the actor has an operation that is newer than `unless_newer_than`.
///
/// # Errors
/// When the store fails.
pub async fn freeze(
    store: &dyn Store,
    request: &Request,
    items: &[Item],
    who: (&str, Option<OperationId>),
    start: bool,
    env: &Env,
) -> Result<Option<Operation>> {
    let now = env.clock.now();
    let request = if start { request.clone().started(now) } else { request.clone() };
    let mut operation = Operation {
        id: OperationId(0),
        kind: request.kind(),
        state: if start { OperationState::Open } else { OperationState::Frozen },
        actor: who.0.to_owned(),
        request: request.written()?,
        after: None,
        changed: 0,
        skipped: 0,
        created_at: now,
        updated_at: now,
    };
    let items = items.iter().map(ItemRev::from).collect();
    let freeze = Freeze { operation: operation.clone(), items, unless_newer_than: who.1 };
    let Some(id) = store.freeze(freeze).await? else { return Ok(None) };
    operation.id = id;
    Ok(Some(operation))
}

/// Has a frozen operation done from now on. One that is under way stays so; `None` when there is nothing to start.
///
/// # Errors
/// When the store fails, or a newer version made it.
pub async fn start_frozen(store: &dyn Store, operation: OperationId, env: &Env) -> Result<Option<Operation>> {
    let Some(row) = store.operation(operation).await? else { return Ok(None) };
    if row.state != OperationState::Frozen {
        return Ok(Some(row).filter(|row| row.state == OperationState::Open));
    }
    let now = env.clock.now();
    let request = Request::of(&row)?.started(now).written()?;
    let started = Operation { state: OperationState::Open, request, updated_at: now, ..row };
    store.save_operation(started).await?;
    store.operation(operation).await
}

/// How many dead items a set was too early for: they match what it was chosen by, died since, and are none of its own that
/// died again.
///
/// # Errors
/// When the store fails.
pub async fn late(
    store: &dyn Store,
    operation: OperationId,
    filters: &[ItemFilter],
    since: Timestamp,
) -> Result<u64> {
    let since = |filter: &ItemFilter| filter.since.map_or(since, |earlier| earlier.max(since));
    let died = |filter| dead(&ItemFilter { since: Some(since(filter)), ..filter.clone() });
    let filters: Vec<ItemFilter> = filters.iter().map(died).collect();
    let mut late = 0;
    for filter in &filters {
        late += count_dead(store, filter).await?;
    }
    let mut after = None;
    while late > 0 {
        let page = store.members(operation, after, MANY).await?;
        let Some(last) = page.last().map(|member| member.item) else { break };
        after = Some(last);
        for item in store.items_of(page.iter().map(|member| member.item).collect()).await? {
            late = late.saturating_sub(filters.iter().filter(|filter| filter.matches(&item)).count() as u64);
        }
    }
    Ok(late)
}

/// Goes on with a redrive of a set. `None` when others have to end first.
pub(super) async fn redrive_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &SetRedrive,
    operation: Operation,
    env: &Env,
) -> Result<Option<Done>> {
    let rate = request.rate;
    let request_of_page = Redrive { filter: ItemFilter::default(), limit: None, rate, canary: Vec::new() };
    let mut pass = Pass { store, plans, request: &request_of_page, env, operation, at: None };
    loop {
        match request.room(store, pass.operation.id).await? {
            Room::For(n) => {
                if pass.send(n).await? {
                    continue;
                }
                let (changed, skipped) = sent_and_left(store, pass.operation.id).await?;
                let done = Operation { changed, skipped, ..pass.operation };
                return Ok(Some(close(store, done, env.clock.now()).await?));
            }
            Room::Later => return Ok(None),
            Room::Stop(why) => {
                let stopped = SetRedrive { stopped: Some(why), ..asked(&pass.operation)? };
                let row = Operation {
                    request: Request::RedriveSet(stopped).written()?,
                    state: OperationState::Cancelled,
                    updated_at: env.clock.now(),
                    ..pass.operation
                };
                store.save_operation(row.clone()).await?;
                return Ok(Some(Done { operation: row.id, changed: row.changed, skipped: row.skipped }));
            }
        }
    }
}

/// How many more may be sent back now.
#[derive(Debug, PartialEq)]
enum Room {
    For(u64),
    Later,
    Stop(String),
}

impl SetRedrive {
    /// Whether it depends on how those go that were sent back.
    fn is_watched(&self) -> bool {
        self.canary.is_some() || self.stop_at.is_some()
    }

    async fn room(&self, store: &dyn Store, operation: OperationId) -> Result<Room> {
        if !self.is_watched() {
            return Ok(Room::For(u64::MAX));
        }
        Ok(self.room_after(&outcome::tally(store, operation).await?))
    }

    fn room_after(&self, tally: &Tally) -> Room {
        let (sent, failed, canary) = (tally.sent(), tally.failed(), self.canary.unwrap_or(0));
        if sent < canary && tally.pending > 0 {
            return Room::For(canary - sent);
        }
        if canary > 0 && sent <= canary {
            if failed > 0 {
                return Room::Stop(format!("{failed} of {sent} canaries failed"));
            }
            if tally.live > 0 {
                return Room::Later;
            }
        }
        self.stop_at.map_or(Room::For(u64::MAX), |most| watched(tally, most))
    }
}

/// What may follow so many ends when at most this share of them may be failures. More may be under way the more have ended.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
fn watched(tally: &Tally, most: f64) -> Room {
    let (failed, ended) = (tally.failed(), tally.passed + tally.failed());
    if ended >= TELLING && failed as f64 > most * ended as f64 {
        return Room::Stop(format!("{failed} of {ended} failed again, more than {} percent", most * 100.0));
    }
    match WAVE.max(ended).saturating_sub(tally.live) {
        0 if tally.pending > 0 => Room::Later,
        n => Room::For(n.max(1)),
    }
}

/// One pass over the items of an operation. What was sent back before is passed over, whoever did that.
struct Pass<'a> {
    store: &'a dyn Store,
    plans: &'a dyn Plans,
    request: &'a Redrive,
    env: &'a Env,
    operation: Operation,
    at: Option<ItemSeq>,
}

impl Pass<'_> {
    /// Sends back so many more; `false` when none is left or somebody stopped it.
    async fn send(&mut self, n: u64) -> Result<bool> {
        let mut room = n;
        while room > 0 {
            let page = self.store.members(self.operation.id, self.at, at_most(room)).await?;
            let Some(last) = page.last().map(|member| member.item) else { return Ok(false) };
            if let Some(known) = self.store.operation(self.operation.id).await? {
                if known.state != OperationState::Open {
                    return Ok(false);
                }
                // Another process may carry it on as well: what that sent back counts, and so does its pace.
                self.operation = known;
            }
            let sent = self.page(&page).await?;
            (self.at, room) = (Some(last), room.saturating_sub(sent));
            self.env.progress.reached(self.operation.changed, None);
        }
        Ok(true)
    }

    /// Sends back those of a page that are as they were seen, and returns how many that were.
    async fn page(&mut self, page: &[Member]) -> Result<u64> {
        let before = self.operation.changed;
        for (run, items) in by_run(unchanged(self.store, page).await?) {
            let plan = self.plans.plan(run).await?;
            let alone: Vec<Member> = items.iter().map(member).collect();
            if self.send_back(run, items, plan.as_ref()).await? {
                continue;
            }
            // One of them changed meanwhile, so nothing of the page was written: each for itself then.
            for one in alone {
                let items = unchanged(self.store, &[one]).await?;
                self.send_back(run, items, plan.as_ref()).await?;
            }
        }
        Ok(self.operation.changed - before)
    }

    async fn send_back(&mut self, run: RunId, items: Vec<Item>, plan: Option<&Plan>) -> Result<bool> {
        let page = Page { store: self.store, run, items, env: self.env };
        let pace = self.pace()?;
        send_back(&page, plan, self.request, pace, &mut self.operation).await
    }

    /// The pace of the next page. It is written with the page.
    fn pace(&mut self) -> Result<Pace> {
        let Some(rate) = self.request.rate else { return Ok(Pace::all(self.env)) };
        let (sent, now) = (self.operation.changed, self.env.clock.now());
        let asked = asked(&self.operation)?;
        let pace =
            asked.pace.map_or(Pace { from: now, before: sent }, |pace| pace.kept(sent, Some(rate), now));
        self.operation.request = Request::RedriveSet(SetRedrive { pace: Some(pace), ..asked }).written()?;
        Ok(pace)
    }
}

/// What a redrive of a set was asked, as its row has it now.
fn asked(operation: &Operation) -> Result<SetRedrive> {
    match Request::of(operation)? {
        Request::RedriveSet(asked) => Ok(asked),
        other => Err(Error::Internal(format!("operation {} is another: {other:?}", operation.id))),
    }
}

/// How many items of an operation were sent back, by whoever did it, and how many were not.
async fn sent_and_left(store: &dyn Store, operation: OperationId) -> Result<(u64, u64)> {
    let (mut sent, mut left, mut after) = (0, 0, None);
    loop {
        let page = store.members(operation, after, MANY).await?;
        let Some(last) = page.last() else { return Ok((sent, left)) };
        after = Some(last.item);
        let of_page = page.iter().filter(|member| member.sent.is_some()).count();
        sent += of_page as u64;
        left += (page.len() - of_page) as u64;
    }
}

fn at_most(n: u64) -> usize {
    usize::try_from(n).unwrap_or(PAGE).min(PAGE)
}

fn member(item: &Item) -> Member {
    Member { item: item.seq, rev: item.rev, sent: None }
}

/// Goes on with a purge of a set. `None` while it can be undone.
pub(super) async fn purge_on(
    store: &dyn Store,
    request: &SetPurge,
    mut operation: Operation,
    env: &Env,
) -> Result<Option<Done>> {
    if request.at.is_none_or(|at| at > env.clock.now()) {
        return Ok(None);
    }
    loop {
        let page = store.members(operation.id, operation.after, MANY).await?;
        let Some(last) = page.last().map(|member| member.item) else { break };
        if !is_open(store, operation.id).await? {
            break;
        }
        let items = unchanged(store, &page).await?;
        operation.skipped += (page.len() - items.len()) as u64;
        operation.after = Some(last);
        purge_page(store, &items, &mut operation, env).await?;
        env.progress.reached(operation.changed + operation.skipped, None);
    }
    Ok(Some(close(store, operation, env.clock.now()).await?))
}

/// Those of the items that are dead and as they were seen, and that were not sent back.
async fn unchanged(store: &dyn Store, members: &[Member]) -> Result<Vec<Item>> {
    let left = members.iter().filter(|member| member.sent.is_none());
    let seen: BTreeMap<ItemSeq, Rev> = left.map(|member| (member.item, member.rev)).collect();
    let items = store.items_of(seen.keys().copied().collect()).await?;
    let is_as_seen = |item: &Item| seen.get(&item.seq) == Some(&item.rev);
    Ok(items.into_iter().filter(|item| item.state.kind() == StateKind::Dead && is_as_seen(item)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(canary: Option<u64>, stop_at: Option<f64>) -> SetRedrive {
        SetRedrive { filters: Vec::new(), rate: None, canary, stop_at, ..SetRedrive::default() }
    }

    fn after(pending: u64, live: u64, passed: u64, failed_again: u64) -> Tally {
        Tally { pending, live, passed, failed_again, ..Tally::default() }
    }

    #[test]
    fn the_others_wait_for_the_canaries() {
        let set = set(Some(3), None);
        assert_eq!(set.room_after(&after(10, 0, 0, 0)), Room::For(3));
        assert_eq!(set.room_after(&after(9, 1, 0, 0)), Room::For(2), "a crash came between them");
        assert_eq!(set.room_after(&after(7, 1, 2, 0)), Room::Later);
        assert_eq!(set.room_after(&after(7, 0, 3, 0)), Room::For(u64::MAX));
        assert_eq!(set.room_after(&after(0, 0, 10, 0)), Room::For(u64::MAX), "nothing is left");
        let Room::Stop(why) = set.room_after(&after(7, 1, 1, 1)) else { panic!("one of them failed") };
        assert_eq!(why, "1 of 3 canaries failed");
        assert_eq!(
            set.room_after(&after(3, 2, 4, 1)),
            Room::For(u64::MAX),
            "those that went later are no canaries"
        );
    }

    #[test]
    fn a_share_is_judged_by_enough_ends_and_more_may_go_the_more_have_ended() {
        let set = set(None, Some(0.2));
        assert_eq!(set.room_after(&after(900, 0, 0, 0)), Room::For(100));
        assert_eq!(set.room_after(&after(800, 100, 0, 0)), Room::Later);
        assert_eq!(set.room_after(&after(800, 91, 0, 9)), Room::For(9), "nine say nothing yet");
        assert_eq!(set.room_after(&after(800, 90, 8, 2)), Room::For(10), "as much as is allowed");
        let Room::Stop(why) = set.room_after(&after(800, 90, 7, 3)) else { panic!("too many") };
        assert_eq!(why, "3 of 10 failed again, more than 20 percent");
        assert_eq!(set.room_after(&after(800, 100, 400, 0)), Room::For(300));
        assert_eq!(set.room_after(&after(0, 100, 0, 0)), Room::For(1), "nothing is left to be held back");
    }
}
