//! What operators do to a run, a gate, an item, a group or another operation at once, written down with who did it.

use redrive_core::id::{ItemId, OperationId, RunId};
use redrive_core::time::Timestamp;
use redrive_store::{OperationKind, Result, Store};
use serde::{Deserialize, Serialize};

use super::Request;
use super::pipelines::record;

/// What somebody does at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "snake_case")]
pub enum Act {
    /// Pauses a run.
    PauseRun {
        /// Which.
        run: RunId,
    },
    /// Lets a run go on.
    ResumeRun {
        /// Which.
        run: RunId,
    },
    /// Has a standing run take nothing more.
    CloseRun {
        /// Which.
        run: RunId,
    },
    /// Pauses a gate.
    PauseGate {
        /// Which.
        gate: String,
        /// Why.
        why: String,
    },
    /// Lets a gate go on.
    ResumeGate {
        /// Which.
        gate: String,
    },
    /// Has a gate forget what was found out about it.
    ResetGate {
        /// Which.
        gate: String,
    },
    /// Stops an operation.
    StopOperation {
        /// Which.
        operation: OperationId,
    },
    /// Stops an operation before it has done anything.
    UndoOperation {
        /// Which.
        operation: OperationId,
    },
    /// Gives an item up.
    KillItem {
        /// The run it is in.
        run: RunId,
        /// Which.
        item: ItemId,
        /// Why.
        why: String,
    },
    /// Writes down what is known about a group of dead items.
    NoteGroup {
        /// Which.
        group: String,
        /// The words, where some are said.
        words: Option<String>,
        /// Whether it is looked after, where that is said.
        acknowledged: Option<bool>,
    },
}

impl Act {
    /// What kind of operation it is kept as.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        match self {
            Self::PauseRun { .. } | Self::PauseGate { .. } => OperationKind::Pause,
            Self::ResumeRun { .. } | Self::ResumeGate { .. } => OperationKind::Resume,
            Self::CloseRun { .. } => OperationKind::Close,
            Self::ResetGate { .. } => OperationKind::Reset,
            Self::StopOperation { .. } | Self::UndoOperation { .. } => OperationKind::Stop,
            Self::KillItem { .. } => OperationKind::Kill,
            Self::NoteGroup { .. } => OperationKind::Note,
        }
    }
}

/// Writes down who does something, as an operation that is done.
///
/// # Errors
/// When the store fails.
pub async fn write_down(store: &dyn Store, act: Act, actor: &str, now: Timestamp) -> Result<()> {
    store.save_operation(record(&Request::Act(act), actor, now)?).await?;
    Ok(())
}
