//! What went wrong, by a name that programs can rely on.

use serde::Serialize;

/// What went wrong, by a name that stays. New ones may come; none changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The command line cannot be read.
    Usage,
    /// What was asked for makes no sense as it was said.
    InvalidRequest,
    /// A pipeline is wrong; each problem is listed.
    InvalidPipeline,
    /// A stage cannot be built here: its program, a variable or a model is missing.
    StageNotReady,
    /// A file cannot be read.
    UnreadableFile,
    /// A source is not there or cannot be read.
    UnreadableSource,
    /// An output file is refused: writing it would destroy something.
    OutputRefused,
    /// An output cannot be written.
    OutputFailed,
    /// A question was not answered with yes.
    NotConfirmed,
    /// What was asked for does not exist.
    NotFound,
    /// There is no such run.
    RunNotFound,
    /// There is no such item.
    ItemNotFound,
    /// Several items have the name.
    ItemAmbiguous,
    /// There is no such gate.
    GateNotFound,
    /// There is no index.
    IndexNotFound,
    /// Nobody says who asks, or not by a token that is known.
    Unauthenticated,
    /// Whoever asks may not do that.
    Forbidden,
    /// There is no such operation.
    OperationNotFound,
    /// There is no such pipeline.
    PipelineNotFound,
    /// There is more of it than is taken.
    TooLarge,
    /// As many as may do that at a time do so already.
    Crowded,
    /// The lease was not made for whoever shows it.
    LeaseForeign,
    /// The work is not held under the lease any more.
    LeaseOver,
    /// How things stand does not allow what was asked.
    Refused,
    /// The run has ended.
    RunFinished,
    /// The run was cancelled.
    RunCancelled,
    /// The run is paused, and has to be resumed first.
    RunPaused,
    /// The item has ended.
    ItemFinished,
    /// The index was replaced meanwhile.
    IndexReplaced,
    /// There is no store at that place.
    StoreNotFound,
    /// The store cannot be opened or made there.
    StoreCannotOpen,
    /// The file is no store.
    StoreForeign,
    /// A newer version wrote it.
    StoreNewer,
    /// It can be read and not written.
    StoreReadOnly,
    /// It is damaged.
    StoreDamaged,
    /// The disk is full.
    StoreFull,
    /// Somebody else holds it.
    StoreBusy,
    /// It was taken away.
    StoreGone,
    /// It does not answer.
    StoreUnavailable,
    /// Something broke that should not.
    Internal,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 40] = [
        Self::Usage,
        Self::InvalidRequest,
        Self::InvalidPipeline,
        Self::StageNotReady,
        Self::UnreadableFile,
        Self::UnreadableSource,
        Self::OutputRefused,
        Self::OutputFailed,
        Self::NotConfirmed,
        Self::NotFound,
        Self::RunNotFound,
        Self::ItemNotFound,
        Self::ItemAmbiguous,
        Self::GateNotFound,
        Self::IndexNotFound,
        Self::Unauthenticated,
        Self::Forbidden,
        Self::OperationNotFound,
        Self::PipelineNotFound,
        Self::TooLarge,
        Self::Crowded,
        Self::LeaseForeign,
        Self::LeaseOver,
        Self::Refused,
        Self::RunFinished,
        Self::RunCancelled,
        Self::RunPaused,
        Self::ItemFinished,
        Self::IndexReplaced,
        Self::StoreNotFound,
        Self::StoreCannotOpen,
        Self::StoreForeign,
        Self::StoreNewer,
        Self::StoreReadOnly,
        Self::StoreDamaged,
        Self::StoreFull,
        Self::StoreBusy,
        Self::StoreGone,
        Self::StoreUnavailable,
        Self::Internal,
    ];
}
