//! Operations are carried on by a process that stays, whoever began them.

use std::time::Duration;

use redrive_core::id::OperationId;
use redrive_core::time::Timestamp;
use redrive_engine::admin::{self, Request};
use redrive_store::{Operation, OperationKind, OperationState, Scrub};

use super::{OperationView, show, unknown};
use crate::error::Result;
use crate::sources::Readable;
use crate::{Floor, Role};

/// Operations that are read at a time.
const PAGE: usize = 200;
/// What an import sends back comes from somebody who may take his time: it is left alone so many times as long.
const IMPORT: i64 = 360;
/// Two processes may carry an operation on a set on at once, and a command leaves it to others when it has started it: a tenth of
/// the time is enough.
const SET: i64 = 10;

/// Does what is left of an operation, and says how it stands then. One that waits, for those that were sent first or for the time
/// of the next, stays open.
///
/// # Errors
/// When there is none, a newer version began it, or the store fails; it can be carried on later.
pub async fn carry_on(floor: &Floor, operation: OperationId) -> Result<OperationView> {
    go_on(floor, operation).await?;
    show(floor, operation).await
}

/// Does the same, and does not count what became of its items: whoever looks after it does so every second.
pub(super) async fn go_on(floor: &Floor, operation: OperationId) -> Result<Operation> {
    floor.require(Role::Operator)?;
    let done = admin::go_on(&*floor.store, operation, &Readable::of(floor), &floor.env).await?;
    let row = floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    if done.is_some() && row.kind == OperationKind::Purge && row.state == OperationState::Done {
        floor.store.scrub(Scrub::Leftovers).await?;
    }
    Ok(row)
}

/// The open operations that nobody has gone on with for so long: whoever did them is gone, or they wait.
///
/// # Errors
/// When the store fails.
pub async fn abandoned(floor: &Floor, quiet: Duration) -> Result<Vec<OperationId>> {
    let (mut found, mut after) = (Vec::new(), None);
    let quiet = i64::try_from(quiet.as_millis()).unwrap_or(i64::MAX);
    let now = floor.now().0;
    let is_quiet = |operation: &&Operation| {
        let quiet = match Request::of(operation) {
            Ok(Request::Import { .. }) => quiet.saturating_mul(IMPORT),
            Ok(request) if request.set().is_some() => quiet / SET,
            Ok(_) | Err(_) => quiet,
        };
        operation.updated_at <= Timestamp(now.saturating_sub(quiet))
    };
    loop {
        let page = floor.store.open_operations(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id);
        found.extend(page.iter().filter(is_quiet).map(|each| each.id));
    }
}
