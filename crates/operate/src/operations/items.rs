//! The items of an operation, and what became of each.

use redrive_core::id::{ItemId, ItemSeq, OperationId, RunId};
use redrive_engine::admin::{self, Outcome};
use redrive_store::{Member, TombstoneQuery};
use serde::Serialize;

use super::unknown;
use crate::Floor;
use crate::error::{Error, Result};
use crate::runs::Runs;

/// Items that are looked at a time.
const PAGE: usize = 500;

/// Which items of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ItemsOf {
    /// Only those that came to this.
    pub outcome: Option<Outcome>,
    /// At most so many.
    pub limit: usize,
    /// Goes on after this, from `next` of the page before.
    pub after: Option<String>,
}

/// Items of an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationItems {
    /// Each of them, in the order of submission.
    pub items: Vec<OperationItem>,
    /// Where the next page begins; `null` when this is the last.
    pub next: Option<String>,
}

/// One item of an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OperationItem {
    /// Its id; `null` when nothing is known of it any more.
    pub id: Option<ItemId>,
    /// Its key.
    pub key: Option<String>,
    /// Its run.
    pub run: Option<RunId>,
    /// The stage it is at, or ended at.
    pub stage: Option<String>,
    /// What became of it.
    pub outcome: Outcome,
    /// What its last failure said, where it is dead.
    pub message: Option<String>,
}

/// Lists the items of an operation with what became of them.
///
/// # Errors
/// When there is no such operation, the cursor is none, or the store fails.
pub async fn items(floor: &Floor, operation: OperationId, asked: &ItemsOf) -> Result<OperationItems> {
    let store = &*floor.store;
    store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    let mut after = asked.after.as_deref().map(cursor).transpose()?;
    let runs = Runs::of(store);
    let mut found = Vec::new();
    loop {
        let page = store.members(operation, after, PAGE).await?;
        if page.is_empty() {
            return Ok(OperationItems { items: found, next: None });
        }
        for (member, (item, outcome)) in page.iter().zip(admin::outcomes(store, &page).await?) {
            if found.len() >= asked.limit.max(1) {
                let next = after.map(|at| at.0.to_string());
                return Ok(OperationItems { items: found, next });
            }
            after = Some(member.item);
            if asked.outcome.is_some_and(|wanted| wanted != outcome) {
                continue;
            }
            found.push(match item {
                None => gone(floor, &runs, member, outcome).await?,
                Some(item) => OperationItem {
                    id: Some(item.id),
                    key: Some(item.key.to_string()),
                    run: Some(item.run),
                    stage: Some(runs.stage_name(item.run, item.stage).await?),
                    outcome,
                    message: item
                        .last
                        .as_ref()
                        .map(|last| last.message.to_string())
                        .filter(|said| !said.is_empty()),
                },
            });
        }
    }
}

/// What is left of an item that is not there any more.
async fn gone(floor: &Floor, runs: &Runs<'_>, member: &Member, outcome: Outcome) -> Result<OperationItem> {
    let query = TombstoneQuery {
        after: Some(ItemSeq(member.item.0.saturating_sub(1))),
        limit: 1,
        ..TombstoneQuery::default()
    };
    let left = floor.store.tombstones(query).await?.into_iter().find(|left| left.seq == member.item);
    let stage = match left.as_ref().and_then(|left| Some((left.run, left.was?.stage))) {
        Some((run, stage)) => Some(runs.stage_name(run, stage).await?),
        None => None,
    };
    Ok(OperationItem {
        id: left.as_ref().map(|left| left.id),
        key: left.as_ref().map(|left| left.key.to_string()),
        run: left.as_ref().map(|left| left.run),
        stage,
        outcome,
        message: None,
    })
}

fn cursor(text: &str) -> Result<ItemSeq> {
    text.parse().map(ItemSeq).map_err(|_| {
        Error::wrong("that is no cursor of this list")
            .hint("take `next` of the page before, and nothing else")
    })
}
