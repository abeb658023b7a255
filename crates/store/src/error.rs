//! What can go wrong in a store, by what the caller can do about it.

use redrive_core::id::RunId;

/// A store's refusal. Driver errors are translated into this once, where they arise.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Somebody else holds the store; nothing was written; try again.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store did not answer; it is **not known** whether the write happened; look again before repeating it.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// There is no room; nothing was written.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The file is damaged; it is left as it is.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// The file is not one of Redrive's; it is left as it is.
    #[error("not a redrive store: {0}")]
    Foreign(String),
    /// The store was made by a newer version of Redrive.
    #[error("the store has schema {found}, and this version knows schemas up to {known}")]
    Newer {
        /// Its schema.
        found: i64,
        /// The newest schema this version knows.
        known: i64,
    },
    /// Somebody reads the run's source anew, because it changed; what an older reading has is refused.
    #[error("the source is read anew by somebody else (reading {reading})")]
    Overtaken {
        /// The reading that is under way.
        reading: u32,
    },
    /// The run was cancelled: it takes nothing any more, and nothing was written.
    #[error("run {run} was cancelled")]
    RunCancelled {
        /// The run.
        run: RunId,
    },
    /// The index of the directory was made anew by somebody else; what was meant for the old one is refused.
    #[error("the index of this directory was made anew meanwhile")]
    IndexReplaced,
    /// What the store keeps was written by a newer version of Redrive, and this one would misunderstand it; it is left as it
    /// is.
    #[error("this version of redrive cannot read {what}: {why}")]
    Unreadable {
        /// What it is.
        what: String,
        /// What is not understood.
        why: String,
    },
    /// There is no such thing.
    #[error("{0} does not exist")]
    NotFound(String),
    /// The store cannot be opened or created where it was asked for.
    #[error("cannot open the store: {0}")]
    Open(String),
    /// The store is not the one any more that was opened: what is written now would be in none.
    #[error("the store is gone: {0}")]
    Gone(String),
    /// The store can be read and not be written: nothing was written.
    #[error("the store can only be read: {0}")]
    ReadOnly(String),
    /// A mistake in the program.
    #[error("internal store error: {0}")]
    Internal(String),
}

impl Error {
    /// Whether the same call may go well later.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Busy(_) | Self::Unavailable(_) | Self::Full(_) => true,
            Self::Corrupt(_)
            | Self::Foreign(_)
            | Self::Newer { .. }
            | Self::Overtaken { .. }
            | Self::RunCancelled { .. }
            | Self::IndexReplaced
            | Self::Unreadable { .. }
            | Self::NotFound(_)
            | Self::Open(_)
            | Self::Gone(_)
            | Self::ReadOnly(_)
            | Self::Internal(_) => false,
        }
    }
}
