//! What goes in and out of each stage, from the counters of all of them.

use redrive_core::time::Timestamp;
use redrive_engine::report::{Attempts, StageReport};
use redrive_store::StageDue;
use serde::Serialize;

/// A stage of a run, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StageView {
    /// Its name.
    pub name: String,
    /// The stage whose children run through it.
    pub below: Option<String>,
    /// Items that came to it, ever.
    #[serde(rename = "in")]
    pub came: u64,
    /// Items that passed it, ever.
    #[serde(rename = "out")]
    pub passed: u64,
    /// Items that wait at it.
    pub waiting: u64,
    /// Items that it works on.
    pub running: u64,
    /// Items whose children are worked on.
    pub joining: u64,
    /// Items that died at it.
    pub dead: u64,
    /// Items that it filtered out.
    pub filtered: u64,
    /// Items that are still to leave it or to come to it, as far as they are in the run.
    pub to_do: u64,
    /// How long the item that has waited longest is due already, in milliseconds; `null` when none is.
    pub oldest_ms: Option<i64>,
    /// In how many milliseconds its next waiting item is due; `null` when none waits, or one is due.
    pub next_in_ms: Option<i64>,
    /// In how many milliseconds the last of its waiting items is due; `null` when none waits, or all are due.
    pub last_in_ms: Option<i64>,
    /// Its attempts.
    pub attempts: Attempts,
}

/// Sees each stage with those that follow it in the same list: an item that is further on has passed it.
pub(super) fn stage_views(stages: &[StageReport], dues: &[StageDue], now: Timestamp) -> Vec<StageView> {
    let view = |(at, stage): (usize, &StageReport)| {
        let same_list = |other: &&StageReport| other.below == stage.below;
        let further: u64 = stages[at + 1..].iter().filter(same_list).map(|other| other.counts.admitted).sum();
        let before: u64 = stages[..at].iter().filter(same_list).map(|other| other.counts.live()).sum();
        let waits = dues.iter().find(|due| due.stage.index() == at);
        let due = waits.map(|due| due.at.0.saturating_sub(now.0));
        let last = waits.map(|due| due.last.0.saturating_sub(now.0));
        let counts = &stage.counts;
        StageView {
            name: stage.name.clone(),
            below: stage.below.clone(),
            came: counts.admitted + further,
            passed: counts.succeeded + further,
            waiting: counts.waiting,
            running: counts.running,
            joining: counts.joining,
            dead: counts.dead,
            filtered: counts.filtered,
            to_do: counts.live() + before,
            oldest_ms: due.filter(|ms| *ms <= 0).map(|ms| -ms),
            next_in_ms: due.filter(|ms| *ms > 0),
            last_in_ms: last.filter(|ms| *ms > 0),
            attempts: stage.attempts,
        }
    };
    stages.iter().enumerate().map(view).collect()
}

#[cfg(test)]
mod tests {
    use redrive_core::id::StageNo;
    use redrive_core::status::Counts;

    use super::*;

    fn stage(name: &str, below: Option<&str>, counts: Counts) -> StageReport {
        let admitted = counts.live() + counts.finished();
        StageReport {
            name: name.to_owned(),
            below: below.map(str::to_owned),
            counts: Counts { admitted, ..counts },
            awaited: 0,
            verdicts: redrive_engine::report::VerdictCounts::default(),
            attempts: Attempts::default(),
            usage: None,
        }
    }

    #[test]
    fn what_is_further_on_came_in_and_went_out_before() {
        let none = Counts::default;
        let stages = [
            stage("split", None, Counts { waiting: 5, joining: 2, dead: 1, ..none() }),
            stage("embed", Some("split"), Counts { running: 3, succeeded: 30, ..none() }),
            stage("store", None, Counts { waiting: 4, succeeded: 10, filtered: 1, ..none() }),
        ];
        let dues = [
            StageDue { stage: StageNo(0), at: Timestamp(400), last: Timestamp(9_000) },
            StageDue { stage: StageNo(2), at: Timestamp(1_500), last: Timestamp(1_500) },
        ];
        let views = stage_views(&stages, &dues, Timestamp(1_000));
        let flow: Vec<_> = views.iter().map(|view| (view.came, view.passed, view.to_do)).collect();
        assert_eq!(flow, [(23, 15, 7), (33, 30, 3), (15, 10, 11)]);
        let waits: Vec<_> =
            views.iter().map(|view| (view.oldest_ms, view.next_in_ms, view.last_in_ms)).collect();
        assert_eq!(waits, [(Some(600), None, Some(8_000)), (None, None, None), (None, Some(500), Some(500))]);
    }
}
