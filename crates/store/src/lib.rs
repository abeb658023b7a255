//! Where items are kept: the [`Store`] trait, and the in-memory store that specifies it.
//!
//! A store is dumb. It commits transitions it is handed, in batches, each under the change number it was decided for. It
//! never decides, never computes a wait and never reads a clock: every write is told the time. What is left to be ruled, every store
//! rules alike: [`rule`], and [`sql`] for those on a database.

pub mod error;
pub mod index;
pub mod memory;
pub mod pause;
mod query;
pub mod request;
pub mod rule;
pub mod run;
pub mod sql;
mod store;
pub mod vitals;
pub mod work;

pub use error::Error;
pub use index::Index;
pub use memory::MemoryStore;
pub use pause::{PauseAsk, PauseChange, Pauses, PipelinePause};
pub use query::{
    AttemptPlace, ChangeQuery, ConfigCounter, Content, Damage, Earlier, Group, History, ItemContent,
    ItemFilter, ItemQuery, NextDue, RunCounters, RunSet, Settled, StageDue, Tombstone, TombstoneQuery,
};
pub use request::{
    Applied, Change, Claim, Claimed, ClaimedItem, Commit, CopyHeard, Cursor, DamagedItem, Freeze, ItemRev,
    KeptFact, KeptOutput, OutputKey, Prune, Pruned, Scrub, Scrubbed, Slot, Submit, Submitted, Turn, Turned,
};
pub use run::{
    BegunRun, ControlChange, GateRow, GroupNote, HANDED_OVER, Member, Memo, NewRun, NewWorker, Operation,
    OperationKind, OperationState, Pause, Retired, RunChange, RunEnd, RunFilter, RunRow, WorkerRow,
};
pub use store::{Snapshot, Store};
pub use vitals::{OperationCount, OutboxView, PrunedCounters, StageVitals, Vitals, VitalsQuery};
pub use work::{Has, OpenRun, RunState, WorkFilter, WorkList, WorkPosition, WorkQuery};

/// What every verb of a store answers with.
pub type Result<T> = std::result::Result<T, Error>;
