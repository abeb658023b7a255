//! Operations on many items: who asked for what, and how far it is.

mod carry;
mod start;
mod words;

use redrive_core::id::OperationId;
use redrive_engine::admin;
use redrive_store::{Operation, OperationKind, OperationState};
use serde::Serialize;

use crate::error::{Code, Error, Result};
use crate::runs::Runs;
use crate::{Floor, Role};

pub use carry::{abandoned, carry_on};
pub use start::{Start, StartKind, Started, start};

/// Most operations of a list.
const MOST: usize = 1_000;

/// Operations, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OperationList {
    /// Each of them.
    pub operations: Vec<OperationView>,
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
}

impl OperationView {
    fn new(operation: Operation, asked: String) -> Self {
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
        let (created_at, updated_at) = (created_at.to_string(), updated_at.to_string());
        Self { id, kind, state, actor, request, asked, changed, skipped, created_at, updated_at }
    }
}

/// Lists operations, newest first.
///
/// # Errors
/// When the store fails.
pub async fn list(floor: &Floor, limit: usize) -> Result<OperationList> {
    let operations = floor.store.operations(limit.min(MOST)).await?;
    let runs = Runs::of(&*floor.store);
    let mut list = Vec::new();
    for operation in operations {
        let asked = words::of(&runs, &operation).await?;
        list.push(OperationView::new(operation, asked));
    }
    Ok(OperationList { operations: list })
}

/// Says how far an operation is.
///
/// # Errors
/// When there is none, or the store fails.
pub async fn show(floor: &Floor, operation: OperationId) -> Result<OperationView> {
    view(floor, floor.store.operation(operation).await?.ok_or_else(|| unknown(operation))?).await
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

/// Stops an operation after the page it is at.
///
/// # Errors
/// When it is not under way, or the store fails.
pub async fn stop(floor: &Floor, operation: OperationId) -> Result<()> {
    floor.require(Role::Operator)?;
    if admin::stop_operation(&*floor.store, operation, floor.now()).await? {
        return Ok(());
    }
    show(floor, operation).await?;
    Err(Error::refused(format!("operation {operation} is not under way")))
}
