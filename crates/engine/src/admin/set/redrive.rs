//! A frozen set of dead items is sent back: at a rate, the canaries first, and no more when too many of them fail again.

use redrive_core::id::{ItemSeq, OperationId, RunId};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_core::policy::OwnPolicy;
use redrive_store::{Error, ItemFilter, Member, Operation, OperationState, Result, Store};
use serde::{Deserialize, Serialize};

use super::{sent_and_left, unchanged};
use crate::admin::outcome::{self, Tally};
use crate::admin::redrive::send_back;
use crate::admin::selection::Page;
use crate::admin::{Done, PAGE, Pace, Plans, Redrive, Request, by_run, close};
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
    /// The policy that they go under at the stage that failed them, in place of the stage's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<OwnPolicy>,
    /// The pace at which it goes, from its first page on: whoever sends the next one keeps to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
}

/// Goes on with a redrive of a set. `None` when others have to end first.
pub(in crate::admin) async fn redrive_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &SetRedrive,
    operation: Operation,
    env: &Env,
) -> Result<Option<Done>> {
    let SetRedrive { rate, retry, .. } = request.clone();
    let request_of_page = Redrive { rate, retry, ..Redrive::of(ItemFilter::default()) };
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
    pub(in crate::admin) fn is_watched(&self) -> bool {
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

fn at_most(n: u64) -> usize {
    usize::try_from(n).unwrap_or(PAGE).min(PAGE)
}

fn member(item: &Item) -> Member {
    Member { item: item.seq, rev: item.rev, sent: None }
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
