//! An operation is written down, to be carried on by whoever stays.

use redrive_core::id::ItemId;
use redrive_engine::admin::{self, Request};
use serde::Serialize;

use super::{OperationView, Start, StartKind, set, view};
use crate::again::{preview_retry, rerun_requests, retry_requests};
use crate::dead::{Planned, Selection, finds_any, own_policy_if_any, requests_from};
use crate::error::{Error, Result};
use crate::runs::{Runs, refuse_cancelling};
use crate::{Floor, Role};

/// Most operations that one request makes: a stage or a pipeline is another one in every run.
pub(super) const MOST: usize = 100;
/// Most items that are sent first, and most that a dry run names.
pub(super) const NAMED: usize = 1_000;
/// What was written down to be done, or would be done.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Started {
    /// Whether this only says what would be done.
    pub dry_run: bool,
    /// How many items would be changed; `null` unless it is a dry run.
    pub items: Option<u64>,
    /// How many would be left alone; `null` unless it is a dry run.
    pub skipped: Option<u64>,
    /// The first of those that would be changed; `null` where they are not named.
    pub ids: Option<Vec<ItemId>>,
    /// What sending them back would mean; `null` unless it is a dry run of a redrive.
    pub preview: Option<Planned>,
    /// The operations, which are carried on from now on; after a dry run they are frozen and wait to be started.
    pub operations: Vec<OperationView>,
}

/// Writes down what is to be done; whoever stays carries it on ([`carry_on`](super::carry_on)).
///
/// # Errors
/// When the request makes no sense, what it names does not exist, or the store fails.
pub async fn start(floor: &Floor, request: &Start) -> Result<Started> {
    floor.require(Role::Operator)?;
    request.check()?;
    if request.has_set() {
        return set::start(floor, request).await;
    }
    if request.dry_run {
        return foresee(floor, request).await;
    }
    let asked = requests(floor, request).await?;
    if asked.len() > MOST {
        return Err(Error::wrong(format!("that reaches into {} runs, at most {MOST} at once", asked.len()))
            .hint("name a run, or leave the stage and the pipeline out of the filter"));
    }
    let mut started = Started::default();
    for request in &asked {
        // What finds nothing is no operation that anybody would look for.
        if let Request::Redrive(admin::Redrive { filter, .. }) | Request::Purge { filter } = request
            && !finds_any(floor, filter).await?
        {
            continue;
        }
        let begun = admin::begin(&*floor.store, request, &floor.asker.name, &floor.env).await?;
        started.operations.push(view(floor, begun).await?);
    }
    if started.operations.is_empty() && matches!(request.kind, StartKind::Redrive | StartKind::Purge) {
        Selection::of(floor, &request.filter).await?.refuse_no_such_group(floor).await?;
    }
    Ok(started)
}

async fn requests(floor: &Floor, request: &Start) -> Result<Vec<Request>> {
    if let Some(stage) = &request.from {
        let selection = Selection::of(floor, &request.filter).await?;
        return Ok(requests_from(floor, &selection, stage).await?.into_iter().map(Request::Rerun).collect());
    }
    Ok(match request.kind {
        StartKind::Redrive => {
            let filters = Selection::of(floor, &request.filter).await?.into_filters();
            if filters.len() > 1 && request.limit.is_some() {
                return Err(Error::wrong("a limit is of one run")
                    .hint("name a run, or leave the stage and the pipeline out of the filter"));
            }
            let retry = own_policy_if_any(request.retry.as_ref())?;
            let one = |filter| admin::Redrive {
                limit: request.limit,
                retry: retry.clone(),
                ..admin::Redrive::of(filter)
            };
            filters.into_iter().map(|filter| Request::Redrive(one(filter))).collect()
        }
        StartKind::Purge => {
            let filters = Selection::of(floor, &request.filter).await?.into_filters();
            filters.into_iter().map(|filter| Request::Purge { filter }).collect()
        }
        StartKind::Retry => {
            retry_requests(floor, &request.retry()).await?.into_iter().map(Request::Retry).collect()
        }
        StartKind::Rerun => {
            rerun_requests(floor, &request.rerun()).await?.into_iter().map(Request::Rerun).collect()
        }
        StartKind::Cancel => {
            let known = Runs::of(&*floor.store).find(request.filter.run).await?;
            refuse_cancelling(&known)?;
            vec![Request::Cancel { run: known.row.id }]
        }
    })
}

/// Says what an operation would do that has no set: it is not kept.
async fn foresee(floor: &Floor, request: &Start) -> Result<Started> {
    let told = |items, skipped| Started {
        dry_run: true,
        items: Some(items),
        skipped: Some(skipped),
        ..Started::default()
    };
    Ok(match request.kind {
        StartKind::Redrive | StartKind::Purge | StartKind::Rerun => return set::start(floor, request).await,
        StartKind::Retry => {
            let found = preview_retry(floor, &request.retry()).await?;
            told(found.items, found.skipped)
        }
        StartKind::Cancel => {
            let known = Runs::of(&*floor.store).find(request.filter.run).await?;
            refuse_cancelling(&known)?;
            told(redrive_engine::report::live_items(&*floor.store, known.row.id).await?, 0)
        }
    })
}
