//! What became of each item of an operation.

use std::collections::BTreeMap;

use redrive_core::attempt::Outcome as Attempted;
use redrive_core::id::{ItemSeq, OperationId};
use redrive_core::item::{Item, StateKind};
use redrive_store::{Member, Result, Store};
use serde::{Deserialize, Serialize};

use super::MANY;

/// What became of an item of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing yet.
    Pending,
    /// It was left alone: something had happened to it since it was seen.
    LeftAlone,
    /// It was sent back and has not ended.
    Live,
    /// It was sent back and ended well.
    Passed,
    /// It was sent back and is dead again, or was since.
    FailedAgain,
    /// It was sent back and then taken out.
    TakenOut,
    /// It is not there any more.
    Gone,
}

/// How many items of an operation came to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// Items of the operation.
    pub items: u64,
    /// Nothing was done to these yet.
    pub pending: u64,
    /// These were left alone.
    pub left_alone: u64,
    /// These have not ended.
    pub live: u64,
    /// These ended well.
    pub passed: u64,
    /// These are dead again.
    pub failed_again: u64,
    /// These were taken out.
    pub taken_out: u64,
    /// These are not there any more.
    pub gone: u64,
}

impl Tally {
    fn add(&mut self, outcome: Outcome) {
        self.items += 1;
        *match outcome {
            Outcome::Pending => &mut self.pending,
            Outcome::LeftAlone => &mut self.left_alone,
            Outcome::Live => &mut self.live,
            Outcome::Passed => &mut self.passed,
            Outcome::FailedAgain => &mut self.failed_again,
            Outcome::TakenOut => &mut self.taken_out,
            Outcome::Gone => &mut self.gone,
        } += 1;
    }

    /// Items that were sent back and did not pass, whatever else became of them.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed_again + self.taken_out
    }

    /// Items that were sent back.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.live + self.passed + self.failed()
    }
}

/// Counts what became of the items of an operation.
///
/// # Errors
/// When the store fails.
pub async fn tally(store: &dyn Store, operation: OperationId) -> Result<Tally> {
    let (mut tally, mut after) = (Tally::default(), None);
    loop {
        let page = store.members(operation, after, MANY).await?;
        let Some(end) = page.last().map(|member| member.item) else { return Ok(tally) };
        after = Some(end);
        outcomes(store, &page).await?.into_iter().for_each(|(_, outcome)| tally.add(outcome));
    }
}

/// What became of items of an operation, in the order given; an item that is gone is not told.
///
/// # Errors
/// When the store fails.
pub async fn outcomes(store: &dyn Store, members: &[Member]) -> Result<Vec<(Option<Item>, Outcome)>> {
    let items = store.items_of(members.iter().map(|member| member.item).collect()).await?;
    let mut items: BTreeMap<ItemSeq, Item> = items.into_iter().map(|item| (item.seq, item)).collect();
    let mut told = Vec::with_capacity(members.len());
    for member in members {
        let item = items.remove(&member.item);
        let outcome = match &item {
            None => Outcome::Gone,
            Some(item) => one(store, member, item).await?,
        };
        told.push((item, outcome));
    }
    Ok(told)
}

async fn one(store: &dyn Store, member: &Member, item: &Item) -> Result<Outcome> {
    let Some(sent) = member.sent else {
        return Ok(if item.rev == member.rev { Outcome::Pending } else { Outcome::LeftAlone });
    };
    if item.generation != sent {
        return went_again(store, item, sent).await;
    }
    Ok(match item.state.kind() {
        StateKind::Waiting | StateKind::Running | StateKind::Joining => Outcome::Live,
        StateKind::Succeeded | StateKind::Filtered => Outcome::Passed,
        StateKind::Dead => Outcome::FailedAgain,
        StateKind::Superseded | StateKind::Cancelled => Outcome::TakenOut,
    })
}

/// How an item ended in a generation that is over: by its last attempt in it.
async fn went_again(store: &dyn Store, item: &Item, sent: u32) -> Result<Outcome> {
    let history = store.history(item.seq).await?;
    let of_it = history.attempts.iter().filter(|attempt| attempt.generation == sent);
    let last = of_it.max_by_key(|attempt| (attempt.ended_at, attempt.attempt)).map(|attempt| attempt.outcome);
    let passed = [Attempted::Succeeded, Attempted::Reused, Attempted::Filtered, Attempted::Expanded];
    Ok(if last.is_some_and(|last| passed.contains(&last)) { Outcome::Passed } else { Outcome::FailedAgain })
}
