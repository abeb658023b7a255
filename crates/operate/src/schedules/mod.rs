//! Schedules: what a daemon begins by itself, and how that stands.
//!
//! A time is decided in the store before its run is begun, under a change number: of two daemons one decides, and whoever
//! comes after a crash finds what was decided and does it. Beginning a run twice is going on with it, so nothing is done
//! twice.

mod fire;
mod view;
mod zone;

pub use fire::{Clerk, Happened, What};
pub use view::{FiredView, ScheduleList, ScheduleView, SkippedView, list, with_schedules};
pub(crate) use zone::{KnownZone, UNKNOWN_HINT};

use redrive_core::schedule::Book;
use redrive_store::Memo;
use serde::{Deserialize, Serialize};

/// Memos of schedules are called so, with the name of the pipeline.
const MEMO: &str = "schedule/";

/// What is remembered of a schedule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    /// The folder that its pipeline is in.
    folder: String,
    #[serde(flatten)]
    book: Book,
}

/// The pipeline that a memo is of.
fn pipeline_of(memo: &Memo) -> &str {
    memo.name.strip_prefix(MEMO).unwrap_or(&memo.name)
}
