//! Operations on many items: who asked for what, and how far it is.

mod asked;
mod carrier;
mod carry;
mod doomed;
mod items;
mod rules;
mod set;
mod start;
mod through;
mod words;

use redrive_core::id::OperationId;
use redrive_engine::admin::{self, Act, Request, Tally};
use redrive_store::{Operation, OperationKind, OperationState};
use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::runs::Runs;
use crate::{Floor, Role};

pub use asked::{Start, StartKind};
pub use carrier::Carrier;
pub use carry::{abandoned, carry_on};
pub(crate) use doomed::Doomed;
pub use items::{ItemsOf, OperationItem, OperationItems, items};
pub use rules::apply as apply_rules;
pub use set::start_frozen;
pub use start::{Started, start};
pub use through::{Through, work_through};

/// Most operations of a list.
const MOST: usize = 1_000;

/// Operations, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationList {
    /// Each of them.
    pub operations: Vec<OperationView>,
    /// Where the next page goes on: with those that are older than this; `None` when this is the last.
    #[serde(skip)]
    pub next: Option<OperationId>,
}

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationView {
    /// Its number.
    pub id: OperationId,
    /// What it does.
    pub kind: OperationKind,
    /// How far it is.
    pub state: OperationState,
    /// Who asked.
    pub actor: String,
    /// What was asked, as JSON.
    pub request: String,
    /// The same in words.
    #[serde(skip)]
    pub asked: String,
    /// Items changed.
    pub changed: u64,
    /// Items that were left alone.
    pub skipped: u64,
    /// When it began.
    pub created_at: String,
    /// When it last went on.
    pub updated_at: String,
    /// Nothing is removed before this time, and stopping the operation undoes it; `null` where it cannot be undone.
    pub undo_until: Option<String>,
    /// Why it was stopped, where nobody did; `null` otherwise.
    pub stopped: Option<String>,
    /// What became of its items; `null` in a list.
    pub outcomes: Option<Tally>,
    /// Dead items that are like those of its set, are none of them and died after it was frozen; `null` in a list, and without a set.
    pub late: Option<u64>,
}

impl OperationView {
    fn new(operation: Operation, asked: String) -> Self {
        let (undo_until, stopped) = match Request::of(&operation) {
            Ok(Request::PurgeSet(set)) => {
                (set.at.filter(|_| operation.state == OperationState::Open).map(|at| at.to_string()), None)
            }
            Ok(Request::RedriveSet(set)) => (None, set.stopped),
            Ok(_) | Err(_) => (None, None),
        };
        let Operation {
            id,
            kind,
            state,
            actor,
            request,
            after: _,
            changed,
            skipped,
            created_at,
            updated_at,
            ..
        } = operation;
        Self {
            id,
            kind,
            state,
            actor,
            request,
            asked,
            changed,
            skipped,
            created_at: created_at.to_string(),
            updated_at: updated_at.to_string(),
            undo_until,
            stopped,
            outcomes: None,
            late: None,
        }
    }
}

/// Lists operations, newest first.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor, limit: usize) -> Result<OperationList> {
    page(floor, None, limit).await
}

/// Lists operations that are older than one, newest first.
///
/// # Errors
/// When the store fails.
pub async fn page(floor: &Floor, before: Option<OperationId>, limit: usize) -> Result<OperationList> {
    let limit = limit.min(MOST);
    // One more tells whether there is another page.
    let mut operations = floor.store.operations(before, limit + 1).await?;
    let more = operations.len() > limit;
    operations.truncate(limit);
    let next = operations.last().map(|last| last.id).filter(|_| more);
    let runs = Runs::of(&*floor.store);
    let mut list = Vec::new();
    for operation in operations {
        let asked = words::of(&runs, &operation).await?;
        list.push(OperationView::new(operation, asked));
    }
    Ok(OperationList { operations: list, next })
}

/// Says how far an operation is.
///
/// # Errors
/// When there is none, or the store fails.
pub async fn show(floor: &Floor, operation: OperationId) -> Result<OperationView> {
    let row = floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    let (request, frozen_at) = (Request::of(&row).ok(), row.created_at);
    let mut view = view(floor, row).await?;
    view.outcomes = Some(admin::tally(&*floor.store, operation).await?);
    if let Some(filters) = request.as_ref().and_then(Request::set) {
        view.late = Some(admin::late(&*floor.store, operation, filters, frozen_at).await?);
    }
    Ok(view)
}

async fn view(floor: &Floor, operation: Operation) -> Result<OperationView> {
    let asked = words::of(&Runs::of(&*floor.store), &operation).await?;
    Ok(OperationView::new(operation, asked))
}

fn unknown(operation: OperationId) -> Error {
    Error::not_found(format!("operation {operation} does not exist"))
        .code(Code::OperationNotFound)
        .hint("`redrive dead operations` lists them")
}

/// Stops an operation after the page it is at, and says what it has done until then. One that has a time to be undone in has
/// done nothing yet.
///
/// # Errors
/// When it is not under way, or the store fails.
pub async fn stop(floor: &Floor, operation: OperationId) -> Result<OperationView> {
    floor.require(Role::Operator)?;
    let known = floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?;
    if matches!(known.state, OperationState::Open | OperationState::Frozen) {
        floor.write_down(stopping(&known)).await?;
        if admin::stop_operation(&*floor.store, operation, floor.now()).await? {
            return show(floor, operation).await;
        }
    }
    Err(Error::refused(format!("operation {operation} is not under way")))
}

/// What stopping an operation means: one that has done nothing yet is undone.
fn stopping(known: &Operation) -> Act {
    let operation = known.id;
    let waits = known.state == OperationState::Open
        && known.changed == 0
        && matches!(Request::of(known), Ok(Request::PurgeSet(set)) if set.undo_ms > 0);
    match waits {
        true => Act::UndoOperation { operation },
        false => Act::StopOperation { operation },
    }
}
