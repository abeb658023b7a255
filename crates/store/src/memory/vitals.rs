//! What monitoring asks for.

use std::collections::BTreeMap;

use redrive_core::id::{RunId, StageNo};
use redrive_core::item::{Lane, State as ItemState};
use redrive_core::tally::Counter;

use super::state::State;
use crate::sql::{operation_kind_code, operation_state_code};
use crate::vitals::{OperationCount, PrunedCounters, StageVitals, Vitals, VitalsQuery};

impl State {
    pub(super) fn vitals(&self, query: &VitalsQuery) -> Vitals {
        let mut stages: BTreeMap<(RunId, StageNo), StageVitals> = BTreeMap::new();
        for item in self.items.values().map(|kept| &kept.item) {
            let place = || StageVitals::of(item.run, item.stage);
            match item.state {
                ItemState::Waiting { due, .. } => {
                    let stage = stages.entry((item.run, item.stage)).or_insert_with(place);
                    if item.lane() == Lane::Answer {
                        stage.unanswered += u64::from(due < query.due_before);
                        continue;
                    }
                    stage.next_due = stage.next_due.into_iter().chain([due]).min();
                    stage.overdue += u64::from(due < query.due_before);
                    let came = item.lane() == Lane::Retry && query.since < due && due <= query.now;
                    stage.came_due += u64::from(came);
                    stage.backing_off += u64::from(item.lane() == Lane::Retry && due > query.now);
                }
                ItemState::Running { worker, .. } if !self.holds(worker, query.now) => {
                    stages.entry((item.run, item.stage)).or_insert_with(place).orphans += 1;
                }
                _ => {}
            }
        }
        let most = query.most as u64;
        let told = |stage: StageVitals| StageVitals {
            overdue: stage.overdue.min(most),
            backing_off: stage.backing_off.min(most),
            came_due: stage.came_due.min(most),
            unanswered: stage.unanswered.min(most),
            ..stage
        };
        Vitals {
            stages: stages.into_values().map(told).collect(),
            pruned: self.pruned(),
            operations: self.operations_by_state(),
        }
    }

    fn pruned(&self) -> Vec<PrunedCounters> {
        let mut all: Vec<PrunedCounters> = Vec::new();
        for ((pipeline, stage, metric), n) in &self.pruned {
            let counter = Counter { stage: *stage, metric: *metric, n: *n };
            match all.last_mut().filter(|last| last.pipeline == *pipeline) {
                Some(last) => last.counters.push(counter),
                None => all.push(PrunedCounters { pipeline: pipeline.clone(), counters: vec![counter] }),
            }
        }
        all
    }

    fn operations_by_state(&self) -> Vec<OperationCount> {
        let mut counts: BTreeMap<(i64, i64), OperationCount> = BTreeMap::new();
        for operation in self.operations.values() {
            let (kind, state) = (operation.kind, operation.state);
            let key = (operation_kind_code(kind), operation_state_code(state));
            counts.entry(key).or_insert(OperationCount { kind, state, n: 0 }).n += 1;
        }
        counts.into_values().collect()
    }

    /// Keeps of the counters of a run that is forgotten what only grows.
    pub(super) fn keep_what_grows(&mut self, run: RunId) {
        let Some(row) = self.runs.get(&run) else { return };
        let pipeline = row.spec.pipeline.clone();
        for Counter { stage, metric, n } in self.counters_of(run) {
            if metric.only_grows() {
                let sum = self.pruned.entry((pipeline.clone(), stage, metric)).or_default();
                *sum = sum.saturating_add(n);
            }
        }
    }
}
