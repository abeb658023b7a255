//! One pass over the items of a set that is sent back.

use redrive_core::id::{ItemSeq, RunId};
use redrive_core::item::Item;
use redrive_core::plan::Plan;
use redrive_store::{Member, Operation, OperationState, Result, Store};

use super::redrive::{asked, pace_of};
use super::unchanged;
use crate::admin::redrive::send_back;
use crate::admin::selection::Page;
use crate::admin::{PAGE, Pace, Plans, Redrive, Request, SetRedrive, by_run};
use crate::env::Env;

/// A pass over the items of an operation, from where it was. What was sent back before is passed over, whoever did that.
pub(super) struct Pass<'a> {
    store: &'a dyn Store,
    plans: &'a dyn Plans,
    request: &'a Redrive,
    env: &'a Env,
    pub(super) operation: Operation,
    at: At,
}

/// Where a pass is.
#[derive(Clone, Copy)]
struct At {
    /// Behind this item; `None`: at the beginning.
    after: Option<ItemSeq>,
    /// Whether it looks from the beginning once more when it is through: a page is several writes where its items are of several
    /// runs, and one that was broken off between them has left some.
    again: bool,
}

impl<'a> Pass<'a> {
    /// One that goes on where the operation is.
    pub(super) fn new(
        store: &'a dyn Store,
        plans: &'a dyn Plans,
        request: &'a Redrive,
        operation: Operation,
        env: &'a Env,
    ) -> Self {
        let at = At { after: operation.after, again: operation.after.is_some() };
        Self { store, plans, request, env, operation, at }
    }

    /// Sends back so many more; `false` when none is left or somebody stopped it.
    pub(super) async fn send(&mut self, n: u64) -> Result<bool> {
        let mut room = n;
        while room > 0 {
            let Some((mut items, end)) = self.next().await? else { return Ok(false) };
            if let Some(known) = self.store.operation(self.operation.id).await? {
                if known.state != OperationState::Open {
                    return Ok(false);
                }
                // Another process may carry it on as well: what that sent back counts, and so does its pace.
                self.operation = known;
            }
            let cut = usize::try_from(room).is_ok_and(|room| room < items.len());
            if cut {
                items.truncate(usize::try_from(room).unwrap_or(usize::MAX));
            }
            self.at = At { after: if cut { items.last().map(|item| item.seq) } else { end.after }, ..end };
            room = room.saturating_sub(self.page(items).await?);
            self.env.progress.reached(self.operation.changed, None);
        }
        Ok(true)
    }

    /// Whether something is left to be sent back.
    pub(super) async fn has_more(&self) -> Result<bool> {
        Ok(self.next().await?.is_some())
    }

    /// The items of the next page that has any to be sent back, and where the pass is behind it.
    async fn next(&self) -> Result<Option<(Vec<Item>, At)>> {
        let mut at = self.at;
        loop {
            let page = self.store.members(self.operation.id, at.after, PAGE).await?;
            at = match page.last().map(|member| member.item) {
                Some(last) => At { after: Some(last), ..at },
                None if at.again => At { after: None, again: false },
                None => return Ok(None),
            };
            let mut items = unchanged(self.store, &page).await?;
            if !items.is_empty() {
                items.sort_unstable_by_key(|item| item.seq);
                return Ok(Some((items, at)));
            }
        }
    }

    /// Sends items back, and returns how many that were.
    async fn page(&mut self, items: Vec<Item>) -> Result<u64> {
        let before = self.operation.changed;
        for (run, items) in by_run(items) {
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
        let pace = pace_of(&self.operation, rate, self.env.clock.now())?;
        let asked = SetRedrive { pace: Some(pace), ..asked(&self.operation)? };
        self.operation.request = Request::RedriveSet(asked).written()?;
        Ok(pace)
    }
}

fn member(item: &Item) -> Member {
    Member { item: item.seq, rev: item.rev, sent: None }
}
