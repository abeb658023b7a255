//! What a person or a program is told. Counters are read, never counted; lists go page by page.

mod check;
mod crew;
mod explain;
mod failures;
mod gates;
mod pace;
mod pauses;
mod results;
mod run;
mod stats;
mod tombstone;
mod trend;
mod usage;
mod verdicts;

pub use crate::counts::{all_counts, dead_items, live_items};
pub use check::{AuditPage, CheckReport, LawReport, Runs, audit_page, check};
pub use crew::Crew;
pub use explain::{
    AttemptView, AwaitedView, Example, Explanation, ItemView, Life, MarkView, NEWEST, PartFailure, Parts,
    attempts_before, explain, explain_life, find_item, read_lives,
};
pub use failures::{
    FailedItem, FailedRun, FailureAfter, FailureOrder, FailurePlace, FailureQuery, FailureReport,
    FailureTotals, ProjectFailures, StageFailures, failures,
};
pub use gates::{Concurrency, GateReport, GateTotals, PerMinute, gate_opened_at, gate_report, gate_reports};
pub use pace::Pace;
pub use pauses::{PauseView, pauses_on};
pub use results::{LeftOut, Outcome as ResultOutcome, ResultReader, StageOutputs, Wanted};
pub use run::{
    Attempts, DeadBy, ReadReport, RunReport, StageReport, report_on_leaving, run_report, run_reports,
};
pub use stats::{ConfigStats, Healing, Rates, StageStats, Stats, Took, stats};
pub use tombstone::{Epitaph, PurgedItem, epitaph, find_tombstones};
pub use trend::{ConfigTrend, DayTrend, Figures, RunTrend, StageTrend, Trend, TrendRun, trend};
pub use usage::UsageReport;
pub use verdicts::VerdictCounts;
