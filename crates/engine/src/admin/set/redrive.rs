//! A frozen set of dead items is sent back: at a rate, the canaries first, and no more when too many of them fail again.

use redrive_core::policy::OwnPolicy;
use redrive_core::time::Timestamp;
use redrive_store::{Error, ItemFilter, Operation, OperationState, Result, Store};
use serde::{Deserialize, Serialize};

use super::pass::Pass;
use super::room::Room;
use super::sent_and_left;
use crate::admin::outcome::{self, Tally};
use crate::admin::{Done, Pace, Plans, Redrive, Request, close};
use crate::env::Env;

/// How a frozen set of dead items is sent back.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SetRedrive {
    /// What the set was chosen by: it tells which dead items have come too late for it.
    pub filters: Vec<ItemFilter>,
    /// At most so many were to be in the set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// So many a second, each not before its time is near; `None`: all at once.
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

/// Goes on with a redrive of a set. `None` when it is not time for the next, or others have to end first.
pub(in crate::admin) async fn redrive_on(
    store: &dyn Store,
    plans: &dyn Plans,
    request: &SetRedrive,
    operation: Operation,
    env: &Env,
) -> Result<Option<Done>> {
    let SetRedrive { rate, retry, .. } = request.clone();
    let request_of_page = Redrive { rate, retry, ..Redrive::of(ItemFilter::default()) };
    let mut pass = Pass::new(store, plans, &request_of_page, operation, env);
    loop {
        match request.room(store, &pass.operation, env.clock.now()).await? {
            Room::For(n) if pass.send(n).await? => {}
            Room::Later if pass.has_more().await? => return Ok(None),
            Room::For(_) | Room::Later => {
                let (changed, skipped) = sent_and_left(store, pass.operation.id).await?;
                let done = Operation { changed, skipped, ..pass.operation };
                return Ok(Some(close(store, done, env.clock.now()).await?));
            }
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

impl SetRedrive {
    /// Whether it depends on how those go that were sent back.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.canary.is_some() || self.stop_at.is_some()
    }

    /// The same as it was asked, without what has come of it.
    #[must_use]
    pub fn as_asked(&self) -> Self {
        Self { stopped: None, pace: None, ..self.clone() }
    }

    async fn room(&self, store: &dyn Store, operation: &Operation, now: Timestamp) -> Result<Room> {
        let in_time = self.in_time(operation, now)?;
        if !self.is_watched() {
            return Ok(Room::For(in_time).at_most(in_time));
        }
        Ok(self.room_after(&outcome::tally(store, operation.id).await?).at_most(in_time))
    }

    /// How many more the rate lets go now.
    fn in_time(&self, operation: &Operation, now: Timestamp) -> Result<u64> {
        let Some(rate) = self.rate else { return Ok(u64::MAX) };
        Ok(pace_of(operation, rate, now)?.room(operation.changed, rate, now))
    }

    fn room_after(&self, tally: &Tally) -> Room {
        Room::after(tally, self.canary.unwrap_or(0), self.stop_at)
    }
}

/// The pace of the next page of an operation with a rate.
pub(super) fn pace_of(operation: &Operation, rate: f64, now: Timestamp) -> Result<Pace> {
    let sent = operation.changed;
    let begins = Pace { from: now, before: sent };
    Ok(asked(operation)?.pace.map_or(begins, |pace| pace.kept_near(sent, rate, now)))
}

/// What a redrive of a set was asked, as its row has it now.
pub(super) fn asked(operation: &Operation) -> Result<SetRedrive> {
    match Request::of(operation)? {
        Request::RedriveSet(asked) => Ok(asked),
        other => Err(Error::Internal(format!("operation {} is another: {other:?}", operation.id))),
    }
}
