//! What operators do to a run or a gate at once, written down with who did it.

use redrive_core::id::RunId;
use redrive_core::time::Timestamp;
use redrive_store::{OperationKind, Result, Store};
use serde::{Deserialize, Serialize};

use super::Request;
use super::pipelines::record;

/// What somebody does to a run or a gate.
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
