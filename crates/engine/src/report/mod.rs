//! What a person or a program is told. Counters are read, never counted; lists go page by page.

mod check;
mod explain;
mod failures;
mod gates;
mod results;
mod run;
mod stats;
mod tombstone;
mod usage;

pub use crate::counts::{all_counts, live_items};
pub use check::{CheckReport, LawReport, Runs, check};
pub use explain::{
    AttemptView, Explanation, ItemView, Life, MarkView, explain, explain_life, find_item, read_lives,
};
pub use failures::{FailedItem, FailureReport, failures};
pub use gates::{Concurrency, GateReport, PerMinute, gate_report, gate_reports};
pub use results::{LeftOut, Outcome as ResultOutcome, ResultReader, StageOutputs, Wanted};
pub use run::{
    Attempts, DeadBy, ReadReport, RunReport, StageReport, report_on_leaving, run_report, run_reports,
};
pub use stats::{ConfigStats, Healing, StageStats, Stats, stats};
pub use tombstone::{Epitaph, PurgedItem, epitaph, find_tombstones};
pub use usage::UsageReport;
