//! How many items were found to be what.

use redrive_core::id::StageNo;
use redrive_core::tally::{Counter, Metric};
use redrive_core::verdict::Verdict;
use serde::Serialize;

/// Items that succeeded, by their verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct VerdictCounts {
    /// Those that were found to be as they should be.
    pub passed: u64,
    /// Those that somebody has to look at.
    pub needs_review: u64,
    /// Those that were found not to be as they should be.
    pub failed: u64,
    /// Those that no stage gave a verdict of.
    pub none: u64,
}

impl VerdictCounts {
    /// Whether any item has a verdict.
    #[must_use]
    pub fn any(&self) -> bool {
        self.passed + self.needs_review + self.failed > 0
    }

    /// Those with a verdict, by its name.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 3] {
        Verdict::ALL.map(|verdict| (verdict.name(), self.of(verdict)))
    }

    fn of(&self, verdict: Verdict) -> u64 {
        match verdict {
            Verdict::Passed => self.passed,
            Verdict::NeedsReview => self.needs_review,
            Verdict::Failed => self.failed,
        }
    }
}

/// Counts verdicts of items that ended at the stages that are wanted; `succeeded` of them succeeded.
pub(super) fn verdicts(
    counters: &[Counter],
    succeeded: u64,
    wanted: impl Fn(StageNo) -> bool,
) -> VerdictCounts {
    let mut counts = VerdictCounts::default();
    for Counter { metric, n, .. } in counters.iter().filter(|counter| wanted(counter.stage)) {
        let Metric::Verdict(verdict) = metric else { continue };
        let n = u64::try_from(*n).unwrap_or(0);
        match verdict {
            Verdict::Passed => counts.passed += n,
            Verdict::NeedsReview => counts.needs_review += n,
            Verdict::Failed => counts.failed += n,
        }
    }
    counts.none = succeeded.saturating_sub(counts.passed + counts.needs_review + counts.failed);
    counts
}
