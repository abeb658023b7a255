//! For how long an operation was left alone, by whoever should have gone on with it.

use redrive_core::time::Timestamp;
use redrive_store::{Operation, Result, Store};

use super::outcome::{Outcome, outcomes};
use super::redrive::{Canary, canary};
use super::{MANY, Request};

/// One that goes on within so many milliseconds is not asked why it waits.
const PATIENT: i64 = 60_000;
/// Pages of its items that are looked at for one that has not ended.
const PAGES: usize = 10;

/// For how many milliseconds an open operation was left alone; `None` while it waits on purpose: it can be undone, or it waits for
/// the end of what it sent back first.
///
/// # Errors
/// When the store fails.
pub async fn left_alone(store: &dyn Store, operation: &Operation, now: Timestamp) -> Result<Option<i64>> {
    let idle = |since: Timestamp| now.0.saturating_sub(since.0).max(0);
    let since = operation.updated_at;
    // What a newer version asked for is left alone by this one.
    let Ok(request) = Request::of(operation) else { return Ok(Some(idle(since))) };
    let waits = match &request {
        Request::PurgeSet(set) => {
            return Ok(set.at.filter(|at| *at <= now).map(|at| idle(since.max(at))));
        }
        _ if idle(since) < PATIENT => false,
        Request::RedriveSet(set) if set.is_watched() => has_live_items(store, operation).await?,
        Request::Redrive(request) => {
            !request.canary.is_empty() && matches!(canary(store, request).await?, Canary::UnderWay)
        }
        _ => false,
    };
    Ok((!waits).then(|| idle(since)))
}

async fn has_live_items(store: &dyn Store, operation: &Operation) -> Result<bool> {
    let mut after = None;
    for _ in 0..PAGES {
        let page = store.members(operation.id, after, MANY).await?;
        let Some(end) = page.last().map(|member| member.item) else { return Ok(false) };
        after = Some(end);
        if outcomes(store, &page).await?.iter().any(|(_, outcome)| *outcome == Outcome::Live) {
            return Ok(true);
        }
    }
    Ok(false)
}
